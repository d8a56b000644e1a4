"""Pages of administrators: data sets, budgets, principals, the ledger and its export."""

import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Connection, select
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, HTMLResponse, Response

from wattveil.privacy.guarantee import Tier
from wattveil.products.public_estimate import rounding_notes
from wattveil.products.registry import products_of
from wattveil.server import datasets
from wattveil.server.auth import principals
from wattveil.server.auth.access import Access
from wattveil.server.auth.sessions import Sessions
from wattveil.server.dataset_choices import DatasetBody
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
from wattveil.server.ledger.admission import Refusal
from wattveil.server.ledger.ledger_audit import export_ledger
from wattveil.server.ledger.ledger_tables import dataset, entry, principal, refusal
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState

_TEXTS = ("title", "curator", "region", "contact", "customer_list_file")
_LATEST = 50
"""Entries of each journal on the page of all journals."""
_MAX_ENTRIES = 200
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
        return user.page("admin.html", status, datasets=pairs, people=people, **shown)

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
        texts = {name: text for name in _TEXTS if (text := form.text(name))}
        labelled = "customer_list_file" in texts
        products = [
            one.name for one in products_of(Tier.GLOBAL) if labelled or not one.needs_customer_list
        ]
        body = DatasetBody.model_validate(
            {
                **texts,
                "name": form.text("name"),
                "file": form.text("file"),
                "clip_kw": form.number("clip_kw"),
                "customers": form.integer("customers"),
                "typical_kw": form.number("typical_kw"),
                "groups": read_groups(form.text("groups")),
                "products": products,
                **_shared_or_own(form),
            }
        )
        state = self._state
        datasets.register(
            state.ledger, state.folder, body, by=by, describe_profiles=state.describe_profiles
        )
        sent = {"customers": form.integer("customers"), "typical_kw": form.number("typical_kw")}
        notes = [f"Note: {note}." for note in rounding_notes(sent)]
        return {"message": " ".join([f"{body.name} is registered.", *notes])}

    def _set_budget(self, form: Form, by: str) -> dict[str, object]:
        body = BudgetBody.model_validate(
            {
                "allowance": _allowance(form),
                "reason": form.text("reason"),
                "tier": form.text("tier"),
                "principal": form.text("principal") or None,
            }
        )
        self._state.ledger.set_budget(
            form.text("dataset"),
            datasets.allowance_of(body.allowance),
            by=by,
            reason=body.reason,
            tier=body.tier,
            principal=body.principal,
        )
        return {"message": "The budget is set."}

    def _close(self, form: Form, by: str) -> dict[str, object]:
        name = form.text("dataset")
        self._state.ledger.close_dataset(name, by=by, reason=form.text("reason"))
        return {"message": f"{name} is closed."}

    def _admit(self, form: Form, by: str) -> dict[str, object]:
        body = PrincipalBody.model_validate({"name": form.text("name"), "kind": form.text("kind")})
        token = principals.create_principal(self._state.ledger, body.name, body.kind, by=by)
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


def _shared_or_own(form: Form) -> dict[str, Any]:
    """Return the data set whose budget a new one shares, or a budget of its own."""
    linked_to = form.text("linked_to")
    return {"linked_to": linked_to} if linked_to else {"allowance": _allowance(form)}


def _allowance(form: Form) -> dict[str, Any]:
    names = ("epsilon", "delta", "label_epsilon")
    return {name: value for name in names if (value := form.number(name)) is not None}


def read_groups(text: str) -> dict[str, list[str]]:
    """Parse one attribute per line: its name, a colon, its values separated by commas."""
    groups = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, values = line.partition(":")
        groups[name.strip()] = [value.strip() for value in values.split(",") if value.strip()]
    return groups


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
            one["why"] = Refusal[one.pop("code").upper()].value
        return user.page("ledger.html", journals=journals, refused=refused, events=events)

    @routes.get("/ledger.jsonl")
    def send_ledger(user: Annotated[SignedInUser, signed_in]) -> Response:
        user.check_admin()
        folder = Path(tempfile.mkdtemp())
        cleared = BackgroundTask(shutil.rmtree, folder)
        export_ledger(state.ledger.engine, folder / "ledger.jsonl")
        return FileResponse(
            folder / "ledger.jsonl", media_type="application/jsonl", background=cleared
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
