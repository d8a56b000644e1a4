"""Metrics in the format of Prometheus.

No figure depends on private rows. Labels are route templates, methods, statuses, codes of closed
lists, and names of data sets: no principals, no releases, no addresses. Durations of requests that
wait for a process which reads rows are not measured (`RequestRecord.is_timed`); the length of the
queue changes at the ticks at which releases appear.
"""

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from wattveil.errors import LedgerUnavailableError
from wattveil.server.auth.principals import last_expiries
from wattveil.server.backup.write_backup import LastBackup, last_backup
from wattveil.server.datasets import FOLDER, all_datasets, has_file
from wattveil.server.http.problems import Code
from wattveil.server.jobs.worker import MAX_WAITING_PER_PRINCIPAL
from wattveil.server.ledger.accounts import ReleaseState, named_accounts
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.ledger_tables import dataset, entry, planned, release
from wattveil.server.ledger.reserved_series import files_awaited
from wattveil.server.observe.readiness import Component, Readiness
from wattveil.server.observe.request_record import RequestRecord, SecurityEvent
from wattveil.server.processes.server_health import ServerHealth
from wattveil.server.server_state import ServerState
from wattveil.server.tls_files import expiry

MEDIA_TYPE = CONTENT_TYPE_LATEST

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series per counter, which no panel uses

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_LOW_BYTES = 2**30
_KEPT_SECONDS = 5.0
"""Figures of the ledger are read at most this often, whoever asks."""


class ServerMetrics:
    """Counters of a process, and figures of its ledger."""

    def __init__(self, state: ServerState, certificate: Path | None = None) -> None:
        self.readiness = Readiness(state)
        self._registry = CollectorRegistry()
        self._scraped = self._registry
        if state.health is None:
            ProcessCollector(registry=self._registry)  # of this process, which never reads rows
        else:  # whichever process is asked reports the sums of all
            self._scraped = CollectorRegistry()
            MultiProcessCollector(self._scraped)  # type: ignore[no-untyped-call]
            self._scraped.register(_ProcessFigures(state.health))
        self._requests = Counter(
            "wattveil_requests",
            "Requests, by method, route template and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "wattveil_request_seconds",
            "Duration of requests, by route template; not while rows are read.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "wattveil_refusals",
            "Problems that were sent or shown, by code.",
            ("code",),
            registry=self._registry,
        )
        self._events = Counter(
            "wattveil_security_events",
            "Security events, by kind.",
            ("event",),
            registry=self._registry,
        )
        # A series that begins with its first error has no increase that an alert could see.
        for code in Code:
            self._refusals.labels(code.name.lower())
        for event in SecurityEvent:
            self._events.labels(event.value)
        self._counted: dict[tuple[str, str, str, bool], tuple[Counter, Histogram | None]] = {}
        """Counters by their labels: finding them takes longer than counting."""
        # Read now: the server uses the certificate that it has read at its start.
        expires_at = None if certificate is None else expiry(certificate).timestamp()
        self._scraped.register(_ServerFigures(state, self.readiness, expires_at))

    def count(
        self, record: RequestRecord, method: str, route: str, status: int, seconds: float
    ) -> None:
        """Count a request that was answered."""
        labels = (method if method in _METHODS else "other", route, str(status))
        key = (*labels, record.is_timed)
        if (found := self._counted.get(key)) is None:  # as many as there are routes and statuses
            timed = self._seconds.labels(route) if record.is_timed else None
            found = self._counted[key] = self._requests.labels(*labels), timed
        requests, timed = found
        requests.inc()
        if timed is not None:
            timed.observe(seconds)
        if record.problem is not None:
            self._refusals.labels(record.problem).inc()
        for event in record.events:
            self._events.labels(event.value).inc()

    def text(self) -> bytes:
        """Return all metrics."""
        return generate_latest(self._scraped)


class _ProcessFigures(Collector):
    """Figures of each process of a server, by name; none of them reads rows."""

    def __init__(self, health: ServerHealth) -> None:
        self._health = health

    def describe(self) -> Iterable[Metric]:
        """Describe nothing: the names are those of `collect`."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield memory, processor time and descriptors."""
        found: dict[str, Metric] = {}
        for name, pid in self._health.pids.items():
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                merged = found.setdefault(metric.name, metric)
                own = [one._replace(labels={"process": name}) for one in metric.samples]
                merged.samples = own if merged is metric else [*merged.samples, *own]
        yield from found.values()


