"""What every test shares: its folder is its marker, and what makes many runs affordable."""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.repeated_runs import (
    draw_in_blocks,
    remember_constants,
    restart_seldom,
    share_constants,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.live_server import Running

pytest_plugins = ["tests.noise_sources", "tests.processor_time", "tests.skip_report"]

_TESTS = Path(__file__).parent
_QUICK_START = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
    " --conf spark.sql.shuffle.partitions=4 --conf spark.ui.enabled=false"
    " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
    " --conf spark.sql.adaptive.enabled=false pyspark-shell"
)
_FEW = 5
_SOAK = 10
_LONG_FIRST = ("docs", "integration", "browser", "statistical", "property", "unit")
_MARKED_FOLDERS = ("browser", "statistical")
_UNTRACED_FOLDERS = ("browser", "docs", "property", "statistical")
_FIRST_CASES = pytest.StashKey[dict[str, pytest.Item]]()
_Tracer = Any  # of sys.settrace and threading.settrace, or None
_TRACERS = pytest.StashKey[tuple[_Tracer, _Tracer]]()
_OFF = (None, None)
_FIRST_WORKER = "gw0"
_WITHOUT_CACHES = (("unit", "privacy"), ("property",), ("statistical",))
"""Folders whose tests compute every constant anew, unless they ask for `cached_constants`."""
_WITHOUT_ACCURACY = (
    ("browser",),
    ("integration",),
    ("unit", "bundle"),
    ("unit", "cli"),
    ("unit", "dossier"),
    ("unit", "lab", "audit"),
    ("unit", "server"),
    ("property", "test_replay_properties.py"),
    ("statistical", "test_population_intervals.py"),
    ("statistical", "test_release_audits.py"),
)
"""Where tests claim nothing about the accuracy of clusters."""
_OF_THE_KERNEL = (("unit", "privacy"), ("unit", "release"), ("unit", "test_results.py"))


settings.register_profile("wattveil", deadline=None)  # an example may be slow on a busy machine
settings.load_profile("wattveil")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option of `make test-fast`."""
    parser.addoption(
        "--few-examples",
        action="store_true",
        help=f"draw at most {_FEW} examples per property, and leave out slow tests and Spark",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage while thousands of modules are loaded, nor later among what they hold.

    Every process of pytest-xdist loads the same modules: the first is traced.
    """
    worker = getattr(session.config, "workerinput", {"workerid": _FIRST_WORKER})["workerid"]
    is_first = worker == _FIRST_WORKER
    gc.disable()
    try:
        with nullcontext() if is_first else _tracing(*_OFF):
            return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember the first case of each test, before the order is random."""
    item.config.stash.setdefault(_FIRST_CASES, {}).setdefault(_without_case(item), item)


@pytest.hookimpl(trylast=True)  # after the random order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test of a marked folder, so that `-m "not statistical"` needs no decorator.

    Folders with long tests come first: a process that has nothing left takes short ones from the
    end of the other's list. It also keeps tests together that share a server. Tests on Spark follow
    the pages, one of which uses it: only the process that begins with the pages starts a Spark.

    Tests that are marked `long` are left to `make soak`: further cases of statistical tests, and
    comparisons of utility or of readings whose parts other tests cover.

    Thousands of runs of the same lines need not be traced: every line is covered by other tests.
    Tracing them takes half as long again, or as long again, as running them. Outside of the tests
    of the kernel, the first case of a test is traced, and neither further cases nor slow tests are.

    `make soak` draws ten times the examples of each property.
    """
    first = config.stash.get(_FIRST_CASES, {})
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
        is_further = first[_without_case(item)] is not item
        is_left_out = is_further or item.get_closest_marker("slow") is not None
        if folder in _UNTRACED_FOLDERS or (is_left_out and not _is_in(item.path, _OF_THE_KERNEL)):
            item.add_marker("untraced")
    on_spark = {item for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: _rank(item, is_on_spark=item in on_spark))
    if os.environ.get("WATTVEIL_SOAK"):
        _draw_examples(items, lambda usual: _SOAK * usual)
        return
    left_out = {item for item in items if item.get_closest_marker("long")}
    if config.getoption("--few-examples"):
        left_out |= on_spark | {item for item in items if item.get_closest_marker("slow")}
        _draw_examples(items, lambda usual: min(usual, _FEW))
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


def _without_case(item: pytest.Item) -> str:
    """Return what all cases of a test share."""
    return item.nodeid.partition("[")[0]


