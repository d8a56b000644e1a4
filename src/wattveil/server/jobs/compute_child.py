"""Compute process, for long tasks and for private rows: plans, verification, releases.

It reads one line of JSON per task and writes one per result: a plan, a verdict, the public facts of
a file, or whether a release or a period of a series was computed. All other output, such as
warnings and errors that may quote rows, is discarded. It exits with the server, when its input
ends. An argument limits its memory, in bytes.
"""

import errno
import gc
import json
import os
import resource
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

_OBJECTS_PER_COLLECTION = 10_000
"""New objects before garbage is collected: loading modules makes many, and no garbage."""
_ROOM_FOR_OTHERS = 5
"""Added to its niceness, so that page requests have priority."""

_TEMPORARY_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS),
    *(errno.ENOENT, errno.EACCES, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.EAGAIN),
}
"""A disk is full, read-only or missing, or a folder in use: independent of rows, and temporary."""


def plan(task: dict[str, Any]) -> dict[str, object]:
    """Return the plan of a release, or the rule that the request breaks; the task names no file."""
    from wattveil.bundle.registered_profiles import plan_for  # noqa: PLC0415 - see `main`
    from wattveil.errors import InvalidParameterError  # noqa: PLC0415
    from wattveil.server.ledger.pricing import read_request  # noqa: PLC0415

    try:
        planned = plan_for(read_request(task["request"]), task["grid"], task["allotments"])
    except InvalidParameterError as error:
        return {"broken": [error.field, error.rule]}
    return {"broken": None, "plan": planned.summary.model_dump(mode="json")}


def describe(task: dict[str, Any]) -> dict[str, object]:
    """Return the public facts of a file of profiles, or the rule that it breaks."""
    from wattveil.bundle import registered_profiles  # noqa: PLC0415
    from wattveil.errors import InvalidFileError, InvalidParameterError  # noqa: PLC0415
    from wattveil.server.ledger.pricing import read_request  # noqa: PLC0415

    key = Path(task["fingerprint_key"]).read_bytes()
    try:
        found = registered_profiles.describe(
            Path(task["profiles"]), key=key, request=read_request(task["request"])
        )
    except InvalidFileError as error:  # rules are public; what was found instead is not
        return {"broken": ["file", error.expected]}
    except InvalidParameterError as error:
        return {"broken": [error.field, error.rule]}
    return {"broken": None, "description": asdict(found)}


def release(task: dict[str, Any]) -> dict[str, object]:
    """Write a bundle to the path of the task, and its archive beside it."""
    from wattveil.bundle import keys  # noqa: PLC0415
    from wattveil.bundle import plan as planning  # noqa: PLC0415
    from wattveil.bundle.bundle_archive import write_archive  # noqa: PLC0415
    from wattveil.bundle.cumulative import Cumulative  # noqa: PLC0415
    from wattveil.bundle.produce import read_customer_list  # noqa: PLC0415
    from wattveil.bundle.registered_profiles import release_file  # noqa: PLC0415
    from wattveil.products.product import Expectation  # noqa: PLC0415
    from wattveil.server.ledger.amounts import Amounts  # noqa: PLC0415
    from wattveil.server.ledger.fulfilment import archive_of  # noqa: PLC0415
    from wattveil.server.ledger.pricing import check_paid, read_request  # noqa: PLC0415

    request, made = read_request(task["request"]), task["plan"]
    if made is None:  # an earlier version stored no split with the charge
        granted = planning.granted_plan(request, planning.split_budget(request))
    else:
        granted = planning.granted_plan(
            request,
            planning.allotments_from_json(made["allotments"]),
            {
                name: tuple(Expectation(**one) for one in own)
                for name, own in made["expected"].items()
            },
        )
    check_paid(granted.allotments, Amounts(*task["price"]))
    listed = task["customer_list"]
    with Path(task["profiles"]).open("rb"):
        pass  # the reader does not distinguish a missing disk from an invalid file
    release_file(
        Path(task["profiles"]),
        granted,
        Path(task["out"]),
        fingerprint=task["fingerprint"],
        fingerprint_key=Path(task["fingerprint_key"]).read_bytes(),
        signing_key=keys.read_key(Path(task["signing_key"])),
        customer_list=() if listed is None else read_customer_list(Path(listed)),
        cumulative=Cumulative.from_json(task["cumulative"]),
        published_at=datetime.fromisoformat(task["ordered_at"]),
    )
    write_archive(Path(task["out"]), archive_of(Path(task["out"])))
    return {}


