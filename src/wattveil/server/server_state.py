"""State of a server: ledger, bundles, worker and planner, opened from its data folder.

::

    DIR/ledger.sqlite    the ledger, unless another database is named
    DIR/ledger.database  address of that database, or sqlite://, and identity of the ledger
    DIR/ledger.heads     high-water mark of the ledger: entries, releases, data sets
    DIR/profiles/        profile files, written by the data owner; private
    DIR/releases/        computed bundles
    DIR/series/          private states of series of periods, with their keys and marks
    DIR/series.unused/   names of series that never had one
    DIR/release.key      signs releases; release.key.pub is public
    DIR/fingerprint.key  key of the fingerprints that detect data registered before
    DIR/server.lock      held by the only server of the folder
    DIR/worker.lock      held by its only worker process, if it has several processes
"""

import fcntl
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection

from wattveil.bundle import keys
from wattveil.bundle.registered_profiles import Description
from wattveil.bundle.registered_series import delete_unknown, unknown_series
from wattveil.errors import InvalidParameterError
from wattveil.products.request import ReleaseRequest
from wattveil.server.auth import principals
from wattveil.server.datasets import FOLDER, find_dataset
from wattveil.server.http.problems import Code, Problem, invalid
from wattveil.server.jobs.compute_pool import ComputeProcessBusyError, ComputeProcessDiedError
from wattveil.server.jobs.planner import Planner
from wattveil.server.jobs.release_queue import ReleaseQueue, RemoteQueue
from wattveil.server.jobs.worker import Worker
from wattveil.server.ledger.accounts import (
    Charge,
    ReleaseState,
    cumulative_at,
    read_plan,
    read_release,
)
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, BundleStore
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.pricing import canonical_request
from wattveil.server.ledger.reserved_series import (
    ReservedSeries,
    fingerprints_of_others,
    has_losses,
    is_period,
    series_ids,
    series_of_period,
)
from wattveil.server.ledger.server_lease import Lease, ServerLease
from wattveil.server.observe.request_record import note_untimed
from wattveil.server.ordered_releases import find_ordered
from wattveil.server.processes.server_health import ServerHealth, SupervisorLease

_LOG = logging.getLogger(__name__)

SERIES_FOLDER = "series"
SIGNING_KEY = "release.key"
FINGERPRINT_KEY = "fingerprint.key"
LOCK = "server.lock"

_READING = threading.BoundedSemaphore(4)
"""Requests of this process that wait for rows to be read: each occupies a thread."""
TICK_SECONDS = 5.0
"""Releases are stored at multiples of this time after their start."""


