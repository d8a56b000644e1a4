"""List the modules that a call enters, in order: how far a reader of the code has to walk.

``PYTHONPATH=. python -m tools.module_hops`` walks one reading from CSV to an answer of the server:
profiles from readings, a fit of K-means, and an order to a running server, with all threads of the
server that work until it has answered. Modules count once; imports do not count.
"""

import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np

import wattveil as wv
from tests.live_server import QUICK, furnish, serving
from wattveil.readings import read_readings

_SOURCE = str(Path(wv.__file__).parent) + "/"


def main() -> None:
    """Print the modules of three walks."""
    with tempfile.TemporaryDirectory() as folder:
        for name, walk in CALLS.items():
            modules = walk(Path(folder))
            sys.stdout.write(f"{name}: {len(modules)} modules\n  {', '.join(modules)}\n")


def _profiles(folder: Path) -> list[str]:
    hours = np.datetime64("2024-01-01T00:00") + np.arange(60 * 24).astype("timedelta64[h]")
    load = 0.3 + 0.1 * np.sin(np.arange(hours.size))
    values = list(zip(hours, load, strict=True))
    lines = [f"{name},{at}Z,{kwh:.4f}" for name in "abc" for at, kwh in values]
    path = folder / "readings.csv"
    path.write_text("\n".join(["customer,start,kwh", *lines]), encoding="utf-8")
    readings = read_readings(path)
    return _walk(lambda: wv.profiles_from_readings(readings, timezone="UTC"))


def _fit(_: Path) -> list[str]:
    load = np.full((200, 24), 0.5)
    estimator = wv.PrivateKMeans(n_clusters=3, epsilon=1.0, delta=1e-6, clip_kw=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a small budget
        return _walk(lambda: estimator.fit(load))


def _order(folder: Path) -> list[str]:
    found: list[str] = []
    is_on: list[bool] = []
    with _traced(found, is_on), serving(folder) as server:
        furnish(server)
        is_on.append(True)
        server.order("one", QUICK)
        is_on.clear()
    return found


def _walk(call: Callable[[], object]) -> list[str]:
    call()
    found: list[str] = []
    is_on = [True]
    with _traced(found, is_on):
        call()
        is_on.clear()
    return found


@contextmanager
def _traced(found: list[str], is_on: list[bool]) -> Iterator[None]:
    """Note the module of each call of this thread and of threads that start in the block."""

    def trace(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if is_on and event == "call" and code.co_filename.startswith(_SOURCE):
            module = code.co_filename.removeprefix(_SOURCE)
            if code.co_name != "<module>" and module not in found:
                found.append(module)

    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


CALLS = {
    "profiles_from_readings": _profiles,
    "PrivateKMeans.fit": _fit,
    "An order to a server": _order,
}
"""The calls, each with a function that returns the modules in the order of their first entry."""


if __name__ == "__main__":
    main()
