"""The commonest mistakes of a new user, typed: what each message must contain, and must not.

A message is one or two sentences on standard error. It names the option or file, the rule and the
value, and what to do; it has no traceback and nothing of Python.
"""

import json
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from datetime import date
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from tests.fresh_modules import fresh_modules
from tests.sample_bundles import some_profiles, without_plan_simulation
from wattveil.bundle.keys import write_key
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.cli import app, release
from wattveil.cli.data import write_readings
from wattveil.engines.spark.spark_session import MIN_JAVA
from wattveil.errors import (
    InvalidFileError,
    MissingExtraError,
    MissingJavaError,
    ServerRefusalError,
)
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles
from wattveil.server.run import _listening
from wattveil.terminal import JSON_ERRORS, Console, InvalidOption, explained, refusals


class Mistake(NamedTuple):
    """What is typed, and what the message names."""

    typed: str
    code: int
    names: str
    """Option or file."""
    value: str
    """What was given; empty if it was left out."""
    remedy: str
    """Part of the rule that says what to do."""


RELEASE = "release profiles.parquet --epsilon 1"
LONDON = "--timezone Europe/London --out new.parquet"
MISTAKES = [
    Mistake("relase profiles.parquet", 2, "relase", "relase", "Did you mean 'release'?"),
    Mistake("release", 2, "PROFILES", "", "wattveil profiles"),
    Mistake("profiles readings.parquet --tz UTC", 2, "--tz", "", "Did you mean --timezone?"),
    Mistake(f"{RELEASE} --levels a,b --plan", 2, "--levels", "a, b", "given with --by"),
    Mistake(
        f"profiles home.csv {LONDON} --column stamp=kwh", 1, "home.csv", "'kwh' is given", "value="
    ),
    Mistake("release profiles.parquet", 2, "--epsilon", "", "such as 1.0; or --target-error"),
    Mistake(f"{RELEASE} --yes --out bundle/b", 2, "--out", "bundle/b", "outside of the bundle"),
    Mistake("release profiles.parquet --epsilon one", 2, "--epsilon", "one", "a number"),
    Mistake(
        "release profiles.parquet --epsilon 0",
        2,
        "--epsilon",
        "0",
        "where 1 or less is considered strong",
    ),
    Mistake("release profiles.parquet --epsilon -1", 2, "--epsilon", "-1", "above 0"),
    Mistake(f"{RELEASE} --delta 1", 2, "--delta", "1", "such as 1e-6"),
    Mistake(f"{RELEASE} --delta 0", 2, "--delta", "0", "above 0"),
    Mistake(f"{RELEASE} --target-error 0.1kW", 2, "--target-error", "0.1kW", "omitted with"),
    Mistake("release profiles.parquet --target-error 1", 2, "--target-error", "1", "0.1kW"),
    Mistake(
        f"{RELEASE} --clusters 800 --customers 500",
        2,
        "--clusters must be at most --customers (500); got 800. Rule of thumb: at most 50.",
        "800",
        "at most",
    ),
    Mistake(f"{RELEASE} --clusters six", 2, "--clusters", "six", "a whole number"),
    Mistake(f"{RELEASE} --clusters 0", 2, "--clusters", "0", "at least 1"),
    Mistake(f"{RELEASE} --share segments=1", 2, "--share", "segments", "one of: clusters"),
    Mistake(f"{RELEASE} --share load", 2, "--share", "load", "product=weight"),
    Mistake(f"{RELEASE} --by class", 2, "--levels", "", "such as single,couple,pv"),
    Mistake(f"{RELEASE} --levels a,b", 2, "--by", "", "the attribute"),
    Mistake(f"{RELEASE} --by zip --levels a", 2, "--by", "zip", "one of: class"),
    Mistake(f"{RELEASE} --real-ids", 2, "--real-ids", "", "without --label-epsilon"),
    Mistake(f"{RELEASE} --label-epsilon 2", 2, "--label-epsilon", "2", "below epsilon = 1.0"),
    Mistake(
        f"{RELEASE} --label-epsilon 0.5 --yes --out new",
        2,
        "--customer-list",
        "none",
        "all customers",
    ),
    Mistake(f"{RELEASE} --customer-list no.txt", 1, "--customer-list", "no.txt", "check the path"),
    Mistake(f"{RELEASE} --customer-list empty", 1, "--customer-list", "empty", "is a folder"),
    Mistake(f"{RELEASE} --key no.key", 1, "--key", "no.key", "does not exist"),
    Mistake("release empty --epsilon 1", 1, "empty", "empty", "this is a folder"),
    Mistake(f"{RELEASE} --tier local", 2, "--tier", "local", "one of: global, instance"),
    Mistake(f"{RELEASE} --normalise --tier instance", 2, "--normalise", "", "omitted"),
    Mistake(f"{RELEASE} --out bundle --yes", 3, "--out", "bundle", "a new folder"),
    Mistake(f"{RELEASE} --out no/bundle --yes", 2, "--out", "no/bundle", "one that exists"),
    Mistake(f"{RELEASE} --out new", 2, "--yes", "", "no terminal is available"),
    Mistake(f"{RELEASE} --key utility.key.pub", 1, "utility.key.pub", "", "wattveil admin key"),
    Mistake(f"{RELEASE} --engine dask", 2, "--engine", "dask", "one of: local, spark"),
    Mistake(f"{RELEASE} --engine spark", 2, "--master", "", "such as local[2]"),
    Mistake(
        f"profiles readings.parquet {LONDON} --epsilon 1",
        2,
        "--epsilon is an option of `wattveil release`",
        "--epsilon",
        "release",
    ),
    Mistake(
        f"profiles readings.parquet {LONDON} --period 2024-01-02 2024-01-01",
        2,
        "--period",
        "2024-01-02, 2024-01-01",
        "the first must be before the second",
    ),
    Mistake(
        f"profiles readings.parquet {LONDON} --period March 2024-01-01",
        2,
        "--period",
        "March",
        "a date such as 2025-03-03",
    ),
    Mistake(f"{RELEASE} --seed 1", 2, "--seed", "--seed", "cannot be repeated"),
    Mistake("release profiles.parquet --eps 1", 2, "--eps.", "", "Did you mean --epsilon?"),
    Mistake(f"{RELEASE} --n-clusters 3", 2, "--n-clusters", "", "Did you mean --clusters?"),
    Mistake(f"{RELEASE} --output new", 2, "--output", "", "Did you mean --out?"),
    Mistake("realease profiles.parquet", 2, "realease", "", "Did you mean 'release'?"),
    Mistake("release no.parquet --epsilon 1", 1, "PROFILES:", "no.parquet", "check the path"),
    Mistake("release readings.parquet --epsilon 1", 1, "readings.parquet", "", "wattveil profiles"),
    Mistake("release notes.txt --epsilon 1", 1, "notes.txt", "", "a Parquet file"),
    Mistake(f"profiles no.csv {LONDON}", 1, "SOURCE:", "no.csv", "check the path"),
    Mistake(f"profiles empty {LONDON}", 1, "empty", "empty", "at least one file of readings"),
    Mistake(f"profiles notes.txt {LONDON}", 1, "notes.txt, line 1", "hello", "separated by"),
    Mistake(
        f"profiles other.csv {LONDON}", 1, "other.csv has no column", "x, y", "--column customer="
    ),
    Mistake("profiles readings.parquet", 2, "--out", "", "file for the profiles"),
    Mistake(
        "profiles readings.parquet --timezone London --out new.parquet",
        2,
        "--timezone",
        "London",
        "such as Europe/London",
    ),
    Mistake(f"profiles readings.parquet {LONDON} --unit MW", 2, "--unit", "MW", "kWh, Wh"),
    Mistake(f"profiles readings.parquet {LONDON} --column id=x", 2, "--column", "id", "customer"),
    Mistake(
        f"profiles readings.parquet {LONDON} --column customer=x",
        1,
        "readings.parquet",
        "customer_id",
        "the column 'x' (given as customer)",
    ),
    Mistake(
        f"profiles readings.parquet {LONDON} --grid-minutes 7",
        2,
        "--grid-minutes",
        "7",
        "one of: 5, 15, 30, 60",
    ),
    Mistake(
        "profiles readings.parquet --period 2023-01-01 --out new.parquet",
        2,
        "--period",
        "2023-01-01",
        "2 values, separated by spaces",
    ),
    Mistake("verify", 2, "BUNDLE", "", "wattveil release"),
    Mistake("verify no", 1, "BUNDLE:", "no", "does not exist"),
    Mistake("verify empty", 1, "empty:", "empty", "a folder of `wattveil release`"),
    Mistake("verify bundle --key empty", 1, "--key", "empty", "is a folder"),
    Mistake("verify profiles.parquet", 1, "profiles.parquet", "", "neither a bundle folder nor"),
    Mistake("verify bundle --key utility.key", 1, "utility.key", "", "the .pub file"),
    Mistake("synthesize bundle --customers 9 --out s.txt", 2, "--out", "s.txt", ".parquet or .csv"),
    Mistake("synthesize bundle --out s.csv", 2, "--customers", "", "number of"),
    Mistake("synthesize empty --customers 9 --out s.csv", 1, "empty", "", "wattveil release"),
    Mistake(
        "synthesize bundle --customers 9 --out s.csv --power-factor 0.9",
        2,
        "--power-factor",
        "0.9",
        "omitted, unless --format is one of: opendss",
    ),
    Mistake(
        "synthesize bundle --customers 9 --out s.dss --buses no.csv",
        1,
        "--buses",
        "no.csv",
        "does not exist",
    ),
    Mistake("export bundle --out s.csv --area ward", 2, "--area", "ward", "without --geometry"),
    Mistake(
        "export bundle --out s.geojson --geometry no.geojson",
        1,
        "--geometry",
        "no.geojson",
        "does not exist",
    ),
    Mistake("evaluate profiles.parquet no.parquet", 1, "no.parquet", "", "check the path"),
    Mistake("compare profiles.parquet --epsilon one", 2, "--epsilon", "one", "commas"),
    Mistake("rules profiles.parquet --by zip", 2, "--by", "zip", "one of: class"),
    Mistake("reproduce figure9", 2, "FIGURES", "figure9", "all, or one of: differencing"),
    Mistake("simulate --out new.parquet --minutes 7", 2, "--minutes", "7", "one of: 15, 30, 60"),
    Mistake("simulate --out no/new.parquet", 2, "--out", "no/new.parquet", "a folder that exists"),
    Mistake("admin key", 2, "--out", "utility.key", "never overwritten"),
    Mistake("admin analyst --name ann", 2, "WATTVEIL_TOKEN", "", "wattveil admin token"),
    Mistake("admin token --name ann --role boss", 2, "--role", "boss", "one of: admin, analyst"),
    Mistake("admin ledger audit --data empty", 1, "empty", "", "wattveil serve --data empty"),
    Mistake(
        "admin token --data empty --name ann --role admin",
        1,
        "empty",
        "",
        "prints the first token",
    ),
    Mistake(
        "serve --data server --tls-certificate no.pem --tls-key utility.key",
        2,
        "--tls-certificate",
        "no.pem",
        "a file that exists",
    ),
    Mistake("serve --data server --host 0.0.0.0", 2, "--host", "0.0.0.0", "--tls-certificate"),  # noqa: S104 - it is refused
]

