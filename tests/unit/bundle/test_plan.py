"""One budget: how it is split, what is foreseen, and what a request may not be."""

import decimal
import itertools
import json
import math
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.sample_bundles import EVERYTHING, only, product_names, without_plan_simulation
from wattveil.bundle import plan
from wattveil.bundle.plan import (
    allotments_from_json,
    allotments_to_json,
    composed_epsilon,
    granted_plan,
    noise_warnings,
    plan_for_error,
    plan_release,
    requested_products,
    split_budget,
)
from wattveil.bundle.release_tables import plan_lines
from wattveil.declaration import to_plain
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Tier, Unit
from wattveil.products import clusters
from wattveil.products.clusters import KMeansPlan
from wattveil.products.product import (
    Allotment,
    Expectation,
    guarantee_of,
    response_allotment,
)
from wattveil.products.registry import default_weights
from wattveil.products.request import About, ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.release.kmeans import PrivateKMeans
from wattveil.web.quality_terms import explained

PLAIN = ReleaseRequest(epsilon=1.0, delta=1e-6)


def test_shares_are_of_rho_and_follow_the_weights() -> None:
    """Three to one unless told otherwise; a part of weight 0 is gone; labels are set aside."""
    split = split_budget(PLAIN)
    assert list(split) == product_names(PLAIN)
    assert {"clusters", "synthesis", "load"} <= set(split)
    assert not {"shares", "labels"} & set(split)
    ratio = split["clusters"].grant.rho_units / split["load"].grant.rho_units
    assert ratio == pytest.approx(3.0, rel=1e-4)
    told = split_budget(PLAIN.replace(weights={"load": 3.0}))
    assert told["clusters"].grant.rho_units == pytest.approx(told["load"].grant.rho_units, rel=1e-4)
    alone = split_budget(PLAIN.replace(weights=only("clusters")))
    assert list(alone) == ["clusters"]
    assert alone["clusters"].guarantee.epsilon == pytest.approx(1.0, rel=1e-5)
    everything = split_budget(EVERYTHING)
    assert list(everything) == product_names(EVERYTHING)
    assert everything["labels"].grant.response_epsilon == 2.0
    assert everything["labels"].grant.rho_units == 0


@settings(max_examples=8, deadline=None)
@given(
    epsilon=st.floats(0.05, 20.0),
    log_delta=st.floats(-12.0, -2.0),
    weights=st.fixed_dictionaries({name: st.floats(0.1, 10.0) for name in default_weights()}),
    labels=st.one_of(st.none(), st.floats(0.05, 0.9)),
)
@example(
    epsilon=0.25,
    log_delta=-2.0,
    weights={"clusters": 1.0, "synthesis": 1.0, "load": 6.0, "shares": 0.125},
    labels=None,
)
def test_parts_together_spend_the_whole_guarantee(
    epsilon: float, log_delta: float, weights: dict[str, float], labels: float | None
) -> None:
    """For any request: never above epsilon, and within a ten-thousandth of it.

    Unless delta alone grants more than the smallest share, which is refused (a test below).
    """
    request = EVERYTHING.replace(
        epsilon=epsilon,
        delta=10.0**log_delta,
        weights=weights,
        label_epsilon=None if labels is None else labels * epsilon,
    )
    try:
        split = split_budget(request)
    except InvalidParameterError as error:
        if "beside epsilon" not in error.rule:
            raise
        assume(False)  # noqa: FBT003 - leaves this example out
    together = composed_epsilon(split.values(), request.delta)
    assert epsilon * (1.0 - 1e-4) <= together <= epsilon


