"""Pages of administrators: data sets, budgets, principals, the ledger and its export."""

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Connection, select
from starlette.background import BackgroundTask
from starlette.responses import HTMLResponse, Response, StreamingResponse

from wattveil.privacy.guarantee import Tier
from wattveil.products.public_estimate import rounding_notes
from wattveil.products.registry import products_of
from wattveil.server import datasets
from wattveil.server.auth import principals
from wattveil.server.auth.access import Access
from wattveil.server.auth.sessions import Sessions
from wattveil.server.dataset_choices import DatasetBody
from wattveil.server.http.form_fields import FormField, form_fields, read_fields, validated
from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.requests import BudgetBody, PrincipalBody
from wattveil.server.http.server_pages import (
    REFUSALS,
    Form,
    SentForm,
    SignedInUser,
    error_text,
    session_dependency,
)
from wattveil.server.ledger.admission import RECORDED_REASONS
from wattveil.server.ledger.ledger_audit import export_ledger
from wattveil.server.ledger.ledger_tables import dataset, entry, principal, refusal
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState

_LATEST = 50
"""Entries of each journal on the page of all journals."""
_MAX_ENTRIES = 200
_PIECE_BYTES = 65_536
_MAX_OTHERS = 50


def admin_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of data sets, budgets and principals."""
    routes, actions = APIRouter(include_in_schema=False), _FormActions(state)
    signed_in = Depends(session_dependency(sessions, access))

    def overview(user: SignedInUser, outcome: dict[str, object], status: int = 200) -> HTMLResponse:
        with state.ledger.reading() as connection:
            known, people = (
                datasets.all_datasets(connection),
                principals.list_principals(connection),
            )
        accounts = [ReleaseService(state).accounts(one) for one in known]
        shown = {"message": None, "refusal": None, "token": None, "token_of": None, **outcome}
        pairs = list(zip(known, accounts, strict=True))
        return user.page(
            "admin.html",
            status,
            datasets=pairs,
            people=people,
            registration=registration_fields(one.name for one in known),
            budget=budget_fields(one["name"] for one in people),
            admission=form_fields(PrincipalBody),
            **shown,
        )

    @routes.get("/admin")
    def show_admin(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        user.check_admin()
        return overview(user, {})

    @routes.post("/admin/{action}")
    def do(action: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        user.check_admin()
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        if action not in actions.known:
            raise Problem(Code.NOT_FOUND)
        try:
            return overview(user, actions.known[action](form, user.principal.name))
        except REFUSALS as refusal:
            return overview(user, {"refusal": error_text(refusal)}, 422)

    return routes


class _FormActions:
    """Actions of the forms; each returns values of the page that follows."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.known = {
            "datasets": self._register,
            "budgets": self._set_budget,
            "close": self._close,
            "people": self._admit,
            "tokens": self._issue,
            "revoke": self._lock_out,
            "disable": self._disable,
        }

    def _register(self, form: Form, by: str) -> dict[str, object]:
        values = read_fields(form, registration_fields([]))
        if "linked_to" in values:  # it shares the budget of that data set
            values.pop("allowance", None)
        body = validated(DatasetBody, values)
        state = self._state
        datasets.register(
            state.ledger, state.folder, body, by=by, describe_profiles=state.describe_profiles
        )
        sent = {name: values.get(name) for name in ("customers", "typical_kw")}
        notes = [f"Note: {note}." for note in rounding_notes(sent)]
        return {"message": " ".join([f"{body.name} is registered.", *notes])}

    def _set_budget(self, form: Form, by: str) -> dict[str, object]:
        body = validated(BudgetBody, read_fields(form, budget_fields([])))
        self._state.ledger.set_budget(
            form.text("dataset"),
            datasets.allowance_of(body.allowance),
            by=by,
            reason=body.reason,
            tier=body.tier,
            principal=body.principal,
            lost=body.lost(),
        )
        return {"message": "The budget is set."}

    def _close(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("dataset")
        self._state.ledger.close_dataset(name, by=by, reason=form.text("reason"))
        return {"message": f"{name} is closed."}

    def _admit(self, form: Form, by: str) -> dict[str, object]:
        body = validated(PrincipalBody, read_fields(form, form_fields(PrincipalBody)))
        ledger, days = self._state.ledger, body.token_days
        token = principals.create_principal(ledger, body.name, body.kind, by=by, days=days)
        return {"token": token, "token_of": body.name}

    def _issue(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        return {"token": principals.issue_token(self._state.ledger, name, by=by), "token_of": name}

    def _lock_out(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        principals.revoke_tokens(self._state.ledger, name, by=by)
        return {"message": f"Every token of {name} is revoked."}

    def _disable(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("name")
        principals.disable(self._state.ledger, name, by=by)
        return {"message": f"{name} is disabled."}


def registration_fields(known: Iterable[str]) -> list[FormField]:
    """Return the fields of a registration: what most need first, then the budget.

    ``known`` are the data sets that it may be linked to.
    """
    fields = form_fields(
        DatasetBody,
        choices={
            "products": {one.name: one.title for one in products_of(Tier.GLOBAL)},
            "linked_to": {
                "": "no other data set: separate budget",
                **{name: f"{name}: shared budget" for name in known},
            },
        },
        values=_TOTAL_DELTA,
        labels=_LABELS,
    )
    places = {name: place for place, name in enumerate(_LABELS)}
    return sorted(fields, key=lambda one: (not one.required, places.get(one.name, len(places))))


def budget_fields(people: Iterable[str]) -> list[FormField]:
    """Return the fields of a budget; ``people`` are the principals that may have one."""
    accounts = {"": "all analysts together", **{name: name for name in people}}
    return form_fields(BudgetBody, choices={"principal": accounts}, values=_TOTAL_DELTA)


_LABELS = {
    "name": "Name",
    "file": "File",
    "clip_kw": "Clipping bound (kW)",
    "title": "Title",
    "groups": "Groups",
    "allowance.epsilon": "Budget: total epsilon",
    "allowance.delta": "Budget: delta",
    "allowance.label_epsilon": "Budget: epsilon of labels",
    "customers": "Number of customers",
    "typical_kw": "Median size (kW)",
    "delta": "Delta of a release",
    "doi": "DOI",
}
"""Fields of a registration that come first, in this order, with their names for people."""

_TOTAL_DELTA = {"allowance.delta": str(DatasetBody.model_fields["delta"].default)}
"""A budget is stated at the delta of single releases unless another one is chosen."""


def ledger_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of the ledger."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/ledger")
    def show_ledger(
        user: Annotated[SignedInUser, signed_in],
        journal: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
        before: Annotated[int, Query(ge=1, le=2**62)] = 2**62,
    ) -> HTMLResponse:
        user.check_admin()
        with state.ledger.reading() as connection:
            journals = [
                _journal(
                    connection, number, names, before, _LATEST if journal is None else _MAX_ENTRIES
                )
                for number, names in _names(connection).items()
                if journal in (None, number)
            ]
            refused = [dict(row) for row in connection.execute(_REFUSED).mappings()]
            events = principals.latest_events(connection, limit=_MAX_OTHERS)
        for one in refused:
            one["why"] = RECORDED_REASONS[one.pop("code")]
        return user.page("ledger.html", journals=journals, refused=refused, events=events)

    @routes.get("/ledger.jsonl")
    def send_ledger(user: Annotated[SignedInUser, signed_in]) -> Response:
        user.check_admin()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.jsonl"
            export_ledger(state.ledger.engine, path)
            exported = path.open("rb")  # can be read after its folder is removed
        return StreamingResponse(
            iter(lambda: exported.read(_PIECE_BYTES), b""),
            media_type="application/jsonl",
            background=BackgroundTask(exported.close),
        )

    return routes


def _names(connection: Connection) -> dict[int, list[str]]:
    """Return the names of the data sets of each journal."""
    names: dict[int, list[str]] = defaultdict(list)
    for number, name in connection.execute(_JOURNALS):
        names[number].append(name)
    return names


def _journal(
    connection: Connection, number: int, names: list[str], before: int, limit: int
) -> dict[str, Any]:
    """Return the latest entries of a journal before a sequence number: times may be equal."""
    latest = _ENTRIES.where(entry.c.journal_id == number, entry.c.seq < before).limit(limit)
    entries = [dict(row) for row in connection.execute(latest).mappings()]
    for one in entries:
        one["detail"] = _detail_text(json.loads(one["detail"]))
    older = entries[-1]["seq"] if entries and entries[-1]["seq"] > 1 else None
    return {"number": number, "names": ", ".join(names), "entries": entries, "older": older}


def _detail_text(detail: dict[str, Any]) -> str:
    """Return the detail of an entry as a short text."""
    if "allowance" in detail:
        allowed = detail["allowance"]
        principal = detail["principal"] or "data set"
        amount = f"epsilon {allowed['epsilon']} at delta {allowed['delta']}"
        return f"{principal}, {detail['tier']} tier: {amount} ({detail['reason']})"
    if "series" in detail:
        what = detail.get("period") or detail.get("reason") or "budget of all periods"
        return f"series {detail['series']}: {what}"
    if "epsilon" in detail:
        return f"{detail['tier']} tier: epsilon {detail['epsilon']} at delta {detail['delta']}"
    return str(detail.get("reason", ""))


_ENTRIES = (
    select(
        *(
            entry.c[name]
            for name in ("journal_id", "seq", "at", "kind", "detail", "rho", "row_sha256")
        ),
        principal.c.name.label("principal"),
        dataset.c.name.label("dataset"),
    )
    .join(principal, principal.c.id == entry.c.principal_id)
    .outerjoin(dataset, dataset.c.id == entry.c.dataset_id)
    .order_by(entry.c.seq.desc())
)
_JOURNALS = select(dataset.c.journal_id, dataset.c.name).order_by(
    dataset.c.journal_id, dataset.c.id
)
_REFUSED = (
    select(
        refusal.c.at,
        refusal.c.code,
        principal.c.name.label("principal"),
        dataset.c.name.label("dataset"),
    )
    .join(principal, principal.c.id == refusal.c.principal_id)
    .join(dataset, dataset.c.id == refusal.c.dataset_id)
    .order_by(refusal.c.id.desc())
    .limit(_MAX_OTHERS)
)
