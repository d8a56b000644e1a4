"""The ledger as a page, what was refused, what was done about people; all entries as a file."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import select
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

_MOST_ENTRIES = 200
_MOST_OTHERS = 50


def ledger_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages on which owners look at what was spent."""
    routes = APIRouter(include_in_schema=False)
    visitor = Depends(visiting(sessions, access))

    @routes.get("/ledger")
    def show_ledger(
        who: Annotated[Visitor, visitor],
        before: Annotated[str, Query(max_length=40, pattern=r"^[0-9T:.+-]*$")] = "9999",
    ) -> HTMLResponse:
        who.check_admin()
        latest = _ENTRIES.where(entry.c.at < before).limit(_MOST_ENTRIES)
        with house.ledger.reading() as connection:
            entries = [dict(row) for row in connection.execute(latest).mappings()]
            refused = [dict(row) for row in connection.execute(_REFUSED).mappings()]
            acts = people.latest_acts(connection, most=_MOST_OTHERS)
        for one in entries:
            one["said"] = _said(json.loads(one.pop("detail")))
        for one in refused:
            one["why"] = Refusal[one.pop("code").upper()].value
        older = entries[-1]["at"] if len(entries) == _MOST_ENTRIES else None
        return who.page("ledger.html", entries=entries, older=older, refused=refused, acts=acts)

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
    .order_by(entry.c.at.desc())
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
    .limit(_MOST_OTHERS)
)