def test_discretisation_of_many_parts_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no rounding leaves room for it: the parts are made smaller until it fits."""
    exact = decimal.Context(prec=17, rounding=decimal.ROUND_FLOOR)
    monkeypatch.setattr(plan, "_SHORT_DOWN", exact)
    request = EVERYTHING.replace(weights={"clusters": 1.0, "synthesis": 1.0})
    assert composed_epsilon(split_budget(request).values(), request.delta) <= request.epsilon


def test_the_instance_tier_is_split_in_half() -> None:
    """Half for the centroids and half for the labels, unless the labels have their own."""
    request = PLAIN.replace(tier=Tier.INSTANCE)
    split = split_budget(request)
    assert [split[name].guarantee.epsilon for name in ("clusters", "labels")] == [0.5, 0.5]
    assert all(part.guarantee.tier is Tier.INSTANCE for part in split.values())
    split = split_budget(request.replace(label_epsilon=0.2))
    assert split["labels"].guarantee.epsilon == 0.2
    assert split["clusters"].guarantee.epsilon == 0.8
    planned = plan_release(request, TimeGrid())
    assert str(planned.expected["clusters"][0]) == "not available"


def test_a_plan_foresees_every_part() -> None:
    """From public numbers alone: there is no data to look at."""
    with without_plan_simulation():
        record = plan_release(EVERYTHING, TimeGrid()).summary.model_dump(mode="json")
    parts = {part["name"]: part for part in record["products"]}
    assert list(parts) == product_names(EVERYTHING)
    assert all(part["expected"] for part in parts.values())
    assert sum(part["share_of_rho"] for part in parts.values()) == pytest.approx(1.0)
    stated = [one["quantity"] for part in parts.values() for one in part["expected"]]
    assert [term for term, _ in explained(stated)][2:] == stated  # a quote explains every one


def test_epsilon_is_solved_for() -> None:
    """The epsilon found reaches the target, and a tenth less does not."""
    request = PLAIN.replace(weights=only("load"), customers=2000)

    def error(epsilon: float) -> float:
        planned = plan_release(request.replace(epsilon=epsilon), TimeGrid())
        value = planned.expected["load"][0].value
        assert value is not None
        return value

    found = plan_for_error(request, 0.02, TimeGrid()).request.epsilon
    assert error(found) <= 0.02 < error(0.9 * found)


@pytest.mark.untraced
def test_a_plan_for_a_target_meets_it_and_varies_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations differ by 3 %: the plan that is shown meets the target, epsilon varies by less.

    When the last comparison alone decided, 4 of 10 plans missed it, and epsilon varied by 7 %.
    """
    draws = np.random.default_rng(11)

    def simulated(estimator: PrivateKMeans, **_: object) -> KMeansPlan:
        error = 0.1 * (estimator.epsilon / 4.0) ** -0.38 * math.exp(0.03 * draws.normal())
        return KMeansPlan(
            queries={},
            signal=1.0,
            expected_loss=0.1,
            loss_range=(0.05, 0.2),
            expected_error=error,
            error_range=(0.01, 0.3),
            supported_clusters=3,
            supported_range=(2, 4),
            distinguishable_clusters=3,
        )

    monkeypatch.setattr(clusters, "plan_kmeans", simulated)
    request = PLAIN.replace(weights=only("clusters"))
    plans = [plan_for_error(request, 0.1, TimeGrid()) for _ in range(40)]
    errors = [one.expected["clusters"][0].value for one in plans]
    assert max(error for error in errors if error is not None) <= 0.1
    found = np.array([one.request.epsilon for one in plans])
    assert 3.9 < found.mean() < 4.4
    assert found.std() < 0.05 * found.mean()


