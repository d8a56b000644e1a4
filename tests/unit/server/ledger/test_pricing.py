"""The price of a release: what it spends at most, from public parameters alone."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sample_bundles import (
    EVERYTHING,
    only,
    product_names,
    some_profiles,
    without_plan_simulation,
)
from wattveil.bundle.keys import canonical
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import plan_release, split_budget
from wattveil.bundle.produce import release_bundle
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import About, ReleaseRequest
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.pricing import (
    MIN_PART_EPSILON,
    canonical_request,
    largest_epsilon,
    order_release,
    read_request,
    release_price,
)

PLAIN = ReleaseRequest(epsilon=1.0, delta=1e-6)
INSTANCE = ReleaseRequest(epsilon=4.0, delta=1e-2, n_clusters=2, tier=Tier.INSTANCE)


def released(request: ReleaseRequest, out: Path) -> Manifest:
    """Make a release, and return its manifest."""
    profiles = some_profiles()
    listed = profiles.customer_ids if request.label_epsilon is not None else ()
    with without_plan_simulation():
        plan = plan_release(request, profiles.grid)
        return release_bundle(profiles, plan, out, customer_list=listed)


@pytest.mark.parametrize("request_", [EVERYTHING, INSTANCE], ids=["global", "instance"])
def test_the_price_is_what_the_release_may_spend(request_: ReleaseRequest, tmp_path: Path) -> None:
    """The price of a request equals the grants and charges in its manifest."""
    manifest = released(request_, tmp_path / "bundle")
    grants, spent = [], []
    for part in manifest["products"]:
        grant = part["grant"]
        grants.append(
            Composition(
                rho_units=int(grant["rho_units"]),
                response_epsilon=float(grant["response_epsilon"]),
                response_delta=float(grant["response_delta"]),
                eta=float(grant["eta"]),
            )
        )
        spent += [
            Composition(
                rho_units=int(mechanism.get("rho_units", "0")),
                response_epsilon=float(mechanism.get("response_epsilon", "0")),
                eta=float(mechanism.get("gaussian", {}).get("eta", "0")),
            )
            for mechanism in part["runs"][0]["mechanisms"]  # other runs are on other customers
        ]
    price = release_price(request_)
    assert price == Amounts.price(grants)
    assert Amounts.price(spent).fits(price)
    assert 2 * Amounts.price(spent).rho > price.rho  # and it is no idle bound


def test_what_costs_nothing_does_not_change_the_price() -> None:
    """Guesses, words and ids are free; epsilon, labels and weights are not."""
    price = release_price(PLAIN)
    for same in (
        PLAIN.replace(customers=50, typical_kw=9.0),
        PLAIN.replace(about=About(title="Another")),
        PLAIN.replace(n_clusters=12, clip_kw=3.0),
    ):
        assert release_price(same) == price
    assert price.fits(release_price(PLAIN.replace(epsilon=1.1)))
    assert release_price(PLAIN.replace(label_epsilon=0.5)).epsilon == 5 * 10**11


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_one_release_may_take_nearly_all_of_a_budget(epsilon: float) -> None:
    """What is kept for the grids of many releases costs one of them two thousandths."""
    caps = Allowance(epsilon=epsilon, delta=1e-6).caps
    assert release_price(PLAIN.replace(epsilon=0.998 * epsilon)).fits(caps)
    assert not release_price(PLAIN.replace(epsilon=epsilon)).fits(caps)


def test_the_same_request_in_other_words_is_the_same() -> None:
    """Whole numbers for floats, and defaults spelled out, change nothing."""
    spelled = ReleaseRequest(epsilon=1, delta=1e-6, weights={"clusters": 3, "load": 1.0})
    assert canonical_request(spelled) == canonical_request(PLAIN)
    first = order_release(PLAIN, dataset="homes", principal="ann", key="a")
    second = order_release(spelled, dataset="homes", principal="bob", key="b")
    assert first.request_sha256 == second.request_sha256


@pytest.mark.parametrize(
    ("weights", "lowest"),
    [
        ({"clusters": 6, "synthesis": 4, "load": 2}, ("3.0", "2.0", "1.0")),
        ({"clusters": 0.375, "synthesis": 0.25, "load": 0.125}, ("3.0", "2.0", "1.0")),
        ({"clusters": 21.0, "synthesis": 14.0, "load": 7.0}, ("3.0", "2.0", "1.0")),
        ({"clusters": 1e300, "synthesis": 1e300, "load": 1e300}, ("1.0", "1.0", "1.0")),
        ({"clusters": 5e-324, "synthesis": 1e-323, "load": 5e-324}, ("1.0", "2.0", "1.0")),
    ],
)
def test_the_scale_of_weights_does_not_matter(
    weights: dict[str, float], lowest: tuple[str, ...]
) -> None:
    """Weights of one ratio are one request, with one split, and are charged once."""
    request = PLAIN.replace(weights={**only(), **weights})
    record = canonical_request(request)
    assert record["weights"] == dict(zip(weights, lowest, strict=True))
    assert canonical_request(read_request(record)) == record
    split = order_release(request, dataset="homes", principal="ann", key="a").allotments
    assert split == split_budget(read_request(record))
    if lowest == ("3.0", "2.0", "1.0"):
        assert record == canonical_request(PLAIN.replace(weights=only(*weights)))


@given(
    weights=st.tuples(*[st.floats(1e-6, 1e6)] * 3),
    factor=st.sampled_from([0.5, 1.0, 2.0, 1024.0]),
)
def test_lowest_terms_keep_every_ratio(weights: tuple[float, ...], factor: float) -> None:
    """Exactly, for any floats; powers of two scale floats without rounding."""
    names = ("clusters", "synthesis", "load")
    found = canonical_request(
        PLAIN.replace(
            weights={**only(), **{n: w * factor for n, w in zip(names, weights, strict=True)}}
        )
    )["weights"]
    assert isinstance(found, dict)
    exact = [Fraction(float(found[name])) for name in names]
    assert all(one.denominator == 1 for one in exact)
    for one, weight in zip(exact, weights, strict=True):
        assert one * Fraction(weights[0]) == exact[0] * Fraction(weight)
    unscaled = {**only(), **dict(zip(names, weights, strict=True))}
    assert found == canonical_request(PLAIN.replace(weights=unscaled))["weights"]


def test_weights_beyond_all_ratios_are_refused() -> None:
    """Their quotient is no float."""
    with pytest.raises(InvalidParameterError, match=r"weights must be in ratios below 1e300"):
        canonical_request(PLAIN.replace(weights={"clusters": 1e300, "load": 1e-300}))


def test_a_part_that_cannot_be_had_has_no_weight() -> None:
    """A request that is read back is the same request, and costs the same."""
    record = canonical_request(PLAIN)
    assert "shares" not in record["weights"]  # type: ignore[operator]
    assert "shares" not in record["products"]  # type: ignore[operator]
    assert canonical_request(read_request(record)) == record
    assert canonical_request(PLAIN.replace(weights={"shares": 0.0})) == record


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1.0000000000000002},
        {"delta": 1e-7},
        {"n_clusters": 7},
        {"clip_kw": 10.0},
        {"normalise": True},
        {"by": "class", "levels": ("a",)},
        {"label_epsilon": 0.1},
        {"weights": {"load": 0.0}},
        {"about": About(title="Another")},
    ],
)
def test_every_choice_tells_requests_apart(change: dict[str, object]) -> None:
    """A request that differs in any choice is another request."""
    other = PLAIN.replace(**change)
    assert canonical_request(other) != canonical_request(PLAIN)


def test_data_set_and_tier_tell_requests_apart() -> None:
    """The same fields for other data, or under another guarantee, are another request."""
    here = order_release(PLAIN, dataset="homes", principal="ann", key="a")
    there = order_release(PLAIN, dataset="shops", principal="ann", key="a")
    assert here.request_sha256 != there.request_sha256
    assert replace(here, tier=Tier.INSTANCE).request_sha256 != here.request_sha256


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dataset", "Homes"),
        ("dataset", ""),
        ("principal", "ann\nbob"),
        ("principal", "x" * 64),
        ("key", ""),
        ("key", "a b"),
        ("key", "ä"),
        ("key", "k" * 129),
        ("price", Amounts()),
    ],
)
def test_orders_that_cannot_be_written_down_are_refused(field: str, value: object) -> None:
    """The error names the field."""
    good = order_release(PLAIN, dataset="homes", principal="ann", key="a")
    with pytest.raises(InvalidParameterError) as caught:
        replace(good, **{field: value})  # type: ignore[arg-type] # fields of the case
    assert caught.value.field == field


def test_half_a_character_is_refused() -> None:
    """Text that no database could keep is an error of the request, not of the ledger."""
    good = order_release(PLAIN, dataset="homes", principal="ann", key="a")
    with pytest.raises(InvalidParameterError, match="UTF-8"):
        replace(good, request={"title": "\ud800"})


@pytest.mark.parametrize("request_", [PLAIN, EVERYTHING, INSTANCE])
def test_a_canonical_request_reads_back(request_: ReleaseRequest) -> None:
    """What is computed is what was charged for, also after it lay in the ledger as text."""
    record = json.loads(canonical(canonical_request(request_)))
    found = read_request(record)
    assert canonical(canonical_request(found)) == canonical(canonical_request(request_))
    assert release_price(found) == release_price(request_)


LOAD = ReleaseRequest(epsilon=1.0, delta=1e-6, weights=only("load"))
LABELLED = PLAIN.replace(label_epsilon=0.5)


@pytest.mark.parametrize(
    ("requested", "left"),
    [
        (LOAD, Allowance(epsilon=1.0, delta=1e-6).caps),
        (PLAIN, Allowance(epsilon=4.0, delta=1e-6).caps),
        (LABELLED, Allowance(epsilon=2.0, delta=1e-6, label_epsilon=0.5).caps),
        (LOAD, replace(Allowance(epsilon=1.0, delta=1e-6).caps, eta=50_000)),
    ],
    ids=["load", "all parts", "labels", "eta"],
)
def test_all_that_is_left_can_be_spent(requested: ReleaseRequest, left: Amounts) -> None:
    """The largest epsilon fits, a little more does not, and where one began does not matter."""
    found = largest_epsilon(requested, left)
    assert found is not None
    assert release_price(requested.replace(epsilon=found)).fits(left)
    assert not release_price(requested.replace(epsilon=found * 1.0001)).fits(left)
    assert largest_epsilon(requested.replace(epsilon=0.9), left) == found


def test_nothing_can_be_bought_with_nothing() -> None:
    """No epsilon fits if a measure is used up, or if the labels alone cost too much."""
    caps = Allowance(epsilon=2.0, delta=1e-6, label_epsilon=0.25).caps
    for left in (Amounts(), replace(caps, rho=0), replace(caps, eta=0)):
        assert largest_epsilon(LOAD, left) is None
    assert largest_epsilon(LABELLED, caps) is None


def test_a_whole_budget_goes_in_one_release() -> None:
    """A thousandth of epsilon is kept for grids: a request of hardly more is refused."""
    for epsilon in (0.1, 1.0, 10.0):
        found = largest_epsilon(PLAIN, Allowance(epsilon=epsilon, delta=1e-6).caps)
        assert found is not None
        assert 0.998 * epsilon < found < epsilon


@pytest.mark.parametrize(
    "request_",
    [
        PLAIN.replace(weights=only("load")),
        PLAIN.replace(weights=only("clusters", "synthesis"), n_clusters=2),
        INSTANCE.replace(weights={}),
    ],
    ids=["load", "synthesis", "instance"],
)
def test_what_has_a_price_can_be_drawn(request_: ReleaseRequest, tmp_path: Path) -> None:
    """The minimum epsilon that is admitted, at the minimum delta, is computed; below: no charge."""
    parts = len(product_names(request_))
    smallest = request_.replace(epsilon=1.01 * parts * MIN_PART_EPSILON, delta=1e-300)
    assert release_price(smallest) != Amounts()
    assert released(smallest, tmp_path / "bundle")["products"]
    with pytest.raises(InvalidParameterError, match=r"each part has 0\.001"):
        release_price(smallest.replace(epsilon=0.4 * smallest.epsilon))


def test_labels_leave_enough_for_the_rest() -> None:
    """All of epsilon but a little is for labels: the rest is too small to be drawn."""
    with pytest.raises(InvalidParameterError, match=r"each part has 0\.001"):
        release_price(PLAIN.replace(label_epsilon=0.9999))


def test_a_bound_beyond_all_sizes_is_refused() -> None:
    """Where requests are made, so also when a data set is registered."""
    with pytest.raises(InvalidParameterError, match="clip_kw"):
        PLAIN.replace(clip_kw=1e10)
