"""Compilation of loops with numba, and threads to run them in."""

import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, ParamSpec, TypeVar, cast

# Without the extra `release` loops run as Python, which is enough for `verify`.
numba: Any = importlib.import_module("numba") if importlib.util.find_spec("numba") else None

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

THREADS = 2
_SPANS = 64  # fixed, so that partial sums do not depend on the number of threads
_SMALLEST_SPAN = 256
_thread = local()


def compiled(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile with numba: machine code is cached on disk, the interpreter lock released.

    Threads are those of `over_spans`, not numba's: its thread layers abort when two Python threads
    enter at once or after a fork, as in a server.
    """
    jit = numba and numba.njit(cache=True, nogil=True, error_model="numpy")
    return cast("Callable[_Arguments, _Result]", jit(function)) if jit else function


def over_spans(n_rows: int, work: Callable[[int, int, int], _Result]) -> list[_Result]:
    """Call ``work(span, first, last)`` for consecutive spans of rows; results in span order."""
    n_spans = max(1, min(_SPANS, n_rows // _SMALLEST_SPAN))
    edges = [n_rows * span // n_spans for span in range(n_spans + 1)]
    return in_threads(work, range(n_spans), edges[:-1], edges[1:])


def in_threads(work: Callable[..., _Result], *arguments: Sequence[Any]) -> list[_Result]:
    """Call a function for each set of arguments; results in their order.

    A worker thread of such a call, or one after `stay_in_one_thread`, makes all calls itself.
    """
    if len(arguments[0]) == 1 or getattr(_thread, "is_alone", False):
        return list(map(work, *arguments))
    with ThreadPoolExecutor(THREADS, initializer=stay_in_one_thread) as threads:
        return list(threads.map(work, *arguments))


def stay_in_one_thread() -> None:
    """Make this thread process all its spans itself from now on."""
    _thread.is_alone = True
