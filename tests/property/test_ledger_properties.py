"""Random histories of a ledger, against a model of forty lines that adds up in plain integers."""

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.sample_ledgers import ANALYSTS, broken, order, own, populate, whole
from wattveil.errors import ChargeRefusedError, InvalidParameterError, KeyConflictError
from wattveil.server.ledger.accounts import Release, ReleaseState
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.ledger import Ledger

ALLOWANCES = [Allowance(epsilon=0.5 * size, delta=1e-6) for size in (1, 2, 3)]
RHO = [allowance.caps.rho for allowance in ALLOWANCES]
PRICES = [RHO[0] // 3, RHO[0] // 2, RHO[1] // 2, RHO[2]]


class Model:
    """What a ledger should say: caps, what was spent, and who was answered."""

    def __init__(self) -> None:
        self.caps: dict[str | None, int] = dict.fromkeys((None, *ANALYSTS), RHO[0])
        self.spent: dict[str | None, int] = dict.fromkeys((None, *ANALYSTS), 0)
        self.keys: dict[tuple[str, str], int] = {}
        self.drawn: dict[int, str] = {}
        self.paid: dict[int, set[str]] = {}
        self.closed = False

    def charge(self, who: str, key: str, request: int, price: int) -> str:
        """Return what happens to an order."""
        if (who, key) in self.keys:
            return "known" if self.keys[who, key] == request else "conflict"
        answered = self.drawn.get(request) in ("pending", "ok")
        payers: list[str | None] = [] if answered else [None]
        if not answered or who not in self.paid[request]:
            payers.append(who)
        if self.closed or any(self.spent[one] + price > self.caps[one] for one in payers):
            return "refused"
        if not answered:
            self.drawn[request], self.paid[request] = "pending", set()
        self.paid[request].add(who)
        self.keys[who, key] = request
        for one in payers:
            self.spent[one] += price
        return "made"

    def set_cap(self, principal: str | None, rho: int) -> bool:
        """Return whether a cap may be set."""
        if rho < self.spent[principal]:
            return False
        self.caps[principal] = rho
        return True


class LedgerMachine(RuleBasedStateMachine):
    """Charges, repeats, releases, budgets, restarts and a closed data set, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger.open(Path(self.folder.name))
        populate(self.ledger, ALLOWANCES[0])
        self.model = Model()

    def teardown(self) -> None:
        """Audit all of it at the end."""
        assert broken(self.ledger) == []
        assert len(self.ledger.pending()) == list(self.model.drawn.values()).count("pending")
        self.ledger.close()
        self.folder.cleanup()

    @rule(
        who=st.sampled_from(ANALYSTS),
        key=st.sampled_from("abcdefgh"),
        request=st.integers(min_value=0, max_value=len(PRICES) - 1),
    )
    def charge(self, who: str, key: str, request: int) -> None:
        """An order: its price is a function of the request."""
        price = PRICES[request]
        expected = self.model.charge(who, key, request, price)
        placed = order(key, request=request, price=Amounts(rho=price), principal=who)
        try:
            self.ledger.charge(placed)
            happened = "done"
        except KeyConflictError:
            happened = "conflict"
        except ChargeRefusedError:
            happened = "refused"
        assert happened == ("done" if expected in ("made", "known") else expected)

    @precondition(lambda self: "pending" in self.model.drawn.values())
    @rule(state=st.sampled_from(ReleaseState))
    def store(self, state: ReleaseState) -> None:
        """The first draw that is waiting ends; a second store changes nothing."""
        paid = self.ledger.pending()[0]
        stored = self.ledger.store(paid, Release(state=state))
        assert self.ledger.store(paid, Release(state=ReleaseState.OK)) == stored
        request = PRICES.index(paid.price.rho)
        assert self.model.drawn[request] == "pending"
        self.model.drawn[request] = state.value

    @rule(principal=st.sampled_from([None, *ANALYSTS]), size=st.integers(min_value=0, max_value=2))
    def set_budget(self, principal: str | None, size: int) -> None:
        """A cap goes up or down, never below what is spent."""
        expected = self.model.set_cap(principal, RHO[size])
        try:
            self.ledger.set_budget(
                "homes", ALLOWANCES[size], by="owner", reason="because", principal=principal
            )
            assert expected
        except InvalidParameterError:
            assert not expected

    @rule()
    def restart(self) -> None:
        """Everything is still there."""
        self.ledger.close()
        self.ledger = Ledger.open(Path(self.folder.name))

    @precondition(lambda self: not self.model.closed and len(self.model.keys) > 3)
    @rule()
    def close_dataset(self) -> None:
        """No further charge; repeats stay free."""
        self.ledger.close_dataset("homes", by="owner", reason="over")
        self.model.closed = True

    @invariant()
    def accounts_agree(self) -> None:
        """Every account holds what the model holds."""
        accounts = {None: whole(self.ledger)} | {who: own(self.ledger, who) for who in ANALYSTS}
        assert {key: one.spent.rho for key, one in accounts.items()} == self.model.spent
        assert {key: one.caps.rho for key, one in accounts.items()} == self.model.caps


LedgerMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("WATTVEIL_HISTORIES", "12")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLedger = LedgerMachine.TestCase
