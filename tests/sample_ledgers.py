"""Small ledgers for tests: an owner, two analysts, one data set, and orders of a given price."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, text

from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.products.findings import Finding
from wattveil.server.ledger.accounts import Account, Charge
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import audit_ledger
from wattveil.server.ledger.order import Order

ALLOWANCE = Allowance(epsilon=1.0, delta=1e-6, label_epsilon=0.25)
LARGER = Allowance(epsilon=2.0, delta=1e-6, label_epsilon=0.25)
ANALYSTS = ("ann", "bob")


def share_of(parts: int, allowance: Allowance = ALLOWANCE) -> Amounts:
    """Return a price that can be paid so many times, and not once more."""
    caps = allowance.caps
    return Amounts(rho=caps.rho // parts, eta=caps.eta // (2 * parts))


def order(
    key: str,
    *,
    request: object = None,
    price: Amounts | None = None,
    dataset: str = "homes",
    principal: str = "ann",
    tier: Tier = Tier.GLOBAL,
    neighbours: Neighbours = Neighbours.ZERO_OUT,
) -> Order:
    """Return an order; by default, each key has a different request."""
    return Order(
        dataset=dataset,
        principal=principal,
        key=key,
        request={"wanted": key if request is None else request},
        price=share_of(4) if price is None else price,
        tier=tier,
        neighbours=neighbours,
        unit=Unit.CUSTOMER,
    )


def populate(ledger: Ledger, allowance: Allowance = ALLOWANCE) -> None:
    """Register an owner, the analysts and a data set for them."""
    ledger.add_principal("owner", PrincipalKind.ADMIN)
    open_dataset(ledger, "homes", allowance=allowance)
    for name in ANALYSTS:
        ledger.add_principal(name, PrincipalKind.ANALYST)
        ledger.set_budget("homes", allowance, by="owner", reason="admitted", principal=name)


def open_dataset(
    ledger: Ledger,
    name: str,
    *,
    allowance: Allowance | None = None,
    linked_to: str | None = None,
    fingerprint: str | None = None,
    neighbours: Neighbours = Neighbours.ZERO_OUT,
) -> None:
    """Register a data set by the owner."""
    ledger.open_dataset(
        name,
        by="owner",
        fingerprint=f"hmac:{name}" if fingerprint is None else fingerprint,
        unit=Unit.CUSTOMER,
        neighbours=neighbours,
        allowance=allowance,
        linked_to=linked_to,
    )


def whole(ledger: Ledger, dataset: str = "homes", tier: Tier = Tier.GLOBAL) -> Account:
    """Return the account of the data set, for all principals together."""
    account, _ = ledger.accounts(dataset, "ann", tier)
    assert account is not None
    return account


def own(ledger: Ledger, principal: str, tier: Tier = Tier.GLOBAL) -> Account:
    """Return the account of one principal."""
    _, account = ledger.accounts("homes", principal, tier)
    assert account is not None
    return account


def broken(ledger: Ledger) -> list[Finding]:
    """Return what the audit finds wrong."""
    return [finding for finding in audit_ledger(ledger.engine) if not finding.holds]


def write_payload(path: Path, text: str) -> None:
    """Leave a folder as a computation does."""
    path.mkdir()
    (path / "table.csv").write_text(text)


def compute(paid: Charge, path: Path) -> None:
    """Draw nothing, and leave what the request said."""
    write_payload(path, paid.request)


@contextmanager
def full_disk(engine: Engine) -> Iterator[None]:
    """Let the database say that the disk is full: by its own limit, or by its own error."""
    if engine.dialect.name == "sqlite":

        def limit(connection: Any, pages: int) -> None:  # noqa: ANN401 - of any driver
            connection.execute(f"PRAGMA max_page_count = {pages}")

        def on_checkout(connection: Any, *_: object) -> None:  # noqa: ANN401
            limit(connection, 1)  # as many as there are

        event.listen(engine, "checkout", on_checkout)
        yield
        event.remove(engine, "checkout", on_checkout)
        event.listen(engine, "checkout", lambda connection, *_: limit(connection, 2**30))
        return
    with writing(engine).begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
            )
        )
        on = "CREATE TRIGGER full_disk BEFORE INSERT ON entry EXECUTE FUNCTION full_disk()"
        connection.execute(text(on))
    yield
    with writing(engine).begin() as connection:
        connection.execute(text("DROP TRIGGER full_disk ON entry"))


@contextmanager
def read_only(engine: Engine) -> Iterator[None]:
    """Let the database refuse every change."""
    sqlite = engine.dialect.name == "sqlite"

    def forbid(connection: Any, *_: object) -> None:  # noqa: ANN401 - of any driver
        connection.execute(
            "PRAGMA query_only = ON" if sqlite else "SET default_transaction_read_only = on"
        )
        connection.commit()

    event.listen(engine, "checkout", forbid)
    yield
    event.remove(engine, "checkout", forbid)
    engine.dispose()  # its connections keep what they were told