@dataclass(frozen=True, kw_only=True)
class ServerState(AbstractContextManager["ServerState"]):
    """Ledger, bundles, worker and planner of a server. Open it with `ServerState.open`."""

    folder: Path
    ledger: Ledger
    lease: Lease
    bundles: BundleStore
    worker: ReleaseQueue
    planner: Planner
    first_admin_token: str | None
    """Token of the first administrator; None except at the first start."""
    health: ServerHealth | None
    """Reports of the other processes of the server; None if there are none."""
    _opened: ExitStack
    """Closed at the end: the lease, the ledger, then the lock of the folder."""

    @classmethod
    def open(
        cls,
        folder: Path,
        database: str | None = None,
        *,
        tick_seconds: float = TICK_SECONDS,
        compute_processes: int = 1,
    ) -> Self:
        """Open the data folder of a server; in a new one, create keys and an administrator."""
        folder = folder.absolute()
        with ExitStack() as undo:
            prepared = undo.enter_context(prepared_folder(folder, database))
            bundles = BundleStore(folder / BUNDLES_FOLDER)
            worker = new_worker(
                folder,
                prepared.ledger,
                bundles,
                tick_seconds=tick_seconds,
                processes=compute_processes,
            )
            worker.start()
            return cls(
                folder=folder,
                ledger=prepared.ledger,
                lease=prepared.lease,
                bundles=bundles,
                worker=worker,
                planner=Planner(),
                first_admin_token=prepared.first_admin_token,
                health=None,
                _opened=undo.pop_all(),
            )

    @classmethod
    def open_api(cls, folder: Path, database: str | None, health: ServerHealth) -> Self:
        """Open the data folder in an API process; the supervisor has prepared it."""
        with ExitStack() as undo:
            ledger = undo.enter_context(Ledger.open(folder, database, is_shared=True))
            return cls(
                folder=folder,
                ledger=ledger,
                lease=SupervisorLease(health),
                bundles=BundleStore(folder / BUNDLES_FOLDER),
                worker=RemoteQueue(ledger, health),
                planner=Planner(),
                first_admin_token=None,
                health=health,
                _opened=undo.pop_all(),
            )

    def describe_profiles(self, file: Path, request: ReleaseRequest) -> Description:
        """Return the public facts of a profile file; a compute process reads it."""
        task = {
            "do": "describe",
            "profiles": str(file),
            "fingerprint_key": str(self.folder / FINGERPRINT_KEY),
            "request": canonical_request(request),
        }
        result = self.read_rows(task)
        if "temporary" in result:
            cause = result["temporary"]
            _LOG.error("the profiles of %s cannot be read: %s", file.name, cause)
            if cause not in {"profiles: EACCES", "profiles: ENOENT"}:
                raise Problem(Code.UNAVAILABLE)
            raise invalid(("file", f"one that the user of the server can read ({cause})"))
        if not result["done"]:
            raise Problem(Code.INTERNAL)
        if result["broken"] is not None:
            field, rule = result["broken"]
            raise invalid((field, rule))
        return Description(**result["description"])

    def read_rows(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run a task in a process that reads rows; the request that waits for it is not timed."""
        note_untimed()
        if not _READING.acquire(blocking=False):
            raise Problem(Code.BUSY)
        try:
            return self.worker.run_task(task)
        except (ComputeProcessBusyError, ComputeProcessDiedError):
            raise Problem(Code.BUSY) from None
        finally:
            _READING.release()

    def stop_computing(self) -> None:
        """End all computations: requests that wait for one are refused, charges stay pending."""
        self.planner.stop()
        self.worker.stop()

    def close(self) -> None:
        """Stop computing, finish writing, close the database."""
        self.stop_computing()
        self._opened.close()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class PreparedFolder(NamedTuple):
    """Data folder of a server that may start: its keys exist, and no other server uses it."""

    ledger: Ledger
    lease: ServerLease
    first_admin_token: str | None


@contextmanager
def prepared_folder(folder: Path, database: str | None) -> Iterator[PreparedFolder]:
    """Lock a data folder and its database; in a new one, create keys and an administrator."""
    if not folder.is_dir():
        raise InvalidParameterError("data", "a folder that exists", str(folder))
    with held(folder):
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        if not (folder / SIGNING_KEY).exists():
            keys.write_key(folder / SIGNING_KEY)
        principals.ensure_key(folder / FINGERPRINT_KEY)
        with (
            Ledger.open(folder, database) as ledger,
            closing(ServerLease(ledger.engine)) as lease,
        ):
            _end_lost_series(folder, ledger)
            yield PreparedFolder(ledger, lease, ledger.write(principals.first_admin_token))


def _end_lost_series(folder: Path, ledger: Ledger) -> None:
    """Delete rows in the state of series whose entries were lost: nobody could close those.

    If no loss was accepted, the folder may belong to another ledger: it is only named.
    """
    with ledger.reading() as connection:
        known, lost = series_ids(connection), has_losses(connection)
    for home in unknown_series(folder / SERIES_FOLDER, known):
        is_deleted = lost and delete_unknown(home)
        outcome = "was deleted" if is_deleted else "is still there; delete it"
        _LOG.warning("the ledger has no series %s: its private state %s", home.name, outcome)


def new_worker(
    folder: Path, ledger: Ledger, bundles: BundleStore, *, tick_seconds: float, processes: int
) -> Worker:
    """Return a worker for the charges of a ledger."""
    task = partial(_release_task, folder, ledger)
    return Worker(ledger, bundles, task, tick_seconds=tick_seconds, processes=processes)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder, until the process ends at the latest.

    A second server would remove unfinished bundles of the first.
    """
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            rule = "a folder that no other server uses: stop the server that runs there first"
            raise InvalidParameterError("data", rule, str(folder)) from None
        yield


def is_held(folder: Path) -> bool:
    """Whether a server uses a folder, which may be none of a server."""
    if not (folder / LOCK).is_file():
        return False
    try:
        with held(folder):
            return False
    except InvalidParameterError:
        return True


def _release_task(folder: Path, ledger: Ledger, charge: Charge, draft: Path) -> dict[str, object]:
    """Return the task of a charge; the compute process reads the rows, this process never does."""
    if is_period(charge):
        return _period_task(folder, ledger, charge, draft)
    with ledger.reading() as connection:
        drawn = find_ordered(connection, f"{charge.journal_id}-{charge.drawn_seq}")
        source = None if drawn is None else find_dataset(connection, drawn.dataset)
        cumulative = cumulative_at(connection, charge)
        plan = read_plan(connection, charge)
    if drawn is None or source is None:
        raise RuntimeError("a charge without a data set of this server")
    listed = source.customer_list_file
    return {
        "do": "release",
        "profiles": str(folder / FOLDER / source.profiles_file),
        "customer_list": None if listed is None else str(folder / FOLDER / listed),
        "fingerprint": source.fingerprint,
        "fingerprint_key": str(folder / FINGERPRINT_KEY),
        "signing_key": str(folder / SIGNING_KEY),
        "request": drawn.request,
        "price": drawn.charge.price.values,
        "cumulative": cumulative.to_json(),
        "plan": plan,
        "ordered_at": drawn.at,
        "out": str(draft),
    }


def _period_task(folder: Path, ledger: Ledger, charge: Charge, draft: Path) -> dict[str, object]:
    """Return the task of a period of a series, whose budget is charged."""
    with ledger.reading() as connection:
        ordered = find_ordered(connection, f"{charge.journal_id}-{charge.seq}")
        plan = read_plan(connection, charge)
        if ordered is None or plan is None:
            raise RuntimeError("a period without a data set or a file")
        series = series_of_period(connection, ordered.dataset, charge)
        others = fingerprints_of_others(connection, series)
        stored = stored_periods(connection, folder, series)
    return {
        "do": "period",
        "home": str(series_home(folder, series)),
        "request": series.plain_request,
        "profiles": str(folder / FOLDER / plan["file"]),
        "period": ordered.request["period"],
        "others": others,
        "fingerprint_key": str(folder / FINGERPRINT_KEY),
        "stored": stored,
        "erasures": ledger.erasures_of(series.id),
        "recluster": plan["recluster"],
        "signing_key": str(folder / SIGNING_KEY),
        "ordered_at": ordered.at,
        "out": str(draft),
    }


def stored_periods(connection: Connection, folder: Path, series: ReservedSeries) -> dict[str, str]:
    """Return the bundles of the periods that are stored, by name and in order."""
    return {
        one.label: str(folder / BUNDLES_FOLDER / str(found.payload_ref))
        for one in series.periods
        if (found := read_release(connection, one.charge)) is not None
        and found.state is ReleaseState.OK
    }


def series_home(folder: Path, series: ReservedSeries) -> Path:
    """Return the folder of the private state of a series."""
    return folder / SERIES_FOLDER / series.id
