"""What a book had counted when it made a charge, taken from its entries up to that one.

Never from the accounts: those move on, and a statement must be one that the ledger still shows when
it is read years later.
"""

import json

from sqlalchemy import Connection, bindparam, func, select

from wattveil.publish.cumulative import Cumulative
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.charges import Charge
from wattveil.serve.ledger.journal import Kind
from wattveil.serve.ledger.tables import account, entry


def counted_with(connection: Connection, paid: Charge) -> Cumulative:
    """Return the sum of the account that paid for the noise of a charge, that charge included."""
    place = {"book": paid.book_id, "seq": paid.drawn_seq}
    drawn = connection.execute(_DRAWN, place).one()
    until = {**place, "account": drawn.account_id}
    spent = connection.execute(_SPENT, until).one()
    opened = set(connection.execute(_OPENED, place).scalars())
    return Cumulative(
        tier=drawn.tier,
        delta=float(json.loads(paid.request)["delta"]),
        # PostgreSQL adds 64-bit numbers up to a decimal.
        spent=Amounts(*map(int, spent)).composition,
        caps=Amounts(*connection.execute(_CAPS, until).one()).composition,
        releases=int(connection.execute(_RELEASES, until).scalar_one()),
        ledger_seq=paid.drawn_seq,
        chain_head=drawn.row_sha256,
        other_tier_open=bool(opened - {drawn.tier}),
    )


_UP_TO = (entry.c.book_id == bindparam("book"), entry.c.seq <= bindparam("seq"))
_HERE = (*_UP_TO, entry.c.account_id == bindparam("account"))
_DRAWN = (
    select(entry.c.account_id, entry.c.row_sha256, account.c.tier)
    .join(account, account.c.id == entry.c.account_id)
    .where(entry.c.book_id == bindparam("book"), entry.c.seq == bindparam("seq"))
)
_SPENT = select(*(func.sum(entry.c[measure]) for measure in MEASURES)).where(
    *_HERE, entry.c.kind.in_([Kind.CHARGE.value, Kind.LOST.value])
)
_RELEASES = select(func.count()).where(*_HERE, entry.c.kind == Kind.CHARGE.value)
_CAPS = (
    select(*(entry.c[measure] for measure in MEASURES))
    .where(*_HERE, entry.c.kind == Kind.CAP.value)
    .order_by(entry.c.seq.desc())
    .limit(1)
)
_OPENED = (
    select(account.c.tier)
    .join(entry, entry.c.account_id == account.c.id)
    .where(*_UP_TO, entry.c.kind == Kind.CAP.value, account.c.principal_id.is_(None))
)
