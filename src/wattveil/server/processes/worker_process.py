"""The worker process: computes and stores the releases of all charges of a server."""

import fcntl
from pathlib import Path

from wattveil.server.jobs.release_queue import watch_charges
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, BundleStore
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.processes.server_health import WORKER, ServerHealth
from wattveil.server.server_state import new_worker

LOCK = "worker.lock"


def run_worker(
    folder: Path,
    database: str | None,
    health: ServerHealth,
    *,
    tick_seconds: float,
    processes: int,
) -> None:
    """Compute releases until this process is terminated, or a thread of the worker has ended."""
    with (folder / LOCK).open("a") as file:
        # The worker of a supervisor that was killed ends within moments. Two would remove each
        # other's unfinished bundles.
        fcntl.flock(file, fcntl.LOCK_EX)
        with Ledger.open(folder, database, is_shared=True) as ledger:
            bundles = BundleStore(folder / BUNDLES_FOLDER)
            worker = new_worker(
                folder, ledger, bundles, tick_seconds=tick_seconds, processes=processes
            )
            worker.start()
            try:
                watch_charges(ledger, worker, lambda: health.report_ready(WORKER))
            finally:
                worker.stop()
    raise SystemExit(1)  # only if it has ended by itself
