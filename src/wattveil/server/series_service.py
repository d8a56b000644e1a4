"""Application service behind the API and the pages of series."""

import logging
import math
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from wattveil.bundle import registered_series
from wattveil.bundle.series_request import SeriesRequest
from wattveil.errors import InvalidParameterError, LedgerUnavailableError
from wattveil.products.request import NO_RULE
from wattveil.server.auth.principals import Principal
from wattveil.server.datasets import FOLDER, Dataset, file_inside, has_file
from wattveil.server.http import series_responses
from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.requests import ErasureBody, PeriodBody, SeriesBody, SeriesPlanBody
from wattveil.server.ledger.accounts import ReleaseState, read_plan
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.reserved_series import (
    ReservedSeries,
    SeriesPeriod,
    find_series,
    may_lack_periods,
    price_of,
    series_of,
)
from wattveil.server.observe.request_record import SecurityEvent, security_event
from wattveil.server.release_service import amounts_text, check_price, shown_state
from wattveil.server.server_state import (
    SERIES_FOLDER,
    SIGNING_KEY,
    ServerState,
    series_home,
    stored_periods,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SeriesService:
    """Series of periods of the data sets of a server."""

    state: ServerState

    def open(self, admin: Principal, dataset: Dataset, body: SeriesBody) -> series_responses.Series:
        """Charge the whole budget of a series; nothing is released yet."""
        request, uid = body.request(), uuid.uuid4().hex
        self._check(dataset, request)
        home = self.state.folder / SERIES_FOLDER / uid
        with ExitStack() as undo:
            undo.callback(registered_series.forget_unused, home)
            _note_unused(home)  # before a period can begin
            self.state.ledger.reserve_series(
                dataset.name, body.name, request, by=admin.name, uid=uid
            )
            found = self.find(dataset, body.name)
            if found.id == uid:
                undo.pop_all()
        return self.describe(found, is_admin=True)

    def plan(self, dataset: Dataset, body: SeriesPlanBody) -> series_responses.SeriesPlan:
        """Return price and expected errors of a series that could be opened; nothing is charged."""
        request = body.request()
        self._check(dataset, request)
        found = registered_series.expected_accuracy(request, *body.group_customers)
        for one in found:
            if not math.isfinite(one["visible_kw_per_year"]):
                one["visible_kw_per_year"] = None
        groups = [series_responses.SeriesGroupPlan(**one) for one in found]
        return series_responses.SeriesPlan(price=amounts_text(price_of(request)), groups=groups)

    def add(
        self, admin: Principal, dataset: Dataset, name: str, body: PeriodBody
    ) -> series_responses.SeriesPeriod:
        """Have a period computed from a file of the data folder; nothing further is charged."""
        if not self.state.lease.is_held:
            raise Problem(Code.UNAVAILABLE)
        file_inside(self.state.folder, "file", body.file)
        found = self.find(dataset, name)
        with self.state.ledger.reading() as connection:
            is_new = not (found.periods or found.ended or may_lack_periods(connection, found))
        if is_new:  # an earlier version has opened it without a note
            _note_unused(series_home(self.state.folder, found))
        charge = self.state.ledger.begin_period(
            dataset.name,
            name,
            body.period,
            file=body.file,
            recluster=body.recluster,
            by=admin.name,
        )
        self.state.worker.take(charge)
        begun = SeriesPeriod(charge=charge, label=body.period, state=None)
        return self._period(begun, is_admin=True)

    def close(
        self, admin: Principal, dataset: Dataset, name: str, reason: str
    ) -> series_responses.Series:
        """End a series, and delete its private state; what it reserved stays charged."""
        before = self.find(dataset, name)
        self.state.ledger.end_series(dataset.name, name, reason=reason, by=admin.name)
        found = self.find(dataset, name)
        with self.state.ledger.reading() as connection:
            stored = stored_periods(connection, self.state.folder, found)
            lost = may_lack_periods(connection, found)
        task = {
            "do": "close_series",
            "stored": stored,
            "lost": lost,
            "has_begun": lost or bool(before.periods),
            "home": str(series_home(self.state.folder, found)),
            "reason": found.ended,
            "signing_key": str(self.state.folder / SIGNING_KEY),
        }
        result = self.state.read_rows(task)
        if not result["done"] or not result["deleted"]:  # closing again deletes the rest
            reason = result.get("refused", "files of its private state could not be deleted")
            raise Problem(Code.NOT_CLOSED, reason=reason)
        if not result["stated"]:
            raise Problem(Code.NOT_CLOSED, reason="files of its periods are missing or damaged")
        return self.describe(found, is_admin=True)

    def erase(
        self, admin: Principal, dataset: Dataset, name: str, body: ErasureBody
    ) -> series_responses.SeriesErasure:
        """Delete customers from the private state of a series, and log that it was done."""
        found = self.find(dataset, name)
        if found.ended is not None:
            raise InvalidParameterError("series", "open", f"closed: {found.ended}")
        with self.state.ledger.reading() as connection:
            lost = may_lack_periods(connection, found)
            stored = stored_periods(connection, self.state.folder, found)
        task = {
            "do": "erase_customers",
            "has_begun": lost or bool(found.periods),
            "has_stored": lost or bool(stored),
            "home": str(series_home(self.state.folder, found)),
            "customer_ids": body.customer_ids,
        }
        result = self.state.read_rows(task)
        if not result["done"]:
            reason = result.get("refused", "its private state cannot be read or written")
            _LOG.error("erasure from series %s of %s: %s", name, dataset.name, reason)
            raise Problem(Code.NOT_ERASED, reason=reason)
        if result["erasures"]:
            self._record_erasures(found, result["erasures"])
        else:
            self._check_no_later_reading(self.find(dataset, name), found)
        security_event(SecurityEvent.SERIES_ERASURE, admin.name, about=dataset.name, series=name)
        return series_responses.SeriesErasure(erased=True, excluded=result["erasures"] > 0)

    def _record_erasures(self, found: ReservedSeries, count: int) -> None:
        """Record an erasure where no restore of a backup forgets it, before it is confirmed."""
        try:
            self.state.ledger.record_erasures(found.id, count)
            due = self.state.ledger.erasures_of(found.id)
        except (LedgerUnavailableError, OSError):
            reason = "the high-water mark cannot be written or read"
            raise Problem(Code.NOT_ERASED, reason=reason) from None
        if count < due:
            text = "series %s of %s has %d of %d erasures: repeat the others"
            _LOG.warning(text, found.name, found.dataset, count, due)

    @staticmethod
    def _check_no_later_reading(found: ReservedSeries, before: ReservedSeries) -> None:
        """Refuse to confirm an erasure without a receipt if a period was begun.

        It has read its file later, or will: its file may contain the customers. One that was added
        meanwhile may have failed after it had made a state.
        """
        earlier = {one.id for one in before.periods if one.state is ReleaseState.FAILED}
        later = [one.label for one in found.periods if one.id not in earlier]
        if later:
            reason = (
                f"the file of {', '.join(later)}, which was added before, may contain them; remove"
                " them from it, and erase again when the period is stored or has failed"
            )
            raise Problem(Code.NOT_ERASED, reason=reason)

    @staticmethod
    def _check(dataset: Dataset, request: SeriesRequest) -> None:
        """Refuse, by public facts, a series that cannot be opened."""
        if dataset.public["rule"] != NO_RULE:
            rule = "one without an aggregation rule: a series does not apply it"
            raise InvalidParameterError("dataset", rule, dataset.public["rule"])
        check_price(price_of(request), dataset)
        registered_series.check_series(request)

    def find(self, dataset: Dataset, name: str) -> ReservedSeries:
        """Return a series of a data set."""
        with self.state.ledger.reading() as connection:
            found = find_series(connection, dataset.name, name)
        if found is None:
            raise InvalidParameterError("series", "one of this data set", name)
        return found

    def all_of(self, principal: Principal, dataset: Dataset) -> list[series_responses.Series]:
        """Return the series of a data set, in the order in which they were opened."""
        is_admin = principal.kind is PrincipalKind.ADMIN
        with self.state.ledger.reading() as connection:
            found = series_of(connection, dataset.name)
        return [self.describe(one, is_admin=is_admin) for one in found]

    def statement(self, dataset: Dataset, name: str) -> bytes:
        """Return the signed statement of the end of a series."""
        home = series_home(self.state.folder, self.find(dataset, name))
        found = registered_series.closing_statement(home)
        if found is None:
            raise Problem(Code.NOT_FOUND)
        return found

    def describe(self, found: ReservedSeries, *, is_admin: bool) -> series_responses.Series:
        """Return what may be said of a series; names of files to administrators alone."""
        return series_responses.Series(
            dataset=found.dataset,
            name=found.name,
            request=dict(found.plain_request),
            price=amounts_text(found.price),
            opened_at=found.at,
            opened_by=found.by,
            closed=found.ended,
            periods=[self._period(one, is_admin=is_admin) for one in found.periods],
        )

    def _period(self, one: SeriesPeriod, *, is_admin: bool) -> series_responses.SeriesPeriod:
        state = shown_state(self.state.ledger, one)
        found = series_responses.SeriesPeriod(period=one.label, release=one.id, state=state)
        missing = self._missing_file(one) if is_admin else ""
        return found.model_copy(update={"missing_file": missing}) if missing else found

    def _missing_file(self, one: SeriesPeriod) -> str:
        """Return the name of the file that a period waits for; empty if it waits for none."""
        if one.state is not None:
            return ""
        with self.state.ledger.reading() as connection:
            plan = read_plan(connection, one.charge)
        file = "" if plan is None else str(plan["file"])
        return "" if has_file(self.state.folder / FOLDER / file) else file


def _note_unused(home: Path) -> None:
    """Note that a series has no private state; without the note, none could be made."""
    try:
        registered_series.note_new(home)
    except OSError as error:
        _LOG.error("the note of a new series cannot be written: %s", error.strerror)
        raise Problem(Code.UNAVAILABLE) from None
