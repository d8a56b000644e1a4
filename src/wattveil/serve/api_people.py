"""People: administrators say who may come in, and for how long."""

from typing import Annotated

from fastapi import APIRouter, Depends

from wattveil.serve import people
from wattveil.serve.access import Access
from wattveil.serve.bodies import PrincipalBody, TokenBody
from wattveil.serve.house import House
from wattveil.serve.tokens import Holder

_MOST_ACTS = 1000


def people_routes(house: House, access: Access) -> APIRouter:
    """Return the addresses under which people are admitted and sent away."""
    routes, ledger = APIRouter(prefix="/v1/admin"), house.ledger
    acting = Depends(access.admin)

    @routes.get("/principals")
    def list_principals(_: Annotated[Holder, acting]) -> dict[str, object]:
        """List everybody who may act or ask."""
        with ledger.reading() as connection:
            return {"principals": people.everybody(connection)}

    @routes.get("/acts")
    def list_acts(_: Annotated[Holder, acting]) -> dict[str, object]:
        """Return the latest acts about people, the newest first."""
        with ledger.reading() as connection:
            return {"acts": people.latest_acts(connection, most=_MOST_ACTS)}

    @routes.post("/principals", status_code=201)
    def admit_principal(body: PrincipalBody, holder: Annotated[Holder, acting]) -> dict[str, str]:
        """Admit a person; the token is shown this once."""
        token = people.admit(ledger, body, by=holder.name)
        return {"name": body.name, "kind": body.kind.value, "token": token}

    @routes.post("/principals/{name}/tokens", status_code=201)
    def issue_token(
        name: str, body: TokenBody, holder: Annotated[Holder, acting]
    ) -> dict[str, str]:
        """Give a person a further token, shown this once."""
        token = people.further_token(ledger, name, by=holder.name, days=body.days)
        return {"name": name, "token": token}

    @routes.post("/principals/{name}/revoke")
    def revoke_tokens(name: str, holder: Annotated[Holder, acting]) -> dict[str, object]:
        """Make every token of a person worthless."""
        return {"name": name, "revoked": people.lock_out(ledger, name, by=holder.name)}

    @routes.post("/principals/{name}/disable")
    def disable_principal(name: str, holder: Annotated[Holder, acting]) -> dict[str, object]:
        """Send a person away, for good."""
        people.disable(ledger, name, by=holder.name)
        return {"name": name, "disabled": True}

    return routes
