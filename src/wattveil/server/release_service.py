"""Application service behind the analyst API and pages: budgets, quotes, orders, downloads."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Literal, TypeVar

from wattveil.bundle.bundle_archive import write_archive
from wattveil.bundle.plan import PlanSummary, allotments_to_json, requested_products
from wattveil.bundle.produce import check_list, read_customer_list
from wattveil.errors import ChargeRefusedError, InvalidFileError
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import added_products
from wattveil.products.request import NO_RULE, ReleaseRequest
from wattveil.products.ruled_load import rule_warnings
from wattveil.release.weak_guarantees import choice_warnings, guarantee_warnings
from wattveil.server.auth.principals import Principal
from wattveil.server.datasets import FOLDER, Dataset, has_file
from wattveil.server.http import responses
from wattveil.server.http.problems import Code, Problem, invalid, problem_of
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.ledger.accounts import Account, Charge, Release, ReleaseState, named_accounts
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.fulfilment import archive_of
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.order import Order
from wattveil.server.ledger.pricing import largest_epsilon, order_release
from wattveil.server.ledger.reserved_series import SeriesPeriod
from wattveil.server.ordered_releases import OrderedRelease, find_ordered, requests_about
from wattveil.server.server_state import ServerState

T = TypeVar("T")

_WRITING = threading.Lock()
"""Of archives, one at a time."""

_RECORD_SECONDS = 5.0
"""Time after which a release that is stored and not recorded is no longer shown as computing."""


@dataclass(frozen=True)
class ReleaseService:
    """Budgets, quotes, orders and bundles, for the API and for the pages."""

    state: ServerState

    def budget(self, principal: Principal, dataset: Dataset, tier: Tier) -> responses.Budget:
        """Return the accounts that pay for releases of a principal."""
        accounts = self.state.ledger.accounts(dataset.name, principal.name, tier)
        return _budget(dataset, tier, *accounts)

    def largest_epsilon(
        self, principal: Principal, dataset: Dataset, body: ReleaseBody
    ) -> str | None:
        """Return the largest epsilon of such a release that both accounts cover, as in a quote."""
        request = dataset.request(body)
        accounts = self.state.ledger.accounts(dataset.name, principal.name, request.tier)
        return _largest_epsilon(request, *accounts)

    def budget_after(
        self, principal: Principal, dataset: Dataset, quote: responses.Quote
    ) -> responses.Budget:
        """Return the same accounts after the release of a quote, which they cover."""
        whole, own = self.state.ledger.accounts(dataset.name, principal.name, quote.tier)
        price = Amounts(*(int(getattr(quote.price, measure)) for measure in MEASURES))
        if whole is not None and not quote.already_paid.dataset:
            whole = replace(whole, spent=whole.spent + price)
        if own is not None and not quote.already_paid.own:
            own = replace(own, spent=own.spent + price)
        return _budget(dataset, quote.tier, whole, own)

    def accounts(self, dataset: Dataset) -> list[responses.NamedAccount]:
        """Return every account of a data set."""
        delta = dataset.public["delta"]
        with self.state.ledger.reading() as connection:
            return [
                responses.NamedAccount(principal=name, tier=tier, **_account(one, delta))
                for tier, name, one in named_accounts(connection, dataset.name)
            ]

    def quote(self, principal: Principal, dataset: Dataset, body: ReleaseBody) -> responses.Quote:
        """Return price and expected quality of a release; nothing is charged."""
        request = dataset.request(body)
        order = order_release(request, dataset=dataset.name, principal=principal.name, key="quote")
        check_price(order.price, dataset)
        price = order.price
        whole, own = self.state.ledger.accounts(dataset.name, principal.name, request.tier)
        largest = _largest_epsilon(request, whole, own)
        by_dataset, by_principal = self.state.ledger.already_paid(order)
        plan = self.state.planner.plan(order, dataset.public["grid"])
        warnings = [*plan["warnings"], *self._rule_warnings(request, dataset)]
        return responses.Quote(
            dataset=dataset.name,
            tier=request.tier,
            epsilon=repr(request.epsilon),
            delta=repr(request.delta),
            price=amounts_text(price),
            already_paid=responses.AlreadyPaid(dataset=by_dataset, own=by_principal),
            more_of_this_kind=responses.MoreOfThisKind(
                dataset=_covered(whole, price), own=_covered(own, price)
            ),
            largest_epsilon=largest,
            left=_left(None if by_dataset else whole, None if by_principal else own),
            plan=PlanSummary.model_validate({**plan, "warnings": warnings}),
        )

    def order(
        self, principal: Principal, dataset: Dataset, body: ReleaseBody, key: str
    ) -> OrderedRelease:
        """Charge for a release and have it computed, or return the release of this key."""
        request = dataset.request(body)
        order = order_release(request, dataset=dataset.name, principal=principal.name, key=key)
        check_price(order.price, dataset)
        computed_before, _ = self.state.ledger.already_paid(order)
        if computed_before:
            charge = self._charge(order, dataset, request)
        else:
            with self.state.worker.place(self.state.ledger.principal_id(order)) as is_free:
                if not is_free:
                    raise Problem(Code.BUSY)
                self._check_computable(dataset, request)
                if {*requested_products(request)} & {*added_products()}:
                    # A compute process may lack what this one registered: a plan is made there.
                    self.state.planner.plan(order, dataset.public["grid"])
                charge = self._charge(order, dataset, request)
        with self.state.ledger.reading() as connection:
            ordered = find_ordered(connection, f"{charge.journal_id}-{charge.seq}")
        if ordered is None:
            raise RuntimeError("the charge was made and cannot be found")
        return ordered

    def placed(
        self, principal: Principal, dataset: Dataset, body: ReleaseBody, key: str
    ) -> str | None:
        """Return the release that was ordered under this key, if it was."""
        request = dataset.request(body)
        order = order_release(request, dataset=dataset.name, principal=principal.name, key=key)
        charge = self.state.ledger.charge_under_key(order)
        return None if charge is None else f"{charge.journal_id}-{charge.seq}"

    def _charge(self, order: Order, dataset: Dataset, request: ReleaseRequest) -> Charge:
        """Charge for an order, and queue the charge unless its release is stored."""
        try:
            charge = self.state.ledger.charge(replace(order, plan=self._planned(order, dataset)))
        except ChargeRefusedError as error:
            problem = problem_of(error)
            if problem.code is Code.BUDGET_REFUSED:  # say what fits, as a quote does
                accounts = self.state.ledger.accounts(dataset.name, order.principal, request.tier)
                problem.details["short_of"] = _short_of(order.price, *accounts)
                if (largest := _largest_epsilon(request, *accounts)) is not None:
                    problem.details["largest_epsilon"] = largest
            raise problem from None
        if self.state.ledger.release_of(charge) is None:
            self.state.worker.take(charge)
        return charge

    def _planned(self, order: Order, dataset: Dataset) -> str:
        """Return the split of an order, and the expected errors of a quote if there was one."""
        quoted = self.state.planner.known(order, dataset.public["grid"])
        products = [] if quoted is None else quoted["products"]
        plan = {
            "allotments": allotments_to_json(order.allotments),
            "expected": {one["name"]: one["expected"] for one in products},
        }
        return json.dumps(plan)

    def _rule_warnings(self, request: ReleaseRequest, dataset: Dataset) -> tuple[str, ...]:
        """Return what an aggregation rule does not protect, beside earlier releases."""
        if request.rule == NO_RULE:
            return ()
        with self.state.ledger.reading() as connection:
            return rule_warnings(request, requests_about(connection, dataset.name))

    def _check_computable(self, dataset: Dataset, request: ReleaseRequest) -> None:
        """Refuse, before the charge, what cannot be computed now. It does not depend on rows."""
        title = "the data are unavailable; this request charged nothing: repeat it later"
        if not self.state.lease.is_held:
            raise Problem(Code.UNAVAILABLE, title=title)
        profiles, listed = dataset.profiles_file, dataset.customer_list_file
        folder = self.state.folder / FOLDER
        if not all(has_file(folder / name) for name in (profiles, listed or profiles)):
            raise Problem(Code.UNAVAILABLE, title=title)
        if listed is not None:
            check_list(request, read_customer_list(folder / listed))

    def release(self, ordered: OrderedRelease) -> responses.Release:
        """Return the state of a release."""
        found = responses.Release(
            id=ordered.id,
            dataset=ordered.dataset,
            ordered_by=ordered.principal,
            state=shown_state(self.state.ledger, ordered),
            ordered_at=ordered.at,
            request=ordered.request,
            price=amounts_text(ordered.charge.price),
            warnings=_warnings(ordered.request),
        )
        if not ordered.same_as:
            return found
        return found.model_copy(update={"same_as": ordered.same_as})  # set, and hence sent

    def check_recorded(self, ordered: OrderedRelease) -> None:
        """State that a release waits to be recorded, if it has waited longer than usual."""
        if ordered.stored_at is None or _is_recorded(self.state.ledger, ordered):
            return
        waited = datetime.now(UTC) - datetime.fromisoformat(ordered.stored_at)
        if waited.total_seconds() > _RECORD_SECONDS:
            raise Problem(Code.NOT_RECORDED)

    def read_bundle(self, ordered: OrderedRelease, read: Callable[[Path], T]) -> T:
        """Read the folder of a bundle that may be sent; files that are missing are stated."""
        folder = self._folder(self._stored(ordered))
        try:
            return read(folder)
        except (InvalidFileError, OSError, ValueError, LookupError):
            raise Problem(Code.BUNDLE_MISSING) from None

    def content_hash(self, ordered: OrderedRelease) -> str:
        """Return the hash of the content of a bundle; numbers recur after entries were lost."""
        return str(self._stored(ordered).payload_sha256)

    def archive(self, ordered: OrderedRelease) -> tuple[Path, str]:
        """Return the archive of a bundle, and the hash of its content; it is written once."""
        stored = self._stored(ordered)
        folder = self._folder(stored)
        archive = archive_of(folder)
        if not archive.is_file():  # an earlier version stored none: the first download writes it
            with _WRITING:
                if not archive.is_file():
                    self.read_bundle(ordered, lambda bundle: write_archive(bundle, archive))
        return archive, str(stored.payload_sha256)

    def _stored(self, ordered: OrderedRelease) -> Release:
        stored = self.state.ledger.release_of(ordered.charge)
        if stored is None:
            raise Problem(Code.NOT_READY)
        if not self.state.ledger.is_recorded(ordered.charge.journal_id, stored.number):
            # If the database were lost now, a restored one would draw it again.
            raise Problem(Code.NOT_RECORDED)
        return stored

    def _folder(self, stored: Release) -> Path:
        found = self.state.bundles.find(stored)
        if stored.state is not ReleaseState.OK or found is None:
            raise Problem(Code.FAILED)
        return found


def _warnings(request: Mapping[str, Any]) -> list[str]:
    """Return what weakens the guarantee of a canonical request, in the words of its quote."""
    is_instance = request["tier"] == Tier.INSTANCE.value
    # A period of a series has no labels, and does not repeat the estimate of customers.
    real_ids, customers = request.get("real_ids", False), request.get("customers", 1)
    return [
        *choice_warnings(is_instance=is_instance, real_ids=real_ids),
        *guarantee_warnings(
            epsilon=float(request["epsilon"]),
            delta=float(request["delta"]),
            customers=customers,
        ),
    ]


def shown_state(
    ledger: Ledger, one: OrderedRelease | SeriesPeriod
) -> Literal["computing", "ok", "failed"]:
    """Return the state of a release; one that is stored and not recorded is not complete."""
    if one.state is None or not _is_recorded(ledger, one):
        return "computing"
    return "ok" if one.state is ReleaseState.OK else "failed"


def _is_recorded(ledger: Ledger, one: OrderedRelease | SeriesPeriod) -> bool:
    return ledger.is_recorded(one.charge.journal_id, one.number)


def _budget(
    dataset: Dataset, tier: Tier, whole: Account | None, own: Account | None
) -> responses.Budget:
    delta = dataset.public["delta"]
    return responses.Budget(
        tier=tier,
        delta=repr(delta),
        dataset=None if whole is None else responses.Account(**_account(whole, delta)),
        own=None if own is None else responses.Account(**_account(own, delta)),
    )


def _largest_epsilon(
    request: ReleaseRequest, whole: Account | None, own: Account | None
) -> str | None:
    """Return the largest epsilon of such a release that both accounts cover; None if none is."""
    if whole is None or own is None:
        return None
    largest = largest_epsilon(request, whole.left.minimum(own.left))
    return None if largest is None else repr(largest)


def _left(*charged: Account | None) -> responses.Amounts | None:
    """Return the least that the accounts that would be charged have left; None if there is none."""
    found = [account.left for account in charged if account is not None]
    return amounts_text(reduce(Amounts.minimum, found)) if found else None


def _short_of(price: Amounts, *accounts: Account | None) -> str:
    """Return the field of a request that is too large for what is left, by the failing measure."""
    labels = any(one is not None and price.epsilon > one.left.epsilon for one in accounts)
    return "label_epsilon" if labels else "epsilon"


def check_price(price: Amounts, dataset: Dataset) -> None:
    """Refuse a price below the minimum of the data set, in epsilon at the delta of the data set.

    A release of a tiny delta costs nearly nothing, and occupies the computation all the same.
    """
    minimum: float = dataset.public["minimum_epsilon"]
    if _epsilon(price, dataset.public["delta"]) < minimum:
        rule = f"such that the price is at least {minimum:g} at the delta of the data set"
        raise invalid(("epsilon", rule))


def _covered(account: Account | None, price: Amounts) -> int:
    """Return how often an account covers a price."""
    return 0 if account is None else account.left.covers(price)


@lru_cache(maxsize=10_000)
def amounts_text(amounts: Amounts) -> responses.Amounts:
    """Return amounts in the form of a response."""
    texts = {name: str(value) for name, value in zip(MEASURES, amounts.values, strict=True)}
    return responses.Amounts(**texts)


@lru_cache(maxsize=10_000)
def _epsilon(amounts: Amounts, delta: float) -> float:
    """Return the epsilon of amounts at delta; a page needs many, and few of them change."""
    return amounts.composition.epsilon(delta)


def _account(account: Account, delta: float) -> dict[str, Any]:
    """Return the fields of an account, with epsilons at the delta of the data set."""
    return {
        "epsilon_cap": repr(_epsilon(account.caps, delta)),
        "epsilon_spent": repr(_epsilon(account.spent, delta)),
        "share_spent": account.share_spent,
        "caps": amounts_text(account.caps),
        "spent": amounts_text(account.spent),
    }
