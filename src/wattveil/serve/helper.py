"""A process of its own for what takes long, and for private rows: plans, checks, releases.

It reads a line of JSON a task and answers with one: what a plan or a verdict says, what may be
known of a file, or one word about a release. Whatever else it would say, warnings and errors that
may quote rows, goes nowhere. It ends with the server, when its input ends. Started with a number,
it has so many bytes of memory.
"""

import errno
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

_ROOM_FOR_OTHERS = 5
"""Added to its niceness: whoever waits for a page goes first."""

_NOT_NOW = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS),
    *(errno.ENOENT, errno.EACCES, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO),
}
"""A disk is full, cannot be written, or is not there: no matter of rows, and over one day."""


def plan(task: dict[str, Any]) -> dict[str, object]:
    """Return what a release is expected to be worth; no file is named in the task."""
    from wattveil.publish.private_file import plan_for  # noqa: PLC0415 - see `main`
    from wattveil.serve.ledger.pricing import read_request  # noqa: PLC0415

    return plan_for(read_request(task["request"]), task["grid"]).to_json()


def describe(task: dict[str, Any]) -> dict[str, object]:
    """Return what may be known of a file of profiles, or the rule that it breaks."""
    from wattveil.errors import InvalidFileError, InvalidParameterError  # noqa: PLC0415
    from wattveil.publish import private_file  # noqa: PLC0415
    from wattveil.serve.ledger.pricing import read_request  # noqa: PLC0415

    key = Path(task["fingerprint_key"]).read_bytes()
    try:
        found = private_file.describe(
            Path(task["profiles"]), key=key, request=read_request(task["request"])
        )
    except InvalidFileError as error:  # rules are public; what was found instead is not
        return {"broken": ["file", error.expected]}
    except InvalidParameterError as error:
        return {"broken": [error.field, error.rule]}
    return {"broken": None, "description": asdict(found)}


def release(task: dict[str, Any]) -> dict[str, object]:
    """Leave a bundle at the place named in the task."""
    from wattveil.publish import keys  # noqa: PLC0415
    from wattveil.publish.cumulative import Cumulative  # noqa: PLC0415
    from wattveil.publish.private_file import release_file  # noqa: PLC0415
    from wattveil.publish.produce import read_customer_list  # noqa: PLC0415
    from wattveil.serve.ledger.amounts import Amounts  # noqa: PLC0415
    from wattveil.serve.ledger.pricing import check_paid, read_request  # noqa: PLC0415

    paid = Amounts(*task["price"])
    listed = task["customer_list"]
    with Path(task["profiles"]).open("rb"):
        pass  # the reader would not tell a disk that is not there from a file that is wrong
    release_file(
        Path(task["profiles"]),
        read_request(task["request"]),
        Path(task["out"]),
        fingerprint=task["fingerprint"],
        fingerprint_key=Path(task["fingerprint_key"]).read_bytes(),
        signing_key=keys.read_key(Path(task["signing_key"])),
        check_plan=lambda plan: check_paid(plan.allotments, paid),
        customer_list=() if listed is None else read_customer_list(Path(listed)),
        cumulative=Cumulative.from_json(task["cumulative"]),
    )
    return {}


def verify(task: dict[str, Any]) -> dict[str, object]:
    """Return the verdict on a bundle that somebody sent; no data of the house are named."""
    from wattveil.publish.verify import verify_bundle  # noqa: PLC0415

    return verify_bundle(Path(task["bundle"])).to_json()


def answered(task: dict[str, Any]) -> dict[str, object]:
    """Do a task; what it raises may quote rows, so of it no more is said than that it failed.

    That a budget does not cover its charge is known without rows, and is said.
    """
    from wattveil.errors import BudgetExceededError  # noqa: PLC0415 - see `main`

    try:
        tasks = {"plan": plan, "describe": describe, "release": release, "verify": verify}
        return {"done": True, **tasks[task["do"]](task)}
    except OSError as error:
        return {"done": False, "not_now": error.errno in _NOT_NOW}
    except BudgetExceededError:
        return {"done": False, "beyond_price": True}
    except Exception:  # noqa: BLE001
        return {"done": False}


def main() -> None:
    """Do tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.nice(_ROOM_FOR_OTHERS)
    for most_bytes in map(int, sys.argv[1:]):
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    for task in _tasks():
        answers.write(json.dumps(answered(task)) + "\n")
        answers.flush()


def _tasks() -> Iterator[dict[str, Any]]:
    """Hand out tasks as they come; end at once when the server is gone, whatever is under way."""
    waiting: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)  # nobody would take the draw, and the next server clears it away

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


if __name__ == "__main__":
    main()
