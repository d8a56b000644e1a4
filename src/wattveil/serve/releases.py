"""Releases as those see them who paid for them, or with whom they are shared."""

import json
import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, exists, or_, select

from wattveil.serve.ledger.charges import CHARGED, Charge, charge_of
from wattveil.serve.ledger.journal import Kind
from wattveil.serve.ledger.tables import dataset, entry, principal, share

_NUMBER = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,17})")


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A charge with the names that belong to it."""

    charge: Charge
    dataset: str
    principal: str
    at: str

    @property
    def id(self) -> str:
        """What the release is called in addresses."""
        return f"{self.charge.book_id}-{self.charge.seq}"

    @property
    def request(self) -> dict[str, Any]:
        """The canonical request."""
        found: dict[str, Any] = json.loads(self.charge.request)
        return found


def find_paid(connection: Connection, release_id: str) -> Paid | None:
    """Return the charge that a name stands for."""
    found = _NUMBER.fullmatch(release_id)
    if found is None:
        return None
    place = {"book": int(found[1]), "seq": int(found[2])}
    row = connection.execute(_PAID.where(*_PLACE), place).one_or_none()
    return None if row is None else _paid_of(row)


def shown_to(connection: Connection, name: str, *, most: int) -> list[Paid]:
    """Return the latest charges of a principal, and those that are shared with it."""
    reader = select(principal.c.id).where(principal.c.name == name).scalar_subquery()
    shared = exists().where(
        share.c.book_id == entry.c.book_id,
        share.c.seq == entry.c.seq,
        or_(share.c.principal_id.is_(None), share.c.principal_id == reader),
    )
    mine = _PAID.where(or_(entry.c.principal_id == reader, shared))
    latest = mine.order_by(*(entry.c[name].desc() for name in ("at", "book_id", "seq"))).limit(most)
    return [_paid_of(row) for row in connection.execute(latest)]


def _paid_of(row: Any) -> Paid:  # noqa: ANN401 - a row of `_PAID`
    return Paid(charge=charge_of(row), dataset=row.dataset, principal=row.principal, at=row.at)


_PAID = (
    CHARGED.add_columns(
        dataset.c.name.label("dataset"), principal.c.name.label("principal"), entry.c.at
    )
    .select_from(
        entry.join(dataset, dataset.c.id == entry.c.dataset_id).join(
            principal, principal.c.id == entry.c.principal_id
        )
    )
    .where(entry.c.kind == Kind.CHARGE.value)
)
_PLACE = (entry.c.book_id == bindparam("book"), entry.c.seq == bindparam("seq"))
