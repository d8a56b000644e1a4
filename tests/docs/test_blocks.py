"""Documentation is run: every block of every page, in the order of the page.

`python` and `console` are run; what one block makes, the next finds. `tests/page_shell.py` says how
a line of `console` is done, and which lines are read instead. `sh` is for the few commands that
take too long: they are listed here, each with its reason. Any other language is no code of ours.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.doc_pages import (
    PAGES,
    REPOSITORY,
    Block,
    arguments_of_ours,
    blocks,
    commands_in,
    name_of,
    parse,
    words_of,
)
from tests.live_server import computing_here, furnish, serving
from tests.page_shell import Shell, missing_on_this_machine, read_install
from tests.postgres import postgres_server, require_postgres
from tests.sample_bundles import simulate_plans_once, walk_few_steps

LANGUAGES = {"python", "console", "sh", "text", "json", "yaml", "sql", "csv", "bibtex", "ini"}
NOT_RUN = {
    "wattveil audit profiles.parquet --bundle bundle --record audit.json --key utility.key --tester"
    ' "J. Doe"': "80 releases; the page of the dossier runs it with fewer",
    "wattveil dossier bundle --standard nist-800-226 --standard ofgem --audit audit.json --answers"
    ' answers.toml --key utility.key.pub --sign utility.key --inconclusive-reason "Example with'
    ' few runs" --out dossier': ("needs a person's answers; tests of the dossier sign one"),
    "wattveil verify dossier --key utility.key.pub --bundle bundle": "needs that signed dossier",
    "wattveil total march labelled quarters": "three releases; tests of the command make such ones",
    "sh examples/flagship-release/make_release.sh flagship": "a test runs it with fewer homes",
    "sh examples/scheduled-job/publish_quarter.sh job 2026-04-02": "its own test runs it",
    "wattveil reproduce all --out figures": "eight minutes; tests of reproduce draw each figure",
}
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE))
_CODE_OF_OURS = re.compile(r"^(wattveil |import wattveil|from wattveil)", re.MULTILINE)
_OFFERED = "https://data.town.example"
"""Address of the server in the analyst's pages."""


CODED = [page for page in PAGES if blocks(page.read_text())]


@pytest.mark.parametrize("page", CODED, ids=name_of)
def test_blocks_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A reader who types a page gets what the page says; its claims are asserted in it."""
    code = blocks(page.read_text())
    typed = "\n".join(text for language, text in code if language == "console")
    if missing := missing_on_this_machine(typed):
        pytest.skip(f"not on this machine: {missing}")
    monkeypatch.chdir(tmp_path)
    simulate_plans_once(monkeypatch)
    if "--engine spark" in typed:
        stand_in(request.getfixturevalue("spark"), tmp_path)
        walk_few_steps(monkeypatch)
    with a_database("createdb" in typed, monkeypatch), an_offer(code, monkeypatch) as offered:
        run_page(offered, str(page), monkeypatch)


def stand_in(spark: SparkSession, folder: Path) -> None:
    """Let Spark read paths as this process does: it stands where its Java was started."""
    context: Any = spark.sparkContext
    hadoop = context._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(context._jsc.hadoopConfiguration())
    files.setWorkingDirectory(hadoop.Path(str(folder)))


@contextmanager
def a_database(is_wanted: bool, environment: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: FBT001 - of the page
    """Start PostgreSQL for a page that makes a database, where its programs look for it."""
    if not is_wanted:
        yield
        return
    require_postgres()
    with postgres_server() as database:
        for name, value in database.variables.items():
            environment.setenv(name, value)
        yield


@contextmanager
def an_offer(code: list[Block], environment: pytest.MonkeyPatch) -> Iterator[list[Block]]:
    """Play the administrator for a page whose reader was given an address and a token."""
    if not any(_OFFERED in text for language, text in code if language == "python"):
        yield code
        return
    folder = Path("elsewhere")
    folder.mkdir()
    with computing_here(), serving(folder) as server:  # pages that start one compute in processes
        furnish(server)
        environment.setenv("WATTVEIL_TOKEN", server.tokens["ann"])
        yield [Block(one.language, one.text.replace(_OFFERED, server.url)) for one in code]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n",
        "```console\nwattveil verify nowhere\n```\n",
        "```console\nrm -rf nothing\n```\n",
        "```console\ncurl http://127.0.0.1:8400/healthz\n```\n",
        "```console\nwattveil serve --no-such-option &\n```\n",
        "```console\nexport WATTVEIL_TOKEN=wattveil_…\n```\n",
        "```console\nexport DAY=$(no-such-program)\n```\n",
        "```console\nwattveil verify nowhere | cat\n```\n",
        "```console\nmake money\n```\n",
        "```console\npip install --constraint requirements/dev.txt --editable '.[gold]'\n```\n",
        "```console\npip install wattveil[nothing]\n```\n",
        "```console\npython examples/nothing.py\n```\n",
        "```console\npytest tests/nothing\n```\n",
        "```console\nkill %1\n```\n",
        "```sh\nwattveil verify bundle\n```\n",
        "```py\nimport os\n```\n",
        "```text\nimport wattveil\n```\n",
        "```\nwattveil verify bundle\n```\n",
        "```perl\n1\n```\n",
    ],
)
def test_a_block_that_does_not_work_is_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault of each kind is caught."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, IndexError)):
        run_page(blocks(text), "planted", monkeypatch)


def test_a_server_that_dies_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was started, and is gone when the page ends, is a fault of the page."""
    monkeypatch.chdir(tmp_path)

    def run() -> None:
        with Shell(monkeypatch) as shell:
            shell.start([sys.executable, "-c", "print('Serving nothing', flush=True)"])
            shell._started[-1]._process.wait()  # on a busy machine it ends later than its line

    with pytest.raises(AssertionError, match="Serving nothing"):
        run()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_and_extras_exist(page: Path) -> None:
    """Every `make` target and every `pip install` that the words of a page name."""
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= TARGETS
    for command in re.findall(r"`(pip install[^`]*)`", page.read_text()):
        read_install(words_of(command))


def run_page(code: list[Block], name: str, environment: pytest.MonkeyPatch) -> None:
    """Run every block; names of Python and what was started live as long as the page."""
    space: dict[str, object] = {"__name__": "__main__"}
    with Shell(environment) as shell:
        for language, text in code:
            match language:
                case "python":
                    source = compile(shell.at_free_ports(text), name, "exec")
                    exec(source, space)  # noqa: S102 - our own documentation
                case "console":
                    shell.type(text)
                case "sh":
                    read_only(text)
                case _:
                    assert language in LANGUAGES | {""}, language
                    assert not _CODE_OF_OURS.search(text)


def read_only(text: str) -> None:
    """Let the program read commands that are not run; only those of the list."""
    for command in commands_in(text):
        assert command in NOT_RUN, f"not run, and without a reason: {command}"
        if ours := arguments_of_ours(words_of(command)):
            parse(ours)
