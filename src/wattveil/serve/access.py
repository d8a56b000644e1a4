"""Who is asking, and what they may see. Nobody may do anything unless it is said here."""

from dataclasses import dataclass

from starlette.requests import Request

from wattveil.serve import tokens
from wattveil.serve.datasets import Dataset, admitted_to, find_dataset
from wattveil.serve.house import House
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.limits import Limiter, Rate
from wattveil.serve.problems import Code, Problem
from wattveil.serve.releases import Paid, find_paid
from wattveil.serve.shares import EVERYBODY, readers
from wattveil.serve.tokens import Holder

_ASKING = Rate(burst=100, per_second=20)
_GUESSING = Rate(burst=20, per_second=0.5)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How often one principal may ask, and one address may come with a token that is not good."""

    asking: Rate = _ASKING
    guessing: Rate = _GUESSING


class Access:
    """The door of a house."""

    def __init__(self, house: House, limits: Limits) -> None:
        self._house = house
        self._asking = Limiter(limits.asking)
        self._guessing = Limiter(limits.guessing)

    def by_token(self, text: str, address: str) -> Holder:
        """Return who holds a token; refuse one that is not good, and whoever tries many."""
        with self._house.ledger.reading() as connection:
            holder = tokens.holder_of(connection, text)
        if holder is None:
            raise Problem(Code.UNAUTHORIZED if self._guessing.admits(address) else Code.BUSY)
        return self.counted(holder)

    def counted(self, holder: Holder) -> Holder:
        """Count a request of somebody who may come in."""
        if not self._asking.admits(holder.name):
            raise Problem(Code.BUSY)
        return holder

    def known(self, request: Request) -> Holder | None:
        """Return who sends a request of the API, uncounted; None for a stranger."""
        with self._house.ledger.reading() as connection:
            return tokens.holder_of(connection, _bearer(request))

    def holder(self, request: Request) -> Holder:
        """Return who sent a request of the API."""
        address = "" if request.client is None else request.client.host
        return self.by_token(_bearer(request), address)

    def admin(self, request: Request) -> Holder:
        """Return who sent a request that only administrators may send."""
        holder = self.holder(request)
        if holder.kind is not PrincipalKind.ADMIN:
            raise Problem(Code.FORBIDDEN)
        return holder

    def dataset(self, holder: Holder, name: str) -> Dataset:
        """Return a data set that somebody may see; one that is unknown is refused likewise."""
        with self._house.ledger.reading() as connection:
            found = find_dataset(connection, name) if name.isprintable() else None
            seen = holder.kind is PrincipalKind.ADMIN or name in admitted_to(
                connection, holder.name
            )
        if found is None or not seen:
            raise Problem(Code.FORBIDDEN)
        return found

    def paid(self, holder: Holder, release_id: str) -> Paid:
        """Return a charge that somebody may see: its own, or shared; administrators see all."""
        with self._house.ledger.reading() as connection:
            found = find_paid(connection, release_id)
            seen = found is not None and (
                owns(holder, found)
                or not {holder.name, EVERYBODY}.isdisjoint(readers(connection, found))
            )
        if found is None or not seen:
            raise Problem(Code.NOT_FOUND)
        return found

    def own_paid(self, holder: Holder, release_id: str) -> Paid:
        """Return a charge that somebody may share with others."""
        found = self.paid(holder, release_id)
        if not owns(holder, found):
            raise Problem(Code.FORBIDDEN)
        return found


def _bearer(request: Request) -> str:
    """Return the token in the headers of a request; empty if there is none."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def owns(holder: Holder, paid: Paid) -> bool:
    """Whether somebody may say who else reads a release."""
    return holder.kind is PrincipalKind.ADMIN or paid.principal == holder.name
