"""Series of periods over HTTP: the API of analysts and administrators, and their page."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse, Response

from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.auth.sessions import Sessions
from wattveil.server.http import series_responses
from wattveil.server.http.form_fields import FormField, form_fields, read_fields, validated
from wattveil.server.http.problems import COMMON_PROBLEMS, Code, Problem, problem_responses
from wattveil.server.http.requests import (
    ErasureBody,
    PeriodBody,
    ReasonBody,
    SeriesBody,
    SeriesPlanBody,
)
from wattveil.server.http.server_pages import (
    REFUSALS,
    Form,
    SentForm,
    SignedInUser,
    error_text,
    session_dependency,
)
from wattveil.server.series_service import SeriesService
from wattveil.server.server_state import ServerState
from wattveil.web.budget_texts import erasure_text

_READ = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST)
_STATEMENT = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST, Code.NOT_FOUND)
_CHANGE = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST, Code.BUDGET_REFUSED, Code.REFUSED)
_ERASE = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST, Code.NOT_ERASED)
_CLOSE = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST, Code.NOT_CLOSED)


def series_routes(state: ServerState, access: Access) -> APIRouter:
    """Return the routes of series, of analysts and of administrators."""
    routes = APIRouter(prefix="/v1", responses=problem_responses(*COMMON_PROBLEMS))
    service = SeriesService(state)
    authenticated, administrator = Depends(access.current), Depends(access.admin)

    @routes.get("/datasets/{dataset}/series", response_model_exclude_unset=True, responses=_READ)
    def list_series(
        dataset: str, principal: Annotated[Principal, authenticated]
    ) -> series_responses.SeriesList:
        """List the series of a data set, with their periods: each period is a release."""
        found = service.all_of(principal, access.dataset(principal, dataset))
        return series_responses.SeriesList(series=found)

    @routes.get("/datasets/{dataset}/series/{series}/closed.json", responses=_STATEMENT)
    def read_statement(
        dataset: str, series: str, principal: Annotated[Principal, authenticated]
    ) -> Response:
        """Download the statement of the end of a series, for `wattveil series verify`."""
        found = service.statement(access.dataset(principal, dataset), series)
        return Response(found, media_type="application/json")

    @routes.post(
        "/admin/datasets/{dataset}/series",
        status_code=201,
        response_model_exclude_unset=True,
        responses=_CHANGE,
    )
    def open_series(
        dataset: str, body: SeriesBody, admin: Annotated[Principal, administrator]
    ) -> series_responses.Series:
        """Open a series: its whole budget, for all periods, is charged to the data set at once."""
        return service.open(admin, access.dataset(admin, dataset), body)

    @routes.post("/admin/datasets/{dataset}/series/plan", responses=_CHANGE)
    def plan_series(
        dataset: str, body: SeriesPlanBody, admin: Annotated[Principal, administrator]
    ) -> series_responses.SeriesPlan:
        """Show what a series would cost and show, from public numbers; nothing is charged."""
        return service.plan(access.dataset(admin, dataset), body)

    @routes.post("/admin/datasets/{dataset}/series/{series}/erase", responses=_ERASE)
    def erase_customers(
        dataset: str, series: str, body: ErasureBody, admin: Annotated[Principal, administrator]
    ) -> series_responses.SeriesErasure:
        """Delete customers from the private state of a series; keyed hashes and odometers stay."""
        return service.erase(admin, access.dataset(admin, dataset), series, body)

    @routes.post(
        "/admin/datasets/{dataset}/series/{series}/periods",
        status_code=202,
        response_model_exclude_unset=True,
        responses=_CHANGE,
    )
    def add_period(
        dataset: str, series: str, body: PeriodBody, admin: Annotated[Principal, administrator]
    ) -> series_responses.SeriesPeriod:
        """Release a period of a series from a file of the data folder; nothing is charged."""
        return service.add(admin, access.dataset(admin, dataset), series, body)

    @routes.post(
        "/admin/datasets/{dataset}/series/{series}/close",
        response_model_exclude_unset=True,
        responses=_CLOSE,
    )
    def close_series(
        dataset: str, series: str, body: ReasonBody, admin: Annotated[Principal, administrator]
    ) -> series_responses.Series:
        """Close a series, and delete its private state. Its releases stay readable."""
        return service.close(admin, access.dataset(admin, dataset), series, body.reason)

    return routes


def series_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the page of all series, with the forms of administrators."""
    routes, service = APIRouter(include_in_schema=False), SeriesService(state)
    signed_in = Depends(session_dependency(sessions, access))

    def overview(user: SignedInUser, outcome: dict[str, object], status: int = 200) -> HTMLResponse:
        known = access.datasets(user.principal)
        shown = {"message": None, "refusal": None, **outcome}
        return user.page(
            "series.html",
            status,
            datasets=[(one, service.all_of(user.principal, one)) for one in known],
            opening=opening_fields(),
            adding=form_fields(PeriodBody),
            **shown,
        )

    @routes.get("/series")
    def show_series(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        return overview(user, {})

    @routes.get("/series/{dataset}/{series}/closed.json")
    def send_statement(
        dataset: str, series: str, user: Annotated[SignedInUser, signed_in]
    ) -> Response:
        found = service.statement(access.dataset(user.principal, dataset), series)
        return Response(found, media_type="application/json")

    @routes.post("/series/{action}")
    def do(action: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        user.check_admin()
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        known = {"plan": _plan, "open": _open, "add": _add, "erase": _erase, "close": _close}
        if action not in known:
            raise Problem(Code.NOT_FOUND)
        try:
            message = known[action](service, access, form, user.principal)
        except REFUSALS as refusal:
            return overview(user, {"refusal": error_text(refusal)}, 422)
        return overview(user, {"message": message})

    return routes


def opening_fields() -> list[FormField]:
    """Return the fields of a new series; groups are lines of text, as for data sets."""
    return form_fields(SeriesBody, omit=("by", "levels", "counts"))


def _plan(service: SeriesService, access: Access, form: Form, admin: Principal) -> str:
    values = _choices(form)
    values.pop("name", None)
    body = validated(SeriesPlanBody, values)
    found = service.plan(access.dataset(admin, form.text("dataset")), body)
    one = found.groups[0]
    change = one.visible_kw_per_year
    seen = "" if change is None else f"; smallest visible change {change:.4f} kW per year"
    return (
        f"Nothing is charged. A group of {one.customers:,} customers has a standard error of"
        f" {100.0 * one.level_error:.1f} % of the typical load in the last period{seen}."
    )


def _open(service: SeriesService, access: Access, form: Form, admin: Principal) -> str:
    body = validated(SeriesBody, _choices(form))
    service.open(admin, access.dataset(admin, form.text("dataset")), body)
    return f"{body.name} is open. Its whole budget is charged."


def _choices(form: Form) -> dict[str, Any]:
    """Return the choices of a new series."""
    values = read_fields(form, opening_fields())
    if groups := _split(form.text("levels")):
        values |= {"by": form.text("by"), "levels": groups}
    if counts := _split(form.text("counts")):
        values["counts"] = counts
    return values


def _add(service: SeriesService, access: Access, form: Form, admin: Principal) -> str:
    body = validated(PeriodBody, read_fields(form, form_fields(PeriodBody)))
    dataset = access.dataset(admin, form.text("dataset"))
    service.add(admin, dataset, form.text("series"), body)
    return f"{body.period} is being computed."


def _erase(service: SeriesService, access: Access, form: Form, admin: Principal) -> str:
    text = form.text("customer_ids").removeprefix("\ufeff")  # of a file that was pasted
    ids = [line.strip() for line in text.splitlines() if line.strip()]
    body = validated(ErasureBody, {"customer_ids": ids})
    dataset = access.dataset(admin, form.text("dataset"))
    return erasure_text(excluded=service.erase(admin, dataset, form.text("series"), body).excluded)


def _close(service: SeriesService, access: Access, form: Form, admin: Principal) -> str:
    name = form.text("series")
    service.close(admin, access.dataset(admin, form.text("dataset")), name, form.text("reason"))
    return f"{name} is closed."


def _split(text: str) -> list[str]:
    """Return what commas separate."""
    return [one.strip() for one in text.split(",") if one.strip()]
