"""Accounts: what may be spent, by everybody together and by each principal."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from wattveil.privacy.guarantee import Tier
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.tables import account, dataset, principal

CAPS = tuple(f"{measure}_cap" for measure in MEASURES)
SPENT = tuple(f"{measure}_spent" for measure in MEASURES)


@dataclass(frozen=True)
class Account:
    """An account as it stands."""

    id: int
    caps: Amounts
    spent: Amounts

    @property
    def left(self) -> Amounts:
        """What may still be spent."""
        return self.caps - self.spent

    @property
    def share_spent(self) -> float:
        """How much of the measure of which the least is left has been spent, from 0 to 1.

        Amounts add up and epsilon does not: twice the releases have less than twice the epsilon.
        """
        pairs = zip(self.spent.values, self.caps.values, strict=True)
        return max((spent / cap for spent, cap in pairs if cap), default=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at delta of all that was spent; what is promised follows the caps."""
        return self.spent.composition.epsilon(delta)


def read_accounts(connection: Connection, book_id: int) -> dict[tuple[Tier, int | None], Account]:
    """Return the accounts of a book by tier and principal; None has that of everybody together."""
    return {
        (Tier(row[1]), row[2]): Account(row[0], Amounts(*row[3:7]), Amounts(*row[7:]))
        for row in connection.execute(_READ, {"book": book_id})
    }


def named_accounts(connection: Connection, name: str) -> list[tuple[Tier, str | None, Account]]:
    """Return the accounts of a data set: tier, whose (None: of everybody together), account."""
    book_id = select(dataset.c.book_id).where(dataset.c.name == name)
    accounts = read_accounts(connection, connection.execute(book_id).scalar_one())
    known = connection.execute(select(principal.c.id, principal.c.name))
    names = {row.id: row.name for row in known}
    found = [(tier, names.get(owner), one) for (tier, owner), one in accounts.items()]
    return sorted(found, key=lambda one: (one[0].value, one[1] or ""))


def spend(connection: Connection, amounts: Mapping[int, Amounts]) -> None:
    """Add to what accounts have spent, by number, unless that would pass a cap.

    The caller has looked already, under the lock of the book. The condition stands here again: a
    lock that somebody forgets must not become an overspend.
    """
    for account_id, price in amounts.items():
        more = {f"more_{measure}": getattr(price, measure) for measure in MEASURES}
        if connection.execute(_SPEND, {"paying": account_id, **more}).rowcount != 1:
            raise RuntimeError("an account changed under the lock of its book")


_READ = select(
    account.c.id,
    account.c.tier,
    account.c.principal_id,
    *(account.c[name] for name in (*CAPS, *SPENT)),
).where(account.c.book_id == bindparam("book"))

_SPEND = (
    update(account)
    .where(
        account.c.id == bindparam("paying"),
        *(
            account.c[f"{measure}_spent"] + bindparam(f"more_{measure}")
            <= account.c[f"{measure}_cap"]
            for measure in MEASURES
        ),
    )
    .values(
        {
            f"{measure}_spent": account.c[f"{measure}_spent"] + bindparam(f"more_{measure}")
            for measure in MEASURES
        }
    )
)
