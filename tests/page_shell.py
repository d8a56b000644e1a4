"""A terminal for the pages: what a reader types is done, line by line, as nearly as a test may.

==========================  ======================================================================
a line                      is
==========================  ======================================================================
`wattveil …`                run, in this process
`wattveil serve … &`        started; it must say where it serves, live, and end well
`kill %1`, then `wait`      the end of the first that was started
`export NAME=…`             done by bash; `wattveil_…` is the token that was shown last
`curl`, `pg_dump`, …        run by bash, within the folder of the page
`make …`                    expanded (`make --dry-run`): it would take minutes
`pip install …`             read: extras and files that it names are there
`python …`, `pytest …`      read: an example that the tests run as a notebook, tests that exist
`source …/activate`         left out: tests run in an environment already
==========================  ======================================================================

The usual port may be taken on this machine: the page's servers get free ones.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from typer.testing import CliRunner

from tests.doc_pages import REPOSITORY, arguments_of_ours, command_of, commands_in, words_of
from tests.process_guard import guard, unguard
from tools.build_notebooks import scripts
from wattveil.cli import app

PROGRAMS = {
    "cp",
    "createdb",
    "curl",
    "mkdir",
    "openssl",
    "pg_dump",
    "pg_restore",
    "sqlite3",
    "touch",
}
"""Of others, and harmless in a folder of the test; a line with any other is refused."""

USUAL_PORTS = ("8400", "8443")
_TOKEN = re.compile(r"wattveil_[\w-]{20,}")
_PAUSE_SECONDS = 0.05
_PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


class Shell:
    """A terminal in the folder where the test stands; what it started ends with it."""

    def __init__(self, environment: pytest.MonkeyPatch) -> None:
        self._environment = environment
        self._started: list[Background] = []
        self._token: str | None = None
        self._ports = {port: _free_port() for port in USUAL_PORTS}

    def __enter__(self) -> Self:
        """Sit down at it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End what still runs; that it ended before its time is a fault, unless there was one."""
        for one in self._started:
            one.end(must_live=kind is None)

    def at_free_ports(self, text: str) -> str:
        """Return a text with free ports in place of the usual ones."""
        for usual, free in self._ports.items():
            text = re.sub(rf"\b{usual}\b", free, text)
        return text

    def type(self, block: str) -> None:
        """Do every line of a block."""
        for command in commands_in(self.at_free_ports(block)):
            self._do(command)

    def start(self, command: list[str]) -> None:
        """Start a server that ends with the page."""
        self._started.append(server := Background(command))
        self._notice(server.first_words())

    def _do(self, command: str) -> None:
        words = words_of(os.path.expandvars(command))
        words[0] = program = words[0].removeprefix(".venv/bin/")
        match program:
            case "wattveil" if words[-1] == "&":
                self.start([sys.executable, "-m", "wattveil", *self._addressed(words[1:-1])])
            case "wattveil":
                self._run(words)
            case "kill":
                self._started.pop(int(words[1].removeprefix("%")) - 1).end(must_live=True)
            case "wait":
                assert not self._started, "a reader would wait for ever"
            case "export":
                self._export(command, words)
            case "source":
                assert words[1:] == [".venv/bin/activate"], command
            case _ if program in PROGRAMS:
                _bash(command)
            case _:
                read(words)

    def _run(self, words: list[str]) -> None:
        arguments = arguments_of_ours(words)
        assert arguments == words[1:], f"a line of its own, without pipes: {words}"
        result = CliRunner().invoke(app, self._addressed(arguments))
        assert result.exit_code == 0, result.output
        self._notice(result.output)

    def _addressed(self, arguments: list[str]) -> list[str]:
        """Return arguments with the free port, where the usual one is what they leave out."""
        command, _ = command_of(arguments)
        left_out = [
            [one.opts[0], self.at_free_ports(str(one.default))]
            for one in command.params
            if self.at_free_ports(str(one.default)) != str(one.default)
            and one.opts[0] not in arguments
        ]
        return [*arguments, *(word for pair in left_out for word in pair)]

    def _notice(self, said: str) -> None:
        for token in _TOKEN.findall(said):
            self._token = token

    def _export(self, command: str, words: list[str]) -> None:
        name = words[1].partition("=")[0]
        if "wattveil_…" in command:
            assert self._token is not None, "no token was shown before"
            command = command.replace("wattveil_…", self._token)
        alone = command.removeprefix("export ")  # bash hides that a command in it failed, otherwise
        self._environment.setenv(name, _bash(f"{alone}\necho ${name}").removesuffix("\n"))


class Background:
    """A server that a page starts with `&`."""

    def __init__(self, command: list[str]) -> None:
        self._said = Path(f"said-{time.monotonic_ns()}.txt").absolute()
        self._command = shlex.join(command)
        self._said.touch()
        reading, terminal = os.openpty()  # the first token is printed to a terminal only
        self._process = subprocess.Popen(
            command,
            stdout=terminal,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},  # no line is broken
            start_new_session=True,
        )
        guard(self._process.pid)
        os.close(terminal)
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()

    def _listen(self, reading: int) -> None:
        """Write down what appears on the terminal, until it is closed."""
        with self._said.open("ab", buffering=0) as said, suppress(OSError):
            while content := os.read(reading, 4096):
                said.write(content)
        os.close(reading)

    def first_words(self) -> str:
        """Return what it said until it served."""
        while "Serving " not in (said := self._said.read_text()):
            assert self._process.poll() is None, f"{self._command} ended: {said}"
            time.sleep(_PAUSE_SECONDS)
        return said

    def end(self, *, must_live: bool) -> None:
        """Tell it to end, as Ctrl-C would."""
        lived = self._process.poll() is None
        if lived:
            self._process.send_signal(signal.SIGTERM)
        ended = self._process.wait()
        unguard(self._process.pid)
        if must_live:
            assert (lived, ended) == (True, 0), f"{self._command}: {self._said.read_text()}"


def read(words: list[str]) -> None:
    """Check a line that no test may run: what it names must be there."""
    match words[0]:
        case "make":
            _bash(f"cd {shlex.quote(str(REPOSITORY))} && {shlex.join(['make', '-n', *words[1:]])}")
        case "pip":
            read_install(words)
        case "python":
            assert words[1:] in [[str(one.relative_to(REPOSITORY))] for one in scripts()], words
        case "pytest":
            assert all((REPOSITORY / word).exists() for word in words[1:]), words
        case _:
            raise AssertionError(f"no rule for the line {shlex.join(words)}")


def read_install(words: list[str]) -> None:
    """Check `pip install` of the package, or of the folder, with extras that exist."""
    said = re.fullmatch(
        r"pip install (?:--constraint requirements/dev\.txt )?(?:--editable )?"
        r"(?:wattveil|\.)(?:\[([a-z,]+)\])?",
        " ".join(words),
    )
    assert said is not None, words
    assert set((said[1] or "release").split(",")) <= set(_PROJECT["optional-dependencies"]), words


def missing_on_this_machine(block: str) -> set[str]:
    """Return the programs of others that a block wants, and that are not here."""
    wanted = {words_of(command)[0] for command in commands_in(block)} & PROGRAMS
    return {program for program in wanted if shutil.which(program) is None}


def _bash(command: str) -> str:
    line = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])