class _ServerFigures(Collector):
    """Figures that are read when they are asked for."""

    def __init__(self, state: ServerState, readiness: Readiness, expires_at: float | None) -> None:
        self._state, self._readiness, self._expires_at = state, readiness, expires_at
        self._ledger: tuple[float, list[Metric]] = (-_KEPT_SECONDS, [])
        self._last_backup = LastBackup()

    def describe(self) -> Iterable[Metric]:
        """Describe nothing: the names are those of `collect`, which must not run at the start."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all figures; without those of the ledger while it cannot be read."""
        build = GaugeMetricFamily("wattveil_build_info", "Version.", labels=("version",))
        build.add_metric((version("wattveil"),), 1)
        yield build
        if self._expires_at is not None:
            yield GaugeMetricFamily(
                "wattveil_tls_certificate_expiry_seconds",
                "Unix time at which the TLS certificate of the server expires.",
                self._expires_at,
            )
        failing = self._readiness.last_failing
        ready = GaugeMetricFamily(
            "wattveil_ready",
            "Whether a component is ready, as /readyz states.",
            labels=["component"],
        )
        for one in Component:
            ready.add_metric((one.value,), float(one not in failing))
        yield ready
        yield GaugeMetricFamily(
            "wattveil_queue_limit",
            "Waiting orders of one principal at which its further ones are refused as busy.",
            MAX_WAITING_PER_PRINCIPAL,
        )
        yield from self._disk_figures(is_failing=Component.DISK in failing)
        figures = None if Component.DATABASE in failing else self._ledger_figures()
        yield GaugeMetricFamily(
            "wattveil_database_up",
            "Whether the database responds; if not, figures of the ledger are left out.",
            float(figures is not None),
        )
        yield from figures or ()
        with suppress(LedgerUnavailableError):  # of several processes, it is read in the database
            length = self._state.worker.queue_length
            yield GaugeMetricFamily(
                "wattveil_queue_length", "Charges whose release is not stored.", length
            )

    def _disk_figures(self, *, is_failing: bool) -> Iterator[Metric]:
        """Yield figures of the data folder; a disk that hangs must not occupy request threads."""
        is_low = True
        if not is_failing:
            self._last_backup = last_backup(self._state.folder)
            with suppress(OSError):
                is_low = shutil.disk_usage(self._state.folder).free < _LOW_BYTES
        yield GaugeMetricFamily(
            "wattveil_last_backup_timestamp_seconds",
            "Unix time of the last `wattveil admin backup`; 0 if there is none.",
            self._last_backup.made_at,
        )
        yield GaugeMetricFamily(
            "wattveil_last_backup_lacking",
            "Bundles and states of series that the last backup lacks: missing or damaged.",
            self._last_backup.lacking,
        )
        yield GaugeMetricFamily(
            "wattveil_disk_low",
            "Whether less than 1 GiB is free in the data folder, or it cannot be read.",
            float(is_low),
        )

    def _ledger_figures(self) -> list[Metric] | None:
        """Return the figures of the ledger; None if it cannot be read."""
        read_at, figures = self._ledger
        if time.monotonic() - read_at > _KEPT_SECONDS:
            try:
                figures = [
                    *(*self._budgets(), self._releases(), *self._missing_files()),
                    *(*self._waiting_orders(), self._token_expiries()),
                ]
            except LedgerUnavailableError:
                return None
            self._ledger = time.monotonic(), figures
        return figures

    def _budgets(self) -> list[Metric]:
        """Return epsilons at the delta of each open data set; linked ones share one account."""
        labels = ("dataset", "tier")
        cap, spent, left = (
            GaugeMetricFamily(f"wattveil_epsilon_{name}", text, labels=labels)
            for name, text in (
                ("cap", "Epsilon of the budget of a data set, at its delta."),
                ("spent", "Epsilon of all that is charged to a data set, at its delta."),
                ("left", "Epsilon of what is not charged yet; less than cap minus spent."),
            )
        )
        ratio = GaugeMetricFamily(
            "wattveil_budget_spent_ratio", "Spent share of the scarcest measure.", labels=labels
        )
        with self._state.ledger.reading() as connection:
            for one in all_datasets(connection):
                if one.closed:  # nobody can spend or raise its budget
                    continue
                delta = one.public["delta"]
                for tier, principal, account in named_accounts(connection, one.name):
                    if principal is None:
                        own = (one.name, tier.value)
                        cap.add_metric(own, _epsilon(account.caps, delta))
                        spent.add_metric(own, _epsilon(account.spent, delta))
                        left.add_metric(own, _epsilon(account.left, delta))
                        ratio.add_metric(own, account.share_spent)
        return [cap, spent, left, ratio]

    def _missing_files(self) -> list[Metric]:
        """Return which data sets and periods lack a file in the folder of profiles.

        The file of a data set that is closed may be deleted.
        """
        own = GaugeMetricFamily(
            "wattveil_datasets_without_file",
            "Whether a file of a data set that is not closed is missing.",
            labels=("dataset",),
        )
        periods = GaugeMetricFamily(
            "wattveil_periods_without_file",
            "Periods of series that wait for a file that is missing.",
            labels=("dataset",),
        )
        with self._state.ledger.reading() as connection:
            registered = all_datasets(connection)
            awaited = files_awaited(connection)
        folder = self._state.folder / FOLDER
        missing = [name for name, file in awaited if not has_file(folder / file)]
        for one in registered:
            periods.add_metric((one.name,), missing.count(one.name))
            if not one.closed:
                files = filter(None, (one.profiles_file, one.customer_list_file))
                lacks = not all(has_file(folder / file) for file in files)
                own.add_metric((one.name,), float(lacks))
        return [own, periods]

    def _waiting_orders(self) -> list[Metric]:
        """Return the longest queue of a principal, and the age of the oldest order.

        Orders are stored at the ticks, so that neither shows when a computation ended.
        """
        with self._state.ledger.reading() as connection:
            longest = connection.execute(_LONGEST_QUEUE).scalar()
            ordered_at = connection.execute(_OLDEST_ORDER).scalar()
        seconds = 0.0
        if ordered_at is not None:
            seconds = (datetime.now(UTC) - datetime.fromisoformat(ordered_at)).total_seconds()
        return [
            GaugeMetricFamily(
                "wattveil_queue_longest",
                "Largest number of waiting orders of a principal.",
                longest or 0,
            ),
            GaugeMetricFamily(
                "wattveil_queue_oldest_seconds",
                "Time since the oldest waiting order was placed; 0 if none waits.",
                max(seconds, 0.0),
            ),
        ]

    def _token_expiries(self) -> Metric:
        found = GaugeMetricFamily(
            "wattveil_token_expiry_seconds",
            "Unix time at which the last token of an administrator or a monitor expires.",
            labels=("role", "principal"),
        )
        with self._state.ledger.reading() as connection:
            for role, name, expires_at in last_expiries(connection):
                found.add_metric((role, name), expires_at.timestamp())
        return found

    def _releases(self) -> Metric:
        releases = GaugeMetricFamily(
            "wattveil_releases", "Stored releases, by outcome.", labels=("dataset", "state")
        )
        with self._state.ledger.reading() as connection:
            found = {(name, state): count for name, state, count in connection.execute(_RELEASES)}
            for one in all_datasets(connection):
                for state in ReleaseState:
                    count = found.get((one.name, state.value), 0)
                    releases.add_metric((one.name, state.value), count)
        return releases


@lru_cache(maxsize=10_000)
def _epsilon(amounts: Amounts, delta: float) -> float:
    return amounts.composition.epsilon(delta)


_OF_ENTRY = (entry.c.journal_id == planned.c.journal_id) & (entry.c.seq == planned.c.seq)
_LENGTHS = (
    select(func.count().label("length"))
    .join_from(planned, entry, _OF_ENTRY)
    .group_by(entry.c.principal_id)
    .subquery()
)
_LONGEST_QUEUE = select(func.max(_LENGTHS.c.length))
_OLDEST_ORDER = select(func.min(entry.c.at)).join_from(planned, entry, _OF_ENTRY)
_RELEASES = (
    select(dataset.c.name, release.c.state, func.count())
    .join_from(
        release,
        entry,
        (entry.c.journal_id == release.c.journal_id) & (entry.c.seq == release.c.seq),
    )
    .join(dataset, dataset.c.id == entry.c.dataset_id)
    .group_by(dataset.c.name, release.c.state)
)