def _rank(item: pytest.Item, *, is_on_spark: bool) -> tuple[bool, bool, int]:
    """Return the place of a test in the order: pages, Spark, folders with long tests, others."""
    folder = item.path.relative_to(_TESTS).parts[0]
    is_page = folder == _LONG_FIRST[0]
    return not is_page, not is_on_spark, _LONG_FIRST.index(folder)


def _draw_examples(items: list[pytest.Item], number: Callable[[int], int]) -> None:
    """Change the number of examples of each property; cases of a test share their function."""
    tests = [getattr(item, "obj", None) for item in items]
    functions = {id(one): one for one in (getattr(test, "__func__", test) for test in tests)}
    for function in functions.values():
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None:
            chosen = settings(own, max_examples=number(own.max_examples))
            setattr(function, "_hypothesis_internal_use_settings", chosen)  # noqa: B010 - of any function


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Share scales, channels and grants between tests, outside of those that test them.

    The tracer of coverage is on in fixtures and in traced tests only: pytest and its plugins have
    no line that is measured, and run thousands of times.
    """
    with pytest.MonkeyPatch.context() as patch, _tracing(*_OFF) as found:
        item.config.stash[_TRACERS] = found
        if not _is_in(item.path, _WITHOUT_CACHES):
            share_constants(patch)
        if _is_in(item.path, _WITHOUT_ACCURACY):
            restart_seldom(patch)
        return (yield)


def _is_in(path: Path, folders: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a file is one of these, or in one of these folders."""
    parts = path.relative_to(_TESTS).parts
    return any(parts[: len(folder)] == folder for folder in folders)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Trace fixtures, also those of untraced tests: others may use them later."""
    with _tracing(*request.config.stash.get(_TRACERS, _OFF)):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Trace a test, unless it is marked `untraced`.

    The marker of pytest-cov, `no_cover`, would stop and start coverage, of which a process of
    pytest-xdist has two.
    """
    is_marked = item.get_closest_marker("untraced") is not None
    is_untraced = is_marked or "untraced" in getattr(item, "fixturenames", ())
    with _tracing(*(_OFF if is_untraced else item.config.stash[_TRACERS])):
        yield


@contextmanager
def _tracing(here: _Tracer, in_threads: _Tracer) -> Iterator[tuple[_Tracer, _Tracer]]:
    """Trace this thread and new ones with these, and yield what traced before."""
    before = sys.gettrace(), threading.gettrace()
    sys.settrace(here)
    threading.settrace(in_threads)
    try:
        yield before
    finally:
        sys.settrace(before[0])
        threading.settrace(before[1])


@pytest.fixture
def untraced() -> None:
    """Leave the tracer out of a test, as the marker does; for fixtures of many runs."""


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """Undo the log settings of a server that was started in a test: its stream ends with it."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in [*root.handlers]:
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "closed", False):
            root.removeHandler(handler)


@pytest.fixture
def cached_constants(monkeypatch: pytest.MonkeyPatch, untraced: None) -> None:  # noqa: ARG001 - many runs
    """Compute once what is the same in every run: no noise, nothing that differs between runs."""
    remember_constants(monkeypatch)


@pytest.fixture
def few_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for two local optima of K-means in place of twenty."""
    restart_seldom(monkeypatch)


@pytest.fixture
def repeated_runs(monkeypatch: pytest.MonkeyPatch, untraced: None) -> None:  # noqa: ARG001 - many runs
    """Compute constants once, and draw the system's noise in blocks.

    A block comes from the same sampler with the same scale, and each number is handed out once: a
    run has the law it would have without. That calls are independent is tested without this.
    """
    remember_constants(monkeypatch)
    draw_in_blocks(monkeypatch)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    """Serve one data set to two analysts, to all tests of a process: it takes seconds to start.

    Tests add what they need, under names of their own.
    """
    from tests.live_server import furnish, serving  # noqa: PLC0415
    from tests.sample_ledgers import broken  # noqa: PLC0415 - most tests need no server

    with serving(tmp_path_factory.mktemp("server")) as running:
        furnish(running)
        yield running
        assert broken(running.state.ledger) == []


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Return a Spark session with one executor in this machine, for all tests of a process."""
    from wattveil.engines.spark.spark_session import spark_session  # noqa: PLC0415 - most tests need no Spark
    from wattveil.errors import MissingJavaError  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", _QUICK_START)
        patch.chdir(_TESTS.parent)  # where executors look for `tests`
        try:
            session = spark_session("local[1]")
        except MissingJavaError as error:
            pytest.skip(str(error))
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
