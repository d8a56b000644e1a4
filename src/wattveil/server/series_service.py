"""Application service behind the API and the pages of series: open, add a period, close, list."""

from dataclasses import dataclass

from wattveil.bundle import registered_series
from wattveil.errors import InvalidParameterError
from wattveil.products.request import NO_RULE
from wattveil.server.auth.principals import Principal
from wattveil.server.datasets import Dataset, file_inside
from wattveil.server.http import responses
from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.requests import PeriodBody, SeriesBody
from wattveil.server.jobs.compute_pool import ComputeProcessBusyError, ComputeProcessDiedError
from wattveil.server.ledger.reserved_series import (
    ReservedSeries,
    SeriesPeriod,
    find_series,
    series_of,
)
from wattveil.server.release_service import amounts_text
from wattveil.server.server_state import SIGNING_KEY, ServerState, series_home, stored_periods


@dataclass(frozen=True)
class SeriesService:
    """Series of periods of the data sets of a server."""

    state: ServerState

    def open(self, admin: Principal, dataset: Dataset, body: SeriesBody) -> responses.Series:
        """Charge the whole budget of a series; nothing is released yet."""
        request = body.request()
        if dataset.public["rule"] != NO_RULE:
            rule = "one without an aggregation rule: a series does not apply it"
            raise InvalidParameterError("dataset", rule, dataset.public["rule"])
        registered_series.check_series(request)
        self.state.ledger.reserve_series(dataset.name, body.name, request, by=admin.name)
        return self.describe(self.find(dataset, body.name))

    def add(
        self, admin: Principal, dataset: Dataset, name: str, body: PeriodBody
    ) -> responses.SeriesPeriod:
        """Have a period computed from a file of the data folder; nothing further is charged."""
        if not self.state.lease.is_held:
            raise Problem(Code.UNAVAILABLE)
        file_inside(self.state.folder, "file", body.file)
        charge = self.state.ledger.begin_period(
            dataset.name,
            name,
            body.period,
            file=body.file,
            recluster=body.recluster,
            by=admin.name,
        )
        self.state.worker.take(charge)
        return _period(SeriesPeriod(charge=charge, label=body.period, state=None))

    def close(self, admin: Principal, dataset: Dataset, name: str, reason: str) -> responses.Series:
        """End a series, and delete its private state; what it reserved stays charged."""
        self.state.ledger.end_series(dataset.name, name, reason=reason, by=admin.name)
        found = self.find(dataset, name)
        with self.state.ledger.reading() as connection:
            stored = stored_periods(connection, self.state.folder, found)
        task = {
            "do": "close_series",
            "stored": stored,
            "home": str(series_home(self.state.folder, found)),
            "reason": found.ended,
            "signing_key": str(self.state.folder / SIGNING_KEY),
        }
        try:
            result = self.state.worker.run_task(task)
        except (ComputeProcessBusyError, ComputeProcessDiedError):
            raise Problem(Code.BUSY) from None
        if not result["done"] or not result["deleted"]:  # closing again deletes the rest
            raise Problem(Code.INTERNAL)
        return self.describe(found)

    def find(self, dataset: Dataset, name: str) -> ReservedSeries:
        """Return a series of a data set."""
        with self.state.ledger.reading() as connection:
            found = find_series(connection, dataset.name, name)
        if found is None:
            raise InvalidParameterError("series", "one of this data set", name)
        return found

    def all_of(self, dataset: Dataset) -> list[responses.Series]:
        """Return the series of a data set, in the order in which they were opened."""
        with self.state.ledger.reading() as connection:
            return [self.describe(one) for one in series_of(connection, dataset.name)]

    def statement(self, dataset: Dataset, name: str) -> bytes:
        """Return the signed statement of the end of a series."""
        home = series_home(self.state.folder, self.find(dataset, name))
        found = registered_series.closing_statement(home)
        if found is None:
            raise Problem(Code.NOT_FOUND)
        return found

    def describe(self, found: ReservedSeries) -> responses.Series:
        """Return what may be said of a series."""
        return responses.Series(
            dataset=found.dataset,
            name=found.name,
            request=dict(found.plain_request),
            price=amounts_text(found.price),
            opened_at=found.at,
            opened_by=found.by,
            closed=found.ended,
            periods=[_period(one) for one in found.periods],
        )


def _period(one: SeriesPeriod) -> responses.SeriesPeriod:
    return responses.SeriesPeriod(
        period=one.label,
        release=one.id,
        state="computing" if one.state is None else one.state.value,
    )