_PYTHON = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|Errno|Traceback|\[\]|\(\)|[\[{(]['\"]|\b[a-z]+=['\"\[(]|Error\b(?!:)"
)
"""What Python would write: values of no meaning, brackets, quotes, names of classes."""
_ARGUMENT = re.compile(r"(?<![\w/.(-])[a-z]+_[a-z_]+\b(?!\.json)")
"""A parameter of Python, where an option is meant."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what a new user has around."""
    here = tmp_path_factory.mktemp("user")
    some_profiles().write_parquet(here / "profiles.parquet")
    readings = {"customers": 2, "days": 2, "minutes": 60, "seed": 1, "missing": 0.0}
    (here / "empty").mkdir()
    (here / "notes.txt").write_text("hello\n")
    (here / "other.csv").write_text("x,y\n1,2\n")
    (here / "home.csv").write_text("id,timestamp,kwh\na,2025-03-03 00:00,1\n")
    write_key(here / "utility.key")
    write_readings(
        here / "readings.parquet",
        **readings,  # type: ignore[arg-type] # keywords of several types
        start=date(2025, 3, 3),
        timezone="Europe/London",
        quiet=True,
    )
    request = ReleaseRequest(epsilon=1.0, weights={"clusters": 0.0, "synthesis": 0.0})
    with without_plan_simulation():
        profiles = some_profiles()
        release_bundle(profiles, plan_release(request, profiles.grid), here / "bundle")
    return here


@pytest.fixture(autouse=True)
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Type in that folder; nothing is planned or released."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("WATTVEIL_TOKEN", raising=False)
    for work in ("plan_release", "release_bundle"):
        monkeypatch.setattr(release, work, lambda *_, **__: pytest.fail("computed"))
    before = sorted(folder.iterdir())
    yield
    assert sorted(folder.iterdir()) == before


def check_message(message: str) -> None:
    """Check what every message keeps to."""
    assert message.endswith((".", "?")), message
    assert len(re.findall(r"[.?!](?: |$)", message)) <= 2, message
    assert _PYTHON.search(message) is None, message
    rule = re.split("; (?:got|found) ", message)[0]
    assert _ARGUMENT.search(rule) is None, message


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.typed)
def test_a_mistake_is_explained(mistake: Mistake) -> None:
    """Option or file, value and remedy, with the documented exit code."""
    result = CliRunner().invoke(app, shlex.split(mistake.typed), env={"COLUMNS": "60"})
    assert result.exit_code == mistake.code, result.output
    assert isinstance(result.exception, SystemExit)
    first, *more = result.stderr.splitlines()
    message = first.removeprefix("Error: ")
    assert message != first
    check_message(message)
    for words in (mistake.names, mistake.value, mistake.remedy):
        assert words in message, message
    assert all(line.startswith("  ") for line in more)
    assert not result.stdout


@pytest.mark.parametrize(
    "error",
    [
        MissingExtraError("the server", "serve"),
        MissingJavaError(MIN_JAVA, None),
        MissingJavaError(MIN_JAVA, 'openjdk version "11"'),
        ServerRefusalError("unauthorized", "a valid token is required", {}),
        ServerRefusalError("unreachable", "no response from https://x; check the address", {}),
        ServerRefusalError(
            "budget_refused",
            "the budget does not cover the price; nothing was charged; a quote states what fits",
            {"account": "own"},
        ),
        ServerRefusalError(
            "invalid_request", "the request is invalid", {"errors": [{"field": "n", "rule": "r"}]}
        ),
        PermissionError(13, "Permission denied", "profiles.parquet"),
        NotADirectoryError(20, "Not a directory", "profiles.parquet/x"),
        OSError(28, "No space left on device", "new.parquet"),
        OSError(28, "No space left on device"),
    ],
    ids=str,
)
def test_other_errors_keep_to_the_same_rules(error: Exception) -> None:
    """What is missing on the machine, refused by a server or by the system."""
    check_message(f"{explained(error)}.")


def test_errors_as_json_end_with_the_command() -> None:
    """A command after one with `--json` in the same process prints its error as text only."""
    typed = ["release", "none.parquet", "--epsilon", "1", "--yes", "--out", "out"]
    assert json.loads(CliRunner().invoke(app, [*typed, "--json"]).stdout)["error"]
    assert not JSON_ERRORS.get()
    assert not CliRunner().invoke(app, typed).stdout


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command installs what is missing from the wheel."""
    with fresh_modules("wattveil.server.ledger"):
        monkeypatch.setitem(sys.modules, "sqlalchemy", None)
        result = CliRunner().invoke(app, ["admin", "ledger", "audit"])
    assert result.exit_code == 1
    assert 'pip install "wattveil[serve]"' in result.stderr


def test_a_server_that_cannot_be_reached_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option and the variable that hold the address."""
    monkeypatch.setenv("WATTVEIL_TOKEN", "wattveil_token_of_nobody")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    result = CliRunner().invoke(app, ["admin", "tokens", "--name", "ann", "--url", address])
    assert result.exit_code == 1
    assert "--url or WATTVEIL_URL" in result.stderr


def test_a_port_in_use_is_named() -> None:
    """By the option that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidOption) as refused, refusals():
            _listening("127.0.0.1", port)
    message = refused.value.format_message()
    check_message(f"{message}.")
    assert "--port" in message
    assert message.endswith(f"port {port} is already in use")


def test_a_bundle_of_another_version_is_named(folder: Path, tmp_path: Path) -> None:
    """Not as a broken manifest: the remedy is another version of the program."""
    manifest = json.loads((folder / "bundle" / "manifest.json").read_text())
    old = tmp_path / "old"
    old.mkdir()
    (old / "manifest.json").write_text(json.dumps(manifest | {"manifest_version": "1"}))
    result = CliRunner().invoke(app, ["verify", str(old)], env={"COLUMNS": "120"})
    assert result.exit_code == 1
    assert "version 1" in result.stdout
    words = " ".join(result.stdout.split())
    assert "Verify it with the version of Wattveil that wrote it" in words


@pytest.mark.parametrize("yes", [True, False])
def test_too_many_clusters_are_reported_before_the_plan(
    yes: bool,  # noqa: FBT001 - of the case
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the public estimate: more or fewer true customers change no letter of it."""
    monkeypatch.setattr(release, "plan_release", lambda *_: typer.Exit(0))
    monkeypatch.setattr(release, "_can_ask", lambda: True)
    command = [*shlex.split(RELEASE), "--clusters", "600", "--out", "new"]
    said = set()
    for customers in (300, 299):
        rows = some_profiles(customers)
        monkeypatch.setattr(Profiles, "read_parquet", lambda *_, rows=rows: rows)
        result = CliRunner().invoke(app, [*command, *(["--yes"] if yes else [])], input="n\n")
        said.add(result.stderr)
        assert ("Continue?" in result.stderr) is not yes
        assert "600 segments for about 1,000 customers (public estimate)" in result.stderr
        assert "leave about 1.7 customers per segment: noise will mask" in result.stderr
        assert "minutes" not in result.stderr
    assert len(said) == 1
    result = CliRunner().invoke(app, [*command[:-4], "--clusters", "100", "--out", "new", "--yes"])
    assert "public estimate" not in result.stderr


def test_a_share_stays_as_it_is_typed() -> None:
    """`--share years=6` is an option already, whose value has an equals sign."""
    rule = "a bundle that was released with years (--share years=6)"
    assert rule in explained(InvalidFileError("b", "file", rule, None))


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("series release", "Did you mean 'add'?"),
        ("series eras", None),
        ("series clos", None),
        ("admin restor", None),
        ("series shw", "Did you mean 'show'?"),
        ("relase", "Did you mean 'release'?"),
    ],
)
def test_no_destructive_command_is_suggested(typed: str, hint: str | None) -> None:
    """A typing error must not lead to what cannot be undone."""
    result = CliRunner().invoke(app, typed.split())
    assert result.exit_code == 2
    assert ("Did you mean" in result.stderr) is (hint is not None)
    assert hint is None or hint in result.stderr


def test_sentences_are_not_wrapped_in_files_and_pipes() -> None:
    """A script can search a sentence; in a terminal it is wrapped between words."""
    text = "one two " * 40
    for terminal, lines in ((False, 1), (True, 6)):
        written = StringIO()
        Console(file=written, width=60, force_terminal=terminal).print(text.strip())
        assert written.getvalue().count("\n") == lines
