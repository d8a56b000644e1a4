"""Data sets for analysts: what is public of them, budgets, quotes, orders."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header
from starlette.responses import JSONResponse

from wattveil.privacy.guarantee import Tier
from wattveil.serve.access import Access
from wattveil.serve.bodies import AskBody
from wattveil.serve.counter import Counter
from wattveil.serve.datasets import admitted_to, all_datasets
from wattveil.serve.house import House
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.ledger.order import check_key
from wattveil.serve.tokens import Holder


def dataset_routes(house: House, access: Access) -> APIRouter:
    """Return the addresses of data sets."""
    routes, counter = APIRouter(prefix="/v1"), Counter(house)
    asking = Depends(access.holder)

    @routes.get("/me")
    def who_am_i(holder: Annotated[Holder, asking]) -> dict[str, str]:
        """Say whose token this is."""
        return {"name": holder.name, "kind": holder.kind.value}

    @routes.get("/datasets")
    def list_datasets(holder: Annotated[Holder, asking]) -> dict[str, object]:
        """List the public descriptions of the data sets to which one is admitted."""
        with house.ledger.reading() as connection:
            known = all_datasets(connection)
            seen = admitted_to(connection, holder.name)
        if holder.kind is PrincipalKind.ADMIN:
            seen = {one.name for one in known}
        return {"datasets": [one.description() for one in known if one.name in seen]}

    @routes.get("/datasets/{dataset}")
    def describe_dataset(dataset: str, holder: Annotated[Holder, asking]) -> dict[str, object]:
        """Describe a data set: public bound, groups, products, grid."""
        return access.dataset(holder, dataset).description()

    @routes.get("/datasets/{dataset}/budget")
    def read_budget(
        dataset: str, holder: Annotated[Holder, asking], tier: Tier = Tier.GLOBAL
    ) -> dict[str, object]:
        """Say what may be spent and what was, by everybody and by oneself."""
        return counter.budget(holder, access.dataset(holder, dataset), tier)

    @routes.post("/datasets/{dataset}/quotes")
    def make_quote(
        dataset: str, body: AskBody, holder: Annotated[Holder, asking]
    ) -> dict[str, object]:
        """Price a question: split, expected error, how many more of it are left. Free."""
        return counter.quote(holder, access.dataset(holder, dataset), body)

    @routes.post("/datasets/{dataset}/releases", status_code=202)
    def order_release(
        dataset: str,
        body: AskBody,
        holder: Annotated[Holder, asking],
        idempotency_key: Annotated[str, Header()],
    ) -> JSONResponse:
        """Ask. 202 while it is computed, 200 once it is there; a key never pays twice."""
        key = check_key("Idempotency-Key", idempotency_key)
        paid = counter.order(holder, access.dataset(holder, dataset), body, key)
        said = counter.release(paid)
        status = 202 if said["state"] == "computing" else 200
        return JSONResponse(said, status, {"Location": f"/v1/releases/{paid.id}"})

    return routes
