"""What analysts do, whether by the API or on a page: look, get a quote, ask, fetch."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from wattveil.privacy.guarantee import Tier
from wattveil.publish.produce import check_list, read_customer_list
from wattveil.publish.request import ReleaseRequest
from wattveil.serve.bodies import AskBody
from wattveil.serve.datasets import FOLDER, Dataset
from wattveil.serve.house import House
from wattveil.serve.ledger.accounts import Account, named_accounts
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.charges import State
from wattveil.serve.ledger.pricing import largest_epsilon, order_release, release_price
from wattveil.serve.problems import Code, Problem
from wattveil.serve.releases import Paid, find_paid
from wattveil.serve.tokens import Holder


@dataclass(frozen=True)
class Counter:
    """Where analysts are served."""

    house: House

    def budget(self, holder: Holder, dataset: Dataset, tier: Tier) -> dict[str, object]:
        """Return what may be spent and what was, by everybody and by oneself."""
        whole, own = self.house.ledger.accounts(dataset.name, holder.name, tier)
        delta = dataset.public["delta"]
        return {
            "tier": tier.value,
            "delta": repr(delta),
            "dataset": None if whole is None else _account(whole, delta),
            "own": None if own is None else _account(own, delta),
        }

    def accounts(self, dataset: Dataset) -> list[dict[str, Any]]:
        """Return every account of a data set, for its owner: whose, of which tier, how full."""
        with self.house.ledger.reading() as connection:
            return [
                {"whose": whose, "tier": tier.value, **_account(one, dataset.public["delta"])}
                for tier, whose, one in named_accounts(connection, dataset.name)
            ]

    def quote(self, holder: Holder, dataset: Dataset, body: AskBody) -> dict[str, Any]:
        """Return price and expected error of a release; nothing is spent."""
        request = dataset.request(body)
        price = release_price(request)
        whole, own = self.house.ledger.accounts(dataset.name, holder.name, request.tier)
        largest = None
        if whole is not None and own is not None:
            largest = largest_epsilon(request, whole.left.least(own.left))
        paid_already = self.house.ledger.already_paid(
            order_release(request, dataset=dataset.name, principal=holder.name, key="quote")
        )
        return {
            "dataset": dataset.name,
            "tier": request.tier.value,
            "epsilon": repr(request.epsilon),
            "delta": repr(request.delta),
            "price": _amounts(price),
            "already_paid": dict(zip(("dataset", "own"), paid_already, strict=True)),
            "more_of_this_kind": {"dataset": _covered(whole, price), "own": _covered(own, price)},
            "largest_epsilon": None if largest is None else repr(largest),
            "plan": self.house.planner.plan(request, dataset.public["grid"], whose=holder.name),
        }

    def order(self, holder: Holder, dataset: Dataset, body: AskBody, key: str) -> Paid:
        """Charge for a release, and have it computed; or find the one of this key."""
        request = dataset.request(body)
        order = order_release(request, dataset=dataset.name, principal=holder.name, key=key)
        drawn_before, _ = self.house.ledger.already_paid(order)
        if not drawn_before:
            self._check_drawable(dataset, request)
        charge = self.house.ledger.charge(order)
        if self.house.ledger.release_of(charge) is None:
            self.house.worker.take(charge)
        with self.house.ledger.reading() as connection:
            paid = find_paid(connection, f"{charge.book_id}-{charge.seq}")
        if paid is None:
            raise RuntimeError("a charge that was just made is not there")
        return paid

    def _check_drawable(self, dataset: Dataset, request: ReleaseRequest) -> None:
        """Refuse, before the charge, what could not be computed now. No row has a say in it."""
        if self.house.worker.is_full:
            raise Problem(Code.BUSY)
        profiles, listed = dataset.profiles_file, dataset.customer_list_file
        folder = self.house.folder / FOLDER
        if not all((folder / name).is_file() for name in (profiles, listed or profiles)):
            raise Problem(Code.UNAVAILABLE)
        if listed is not None:
            check_list(request, read_customer_list(folder / listed))

    def release(self, paid: Paid) -> dict[str, Any]:
        """Return what is known of a release."""
        stored = self.house.ledger.release_of(paid.charge)
        return {
            "id": paid.id,
            "dataset": paid.dataset,
            "ordered_by": paid.principal,
            "state": "computing" if stored is None else stored.state.value,
            "ordered_at": paid.at,
            "request": paid.request,
            "price": _amounts(paid.charge.price),
        }

    def bundle(self, paid: Paid) -> Path:
        """Return where a release lies that may be sent."""
        stored = self.house.ledger.release_of(paid.charge)
        if stored is None:
            raise Problem(Code.NOT_READY)
        found = self.house.shelf.find(stored)
        if stored.state is not State.OK or found is None:
            raise Problem(Code.FAILED)
        return found


def _covered(account: Account | None, price: Amounts) -> int:
    """Return how often an account can pay a price."""
    return 0 if account is None else account.left.covers(price)


def _amounts(amounts: Amounts) -> dict[str, str]:
    """Write whole units as text: some readers of JSON would round them."""
    return {name: str(value) for name, value in zip(MEASURES, amounts.values, strict=True)}


@lru_cache(maxsize=10_000)
def _epsilon(amounts: Amounts, delta: float) -> float:
    """Return the epsilon that amounts stand for; a page asks for many, and few of them change."""
    return amounts.composition.epsilon(delta)


def _account(account: Account, delta: float) -> dict[str, Any]:
    """Return caps and sums, and the epsilon that they stand for at the data set's delta."""
    return {
        "epsilon_cap": repr(_epsilon(account.caps, delta)),
        "epsilon_spent": repr(_epsilon(account.spent, delta)),
        "share_spent": account.share_spent,
        "caps": _amounts(account.caps),
        "spent": _amounts(account.spent),
    }
