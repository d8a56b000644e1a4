"""What every test shares: its folder is its marker, and what makes many runs affordable."""

import os
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.many_runs import draw_in_blocks, remember_constants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers import Running

_TESTS = Path(__file__).parent
_QUICK_START = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
    " --conf spark.sql.shuffle.partitions=4 pyspark-shell"
)
_MARKED_FOLDERS = ("browser", "statistical")
_UNTRACED_FOLDERS = ("browser", "docs", "property", "statistical")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of a marked folder, so that `-m "not statistical"` needs no decorator.

    Thousands of runs of the same lines need not be traced: every line is covered by other tests.
    Tracing them takes half as long again, or as long again, as running them.
    """
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
        if folder in _UNTRACED_FOLDERS:
            item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Take the tracer away from tests marked `no_cover`.

    pytest-cov does so, but in a process of pytest-xdist it has two tracers, and stops one.
    """
    is_marked = item.get_closest_marker("no_cover") is not None
    if not is_marked and "no_cover" not in getattr(item, "fixturenames", ()):
        yield
        return
    here, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        sys.settrace(here)
        threading.settrace(in_threads)


@pytest.fixture
def constants_once(monkeypatch: pytest.MonkeyPatch, no_cover: None) -> None:  # noqa: ARG001 - many runs
    """Compute once what is the same in every run: no noise, nothing that differs between runs."""
    remember_constants(monkeypatch)


@pytest.fixture
def many_runs(monkeypatch: pytest.MonkeyPatch, no_cover: None) -> None:  # noqa: ARG001 - many runs
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
    from tests.ledgers import broken  # noqa: PLC0415 - most tests need no server
    from tests.servers import furnish, serving  # noqa: PLC0415

    with serving(tmp_path_factory.mktemp("server")) as running:
        furnish(running)
        yield running
        assert broken(running.house.ledger) == []


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Return a Spark session with one executor in this machine, for all tests of a process."""
    from wattveil.engines.session import spark_session  # noqa: PLC0415 - most tests need no Spark
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