@pytest.mark.parametrize("slope", [0.0, 1e-3])
def test_targets_at_the_edge_of_reach(slope: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where noise decides alone, the search ends: with a plan that meets the target, or a no."""
    errors = itertools.chain([0.1], itertools.repeat(0.1 + slope))
    monkeypatch.setattr(
        clusters,
        "plan_kmeans",
        lambda *_, **__: KMeansPlan(
            queries={},
            signal=1.0,
            expected_loss=0.1,
            loss_range=(0.05, 0.2),
            expected_error=next(errors),
            error_range=(0.01, 0.3),
            supported_clusters=3,
            supported_range=(2, 4),
            distinguishable_clusters=3,
        ),
    )
    request = PLAIN.replace(weights=only("clusters"))
    if slope:
        with pytest.raises(InvalidParameterError, match=r"at least the 0\.1 kW that epsilon = 50"):
            plan_for_error(request, 0.1, TimeGrid())
    else:
        assert plan_for_error(request, 0.1, TimeGrid()).request.epsilon < 0.02


@pytest.mark.parametrize(
    ("changes", "target", "rule"),
    [
        ({"weights": only("load"), "customers": 3}, 1e-4, "at least the"),
        ({"tier": Tier.INSTANCE}, 0.1, "no product has an expected error"),
        ({}, -1.0, "above 0"),
    ],
)
def test_targets_out_of_reach_are_refused(
    changes: dict[str, object], target: float, rule: str
) -> None:
    """With what epsilon 50 would leave; and where no error in kW is known beforehand."""
    with pytest.raises(InvalidParameterError, match=rule):
        plan_for_error(PLAIN.replace(**changes), target, TimeGrid())


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("epsilon", {"epsilon": 0.0}),
        ("delta", {"delta": 0.0}),
        ("n_clusters", {"n_clusters": 0}),
        ("clip_kw", {"clip_kw": -1.0}),
        ("tier", {"tier": "local"}),
        ("customers", {"customers": 0}),
        ("typical_kw", {"typical_kw": 0.0}),
        ("levels", {"by": "class"}),
        ("levels", {"levels": ("a",)}),
        ("levels", {"by": "class", "levels": ("a", "a")}),
        ("clusters_by_group", {"clusters_by_group": True}),
        ("label_epsilon", {"label_epsilon": 1.0}),
        ("label_epsilon", {"label_epsilon": 0.1, "weights": {"clusters": 0.0}}),
        ("real_ids", {"real_ids": True}),
        ("weights", {"weights": {"maps": 1.0}}),
        ("weights.load", {"weights": {"load": -1.0}}),
        ("normalise", {"tier": Tier.INSTANCE, "normalise": True}),
        ("levels.1", {"by": "class", "levels": ("a", "b\nc")}),
        ("levels.1", {"by": "class", "levels": ("a", "")}),
        ("curator", {"tier": Tier.INSTANCE, "about": About(curator="Differential  Privacy plc")}),
    ],
)
def test_bad_requests_are_named(field: str, changes: dict[str, object]) -> None:
    """Field and rule, before anything is computed."""
    with pytest.raises(InvalidParameterError) as caught:
        PLAIN.replace(**changes)
    assert caught.value.field == field


def test_a_release_of_nothing_is_refused() -> None:
    """Every part switched off."""
    with pytest.raises(InvalidParameterError, match="at least one product"):
        split_budget(PLAIN.replace(weights=only()))


@pytest.mark.parametrize(
    ("changes", "products", "refusal"),
    [
        ({"weights": {"shares": 3.0}}, None, "the product shares needs a grouping"),
        (
            {"weights": {"synthesis": 1.0}, "normalise": True},
            None,
            "the product synthesis needs segments of all customers, and no normalise",
        ),
        (
            {"weights": {"synthesis": 1.0, "clusters": 0.0}},
            None,
            "the product synthesis needs",
        ),
        ({}, ["load", "shares"], "the product shares needs a grouping"),
        ({}, ["labels"], "the product labels needs label_epsilon"),
        ({"weights": only()}, [], "products: select at least one product"),
    ],
)
def test_a_named_product_that_is_impossible_is_refused(
    changes: dict[str, object], products: list[str] | None, refusal: str
) -> None:
    """The error names the requested product: otherwise the rest would be charged without it."""
    request = PLAIN.replace(**changes)
    with pytest.raises(InvalidParameterError, match=refusal):
        requested_products(request, names=products)


def test_what_goes_without_saying_is_left_out_where_it_cannot_be_had() -> None:
    """Shares were not requested by name, so missing groups are no error."""
    for request in (PLAIN, PLAIN.replace(weights={"shares": 0.0, "load": 2.0})):
        found = {part.name for part in requested_products(request)}
        assert {"clusters", "synthesis", "load"} <= found
        assert "shares" not in found


def test_a_delta_too_large_to_split_is_refused() -> None:
    """Parts of epsilon 0 still cost what delta allows: the search ends, and says so."""
    with pytest.raises(InvalidParameterError, match="delta must be small enough beside epsilon"):
        split_budget(ReleaseRequest(epsilon=0.01, delta=0.01))
    with pytest.raises(InvalidParameterError, match="delta must be small enough beside epsilon"):
        split_budget(ReleaseRequest(epsilon=1.0, delta=0.2))


@pytest.mark.parametrize("text", ["", " ", "two\nlines", "a\u202eb", "\udcff", "x" * 2001])
def test_words_of_the_publisher_are_one_line(text: str) -> None:
    """Refused before anything is spent: what cannot be written, and what could pass for our own."""
    with pytest.raises(InvalidParameterError, match="title must be one line"):
        About(title=text)


def test_an_error_beyond_all_numbers_is_not_foreseen() -> None:
    """JSON has no word for it, and a quote must not fail."""
    assert Expectation("error of a load curve", math.inf, "kW").value is None
    assert Expectation("error of a load curve", math.nan, "kW") == Expectation(
        "error of a load curve", None, "kW"
    )
    assert Expectation("error of a load curve", 0.5, "kW").value == 0.5


def test_the_public_estimate_is_rounded_before_anything_sees_it() -> None:
    """Request, plan and what is derived from them hold no unrounded number."""
    request = PLAIN.replace(customers=1409, typical_kw=0.5417)
    assert (request.customers, request.typical_kw) == (1000, 0.5)
    assert "1409" not in repr(request)
    assert "0.5417" not in json.dumps(to_plain(request))
    assert request.replace(epsilon=2.0).customers == 1000
    with without_plan_simulation():
        planned = plan_release(request, TimeGrid()).summary.model_dump(mode="json")
    assert planned["customers_estimate"] == 1000
    assert planned["customers_per_group"] is None


@pytest.mark.parametrize(("delta", "warnings"), [(0.999e-3, 0), (1e-3, 1)])
def test_a_delta_that_is_too_large_is_in_the_plan(delta: float, warnings: int) -> None:
    """Compared with the rounded estimate, which is public: 1/1000, not 1/1409."""
    request = PLAIN.replace(delta=delta, customers=1409)
    with without_plan_simulation():
        planned = plan_release(request, TimeGrid()).summary.model_dump(mode="json")
    assert planned["warnings"] == list(request.warnings)
    assert len(request.warnings) == warnings


def test_a_split_travels_unchanged() -> None:
    """Written and read, it is the same; another one than that of the request is refused."""
    for request in (EVERYTHING, PLAIN.replace(tier=Tier.INSTANCE)):
        split = split_budget(request)
        found = allotments_from_json(json.loads(json.dumps(allotments_to_json(split))))
        assert found == split
        assert granted_plan(request, found).allotments == split
        assert granted_plan(request, found).expected == {}
    with pytest.raises(InvalidParameterError, match="allotments"):
        granted_plan(PLAIN, split_budget(EVERYTHING))


@pytest.mark.parametrize(
    ("epsilon", "changes"),
    [(10.0, {}), (1.0, {"delta": 1e-3}), (1.001, {}), (10.0, {"tier": Tier.INSTANCE})],
)
def test_a_split_of_a_larger_budget_is_refused(epsilon: float, changes: dict[str, Any]) -> None:
    """The manifest would state the epsilon of the request, and products spend that of the split."""
    request = PLAIN.replace(**{**changes, "delta": PLAIN.delta})
    larger = split_budget(request.replace(**{**changes, "epsilon": epsilon}))
    with pytest.raises(InvalidParameterError, match="allotments"):
        granted_plan(request, larger)
    with pytest.raises(InvalidParameterError, match="allotments"):
        plan_release(request, TimeGrid(), allotments=larger)
    own = granted_plan(request, split_budget(request))
    with pytest.raises(InvalidParameterError, match="allotments"):
        replace(own, allotments=larger)


def test_a_split_is_refused_if_its_sum_alone_is_too_large() -> None:
    """Each part is one that the request could grant; together they exceed epsilon."""
    whole = Allotment.of(guarantee_of(PLAIN, epsilon=PLAIN.epsilon, delta=PLAIN.delta))
    split = dict.fromkeys(split_budget(PLAIN), whole)
    with pytest.raises(InvalidParameterError, match=r"within epsilon = 1\.0 at delta = 1e-06"):
        granted_plan(PLAIN, split)


def test_a_grant_is_that_of_its_guarantee() -> None:
    """A ledger charges the grant, and a product spends by the guarantee: they cannot differ."""
    split = split_budget(PLAIN)
    for change in (
        {"grant": replace(split["load"].grant, rho_units=1)},
        {"grant": replace(split["load"].grant, eta=0.0)},
        {"guarantee": replace(split["load"].guarantee, epsilon=0.1)},
        {"guarantee": replace(split["load"].guarantee, unit=Unit.CUSTOMER_DAY)},
    ):
        changed = {**split, "load": replace(split["load"], **change)}
        with pytest.raises(InvalidParameterError, match=r"allotments\.load must be"):
            granted_plan(PLAIN, changed)
    labelled = PLAIN.replace(label_epsilon=0.25)
    split = split_budget(labelled)
    changed = {**split, "labels": response_allotment(labelled, 0.125)}
    with pytest.raises(InvalidParameterError, match=r"allotments\.labels must be"):
        granted_plan(labelled, changed)


def test_a_plan_keeps_its_split() -> None:
    """Whoever made the split cannot change it after it was checked."""
    split = split_budget(PLAIN)
    made = granted_plan(PLAIN, split)
    split["load"] = split["clusters"]
    assert made.allotments["load"] != split["load"]
    with pytest.raises(TypeError):
        made.allotments["load"] = split["load"]  # type: ignore[index] # not permitted


def test_plain_deltas_are_composed() -> None:
    """A response that fails with probability 1e-6 leaves nothing of a delta of 1e-6."""
    grant = Composition(response_epsilon=0.5, response_delta=5e-7)
    one = Allotment(guarantee=guarantee_of(PLAIN, epsilon=0.5, delta=5e-7), grant=grant)
    assert composed_epsilon([one], 1e-6) == pytest.approx(0.5, abs=1e-5)
    assert composed_epsilon([one, one], 1e-6) == pytest.approx(1.0, abs=1e-5)
    assert composed_epsilon([one, one, one], 1e-6) == math.inf


@pytest.mark.parametrize("power", range(-9, 13))
def test_an_expectation_of_any_size_fits_the_manifest(power: int) -> None:
    """A release that is paid for must not fail because its plan stated a large number."""
    number = 1.463 * 10.0**power
    expected = Expectation("loss against exact segments", number, "%", number / 3.0, 3.0 * number)
    text = (files("wattveil.bundle") / "manifest.schema.json").read_text()
    (pattern,) = re.findall(r'"expected": .*?"pattern": ("[^"]+")', text, re.DOTALL)
    assert re.search(json.loads(pattern), f"{expected.quantity}: {expected}")


def test_a_plan_that_noise_will_hide_says_so() -> None:
    """In the summary, by public numbers alone; a plan with a sufficient budget has no warning."""
    public: dict[str, Any] = {"delta": 1e-6, "customers": 200, "typical_kw": 0.5, "clip_kw": 10.0}
    hidden = ReleaseRequest(epsilon=0.3, weights={"synthesis": 0.0}, **public)
    planned = plan_release(hidden, TimeGrid())
    error, supported = planned.expected["load"][0].value, planned.expected["clusters"][2].value
    assert error is not None
    assert 1.96 * error > 0.5
    assert supported == 0
    about = [line.split(":")[0] for line in noise_warnings(planned)]
    assert about == [one.name for one in planned.products]
    assert set(noise_warnings(planned)) <= set(planned.summary.warnings)
    lines = plan_lines(planned.summary.model_dump())
    assert [line for line in lines if "Warning" in line][-2:] == lines[-2:]
    clear = ReleaseRequest(epsilon=1.0, weights={"clusters": 0.0, "synthesis": 0.0}, **public)
    assert noise_warnings(plan_release(clear, TimeGrid())) == ()
