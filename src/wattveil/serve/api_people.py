"""People: administrators say who may come in, and for how long."""

from typing import Annotated

from fastapi import APIRouter, Depends

from wattveil.serve import people
from wattveil.serve.access import Access
from wattveil.serve.bodies import PrincipalBody, TokenBody
from wattveil.serve.house import House
from wattveil.serve.tokens import Holder


def people_routes(house: House, access: Access) -> APIRouter:
    """Return the addresses under which people are admitted and sent away."""
    routes, ledger = APIRouter(prefix="/v1/admin"), house.ledger
    acting = Depends(access.admin)

    @routes.get("/principals")
    def list_principals(_: Annotated[Holder, acting]) -> dict[str, object]:
        with ledger.reading() as connection:
            return {"principals": people.everybody(connection)}

    @routes.post("/principals", status_code=201)
    def admit_principal(body: PrincipalBody, _: Annotated[Holder, acting]) -> dict[str, str]:
        return {"name": body.name, "kind": body.kind.value, "token": people.admit(ledger, body)}

    @routes.post("/principals/{name}/tokens", status_code=201)
    def issue_token(name: str, body: TokenBody, _: Annotated[Holder, acting]) -> dict[str, str]:
        return {"name": name, "token": people.further_token(ledger, name, days=body.days)}

    @routes.post("/principals/{name}/revoke")
    def revoke_tokens(name: str, _: Annotated[Holder, acting]) -> dict[str, object]:
        return {"name": name, "revoked": people.lock_out(ledger, name)}

    @routes.post("/principals/{name}/disable")
    def disable_principal(name: str, _: Annotated[Holder, acting]) -> dict[str, object]:
        ledger.disable_principal(name)
        return {"name": name, "disabled": True}

    return routes
