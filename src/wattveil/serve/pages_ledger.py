"""The ledger as a page, what was refused, what was done about people; all entries as a file."""

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

from wattveil.serve import people
from wattveil.serve.access import Access
from wattveil.serve.house import House
from wattveil.serve.ledger.audit import export_ledger
from wattveil.serve.ledger.desk import Refusal
from wattveil.serve.ledger.tables import dataset, entry, principal, refusal
from wattveil.serve.pages import Visitor, visiting
from wattveil.serve.sessions import Sessions

_LATEST = 50
"""Of each book, at a first look."""
_MOST_ENTRIES = 200
_MOST_OTHERS = 50


def ledger_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages on which owners look at what was spent."""
    routes = APIRouter(include_in_schema=False)
    visitor = Depends(visiting(sessions, access))

    @routes.get("/ledger")
    def show_ledger(
        who: Annotated[Visitor, visitor],
        book: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
        before: Annotated[int, Query(ge=1, le=2**62)] = 2**62,
    ) -> HTMLResponse:
        who.check_admin()
        with house.ledger.reading() as connection:
            books = [
                _book(connection, number, names, before, _LATEST if book is None else _MOST_ENTRIES)
                for number, names in _names(connection).items()
                if book in (None, number)
            ]
            refused = [dict(row) for row in connection.execute(_REFUSED).mappings()]
            acts = people.latest_acts(connection, most=_MOST_OTHERS)
        for one in refused:
            one["why"] = Refusal[one.pop("code").upper()].value
        return who.page("ledger.html", books=books, refused=refused, acts=acts)

    @routes.get("/ledger.jsonl")
    def send_ledger(who: Annotated[Visitor, visitor]) -> Response:
        who.check_admin()
        folder = Path(tempfile.mkdtemp())
        cleared = BackgroundTask(shutil.rmtree, folder)
        export_ledger(house.ledger.engine, folder / "ledger.jsonl")
        return FileResponse(
            folder / "ledger.jsonl", media_type="application/jsonl", background=cleared
        )

    return routes


def _names(connection: Connection) -> dict[int, list[str]]:
    """Return the names of the data sets of each book."""
    names: dict[int, list[str]] = defaultdict(list)
    for number, name in connection.execute(_BOOKS):
        names[number].append(name)
    return names


def _book(
    connection: Connection, number: int, names: list[str], before: int, most: int
) -> dict[str, Any]:
    """Return the latest entries of a book that come before one, by number: times may be equal."""
    latest = _ENTRIES.where(entry.c.book_id == number, entry.c.seq < before).limit(most)
    entries = [dict(row) for row in connection.execute(latest).mappings()]
    for one in entries:
        one["said"] = _said(json.loads(one.pop("detail")))
    older = entries[-1]["seq"] if entries and entries[-1]["seq"] > 1 else None
    return {"number": number, "names": ", ".join(names), "entries": entries, "older": older}


def _said(detail: dict[str, Any]) -> str:
    """Return what an entry says beside its amounts, in a few words."""
    if "allowance" in detail:
        allowed = detail["allowance"]
        whose = detail["whose"] or "everybody together"
        amount = f"epsilon {allowed['epsilon']} at delta {allowed['delta']}"
        return f"{whose}, {detail['tier']} tier: {amount} ({detail['reason']})"
    if "epsilon" in detail:
        return f"{detail['tier']} tier: epsilon {detail['epsilon']} at delta {detail['delta']}"
    return str(detail.get("reason", ""))


_ENTRIES = (
    select(
        *(
            entry.c[name]
            for name in ("book_id", "seq", "at", "kind", "detail", "rho", "row_sha256")
        ),
        principal.c.name.label("principal"),
        dataset.c.name.label("dataset"),
    )
    .join(principal, principal.c.id == entry.c.principal_id)
    .outerjoin(dataset, dataset.c.id == entry.c.dataset_id)
    .order_by(entry.c.seq.desc())
)
_BOOKS = select(dataset.c.book_id, dataset.c.name).order_by(dataset.c.book_id, dataset.c.id)
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
    .limit(_MOST_OTHERS)
)