def period(task: dict[str, Any]) -> dict[str, object]:
    """Write the bundle of a period of a series, and its archive; return the hash of its file."""
    from wattveil.bundle import keys  # noqa: PLC0415
    from wattveil.bundle.bundle_archive import write_archive  # noqa: PLC0415
    from wattveil.bundle.registered_series import publish_period  # noqa: PLC0415
    from wattveil.bundle.series_request import SeriesRequest  # noqa: PLC0415
    from wattveil.server.ledger.fulfilment import archive_of  # noqa: PLC0415

    profiles = Path(task["profiles"])
    with profiles.open("rb"):
        pass  # as for a release
    out = Path(task["out"])
    fingerprint = publish_period(
        Path(task["home"]),
        SeriesRequest.parse(task["request"]),
        out,
        profiles=profiles,
        period=task["period"],
        fingerprint_key=Path(task["fingerprint_key"]).read_bytes(),
        others=task["others"],
        stored={label: Path(bundle) for label, bundle in task["stored"].items()},
        erasures=task["erasures"],
        recluster=task["recluster"],
        key=keys.read_key(Path(task["signing_key"])),
        published_at=datetime.fromisoformat(task["ordered_at"]),
    )
    write_archive(out, archive_of(out))
    return {"fingerprint": fingerprint}


def close_series(task: dict[str, Any]) -> dict[str, object]:
    """Delete the private state of a series, and state its end; return what was reached."""
    from wattveil.bundle import keys, registered_series  # noqa: PLC0415

    key, home = keys.read_key(Path(task["signing_key"])), Path(task["home"])
    stored = {label: Path(bundle) for label, bundle in task["stored"].items()}
    choices = {name: task[name] for name in ("lost", "has_begun")}
    closed = registered_series.close_series(home, task["reason"], stored=stored, key=key, **choices)
    return {"deleted": closed.is_deleted, "stated": closed.is_stated}


def erase_customers(task: dict[str, Any]) -> dict[str, object]:
    """Delete customers from the private state of a series; whether they were in it is private."""
    from wattveil.bundle import registered_series  # noqa: PLC0415

    choices = {name: task[name] for name in ("has_begun", "has_stored")}
    home, ids = Path(task["home"]), task["customer_ids"]
    return {"erasures": registered_series.erase_customers(home, ids, **choices)}


def verify(task: dict[str, Any]) -> dict[str, object]:
    """Return the verdict on an uploaded bundle; the task names no private file."""
    from wattveil.bundle.bundle_files import read_manifest  # noqa: PLC0415
    from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION  # noqa: PLC0415
    from wattveil.bundle.series_verify import verify_period  # noqa: PLC0415
    from wattveil.bundle.verify.verify_bundle import verify_bundle  # noqa: PLC0415

    bundle = Path(task["bundle"])
    is_period = read_manifest(bundle).get("manifest_version") == SERIES_VERSION
    return (verify_period if is_period else verify_bundle)(bundle).to_json()


def run_task(task: dict[str, Any]) -> dict[str, object]:
    """Run a task; errors may quote rows, so the result states only that it failed.

    That a price does not cover a budget, or that a state of a series cannot be used, is independent
    of rows, and is stated.
    """
    from wattveil.errors import BudgetExceededError, PeriodRefusedError  # noqa: PLC0415 - see `main`

    try:
        tasks = {
            "plan": plan,
            "describe": describe,
            "release": release,
            "period": period,
            "close_series": close_series,
            "erase_customers": erase_customers,
            "verify": verify,
        }
        return {"done": True, **tasks[task["do"]](task)}
    except OSError as error:
        if error.errno not in _TEMPORARY_ERRORS:
            return {"done": False}
        return {"done": False, "temporary": _disk_error(task, error)}
    except PeriodRefusedError as error:
        return {"done": False, "refused": str(error)}
    except BudgetExceededError:
        return {"done": False, "refused": "beyond what was paid"}
    except Exception:  # noqa: BLE001
        return {"done": False}


def _disk_error(task: dict[str, Any], error: OSError) -> str:
    """Return the name of a disk error, with the kind of file that has it; both of fixed lists."""
    kinds = ("profiles", "customer_list", "fingerprint_key", "signing_key", "home")
    of_file = [f"{one}: " for one in kinds if task.get(one) == error.filename is not None]
    return "".join(of_file) + errno.errorcode[error.errno or 0]


def main() -> None:
    """Run tasks until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    warnings.simplefilter("ignore")  # they depend on rows; PYTHONWARNINGS may make them errors
    os.nice(_ROOM_FOR_OTHERS)
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    for max_bytes in map(int, sys.argv[1:]):
        resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    for task in _tasks():
        answers.write(json.dumps(run_task(task)) + "\n")
        answers.flush()


def _tasks() -> Iterator[dict[str, Any]]:
    """Yield tasks as they arrive; exit at once when the input ends, also during a task."""
    waiting: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)  # the next server removes the unfinished bundle

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


if __name__ == "__main__":
    main()
