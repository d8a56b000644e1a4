"""The API of owners. Every act on a budget is an entry of the ledger, in the name of its actor."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import select

from wattveil.serve import datasets
from wattveil.serve.access import Access
from wattveil.serve.bodies import (
    BudgetBody,
    DatasetBody,
    ReasonBody,
)
from wattveil.serve.counter import Counter
from wattveil.serve.house import House
from wattveil.serve.ledger.chain import SEALED
from wattveil.serve.ledger.tables import entry
from wattveil.serve.tokens import Holder

_MOST_ENTRIES = 1000


def owner_routes(house: House, access: Access) -> APIRouter:
    """Return the addresses under which owners act."""
    routes, ledger = APIRouter(prefix="/v1/admin"), house.ledger
    acting = Depends(access.admin)

    @routes.post("/datasets", status_code=201)
    def register_dataset(body: DatasetBody, holder: Annotated[Holder, acting]) -> dict[str, object]:
        """Register a data set, for good, with what may be spent on it."""
        datasets.register(ledger, house.folder, body, by=holder.name, look=house.look)
        return access.dataset(holder, body.name).description()

    @routes.post("/datasets/{dataset}/budgets")
    def set_budget(
        dataset: str, body: BudgetBody, holder: Annotated[Holder, acting]
    ) -> dict[str, object]:
        """Set what may be spent, by everybody or by one person."""
        name = access.dataset(holder, dataset).name
        ledger.set_budget(
            name,
            datasets.allowance_of(body.allowance),
            by=holder.name,
            reason=body.reason,
            tier=body.tier,
            whose=body.whose,
        )
        return {"dataset": name, "tier": body.tier.value, "whose": body.whose}

    @routes.get("/datasets/{dataset}/accounts")
    def list_accounts(dataset: str, holder: Annotated[Holder, acting]) -> dict[str, object]:
        """List the accounts of a data set: whose, of which tier, what was spent and may be."""
        return {"accounts": Counter(house).accounts(access.dataset(holder, dataset))}

    @routes.post("/datasets/{dataset}/close")
    def close_dataset(
        dataset: str, body: ReasonBody, holder: Annotated[Holder, acting]
    ) -> dict[str, object]:
        """Close a data set, for good. What it has answered stays."""
        name = access.dataset(holder, dataset).name
        ledger.close_dataset(name, by=holder.name, reason=body.reason)
        return {"dataset": name, "closed": True}

    @routes.get("/ledger")
    def read_ledger(
        _: Annotated[Holder, acting],
        book: Annotated[int, Query(ge=1, le=2**31 - 1)] = 1,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    ) -> dict[str, object]:
        """Read entries of the ledger, a thousand at a time.

        Go on with `after` set to the last `seq`.
        """
        columns = [entry.c[name] for name in (*SEALED, "row_sha256")]
        page = (
            select(*columns)
            .where(entry.c.book_id == book, entry.c.seq > after)
            .order_by(entry.c.seq)
            .limit(_MOST_ENTRIES)
        )
        with ledger.reading() as connection:
            entries: list[dict[str, Any]] = [
                dict(row) for row in connection.execute(page).mappings()
            ]
        return {"entries": entries}

    return routes
