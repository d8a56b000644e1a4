"""The privacy guarantee: its sentence, its composition and its JSON."""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from flint import arb, ctx

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit

Make = Callable[..., Guarantee]


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("tier", Tier)
def test_sentence_agrees_with_the_fields(
    make_guarantee: Make, tier: Tier, neighbours: Neighbours, unit: Unit
) -> None:
    """Numbers, unit and relation are in the sentence; "differentially private" if global only."""
    if (tier, neighbours) == (Tier.INSTANCE, Neighbours.REPLACE_ONE):
        return  # no such guarantee: see test_refusals
    sentence = make_guarantee(tier=tier, neighbours=neighbours, unit=unit, epsilon=2.0).sentence
    assert ("(2.0, 1e-06)" in sentence) == (tier is Tier.GLOBAL)
    assert (f"for each {unit.value}:" in sentence) == (tier is Tier.GLOBAL)
    verbs = {Tier.GLOBAL: "adding or removing", Tier.INSTANCE: "removing or restoring"}
    is_replaced = neighbours is Neighbours.REPLACE_ONE
    verb = "replacing" if is_replaced else verbs[tier]
    assert f"{verb} one {unit.value}'s data {'with any other data ' * is_replaced}c" in sentence
    verb = "can" if tier is Tier.GLOBAL else "could"
    effect = f"{verb} raise the probability of any outcome from p to at most 7.390 p + 1e-06."
    assert effect in sentence
    assert ("differentially private" in sentence) == (tier is Tier.GLOBAL)
    assert ("differential" in sentence) == (tier is Tier.GLOBAL)
    assert ("for any data set, " in sentence) == (tier is Tier.GLOBAL)
    assert ("No bound holds for the release as a whole." in sentence) == (tier is Tier.INSTANCE)
    assert sentence.endswith(".")


def test_sentence_without_delta_has_no_exception(make_guarantee: Make) -> None:
    """A pure guarantee adds nothing; factors have no exponent, and huge ones are a power of e."""
    assert "at most 2.719 p." in make_guarantee(delta=0.0).sentence
    assert "at most e^800.0 p + " in make_guarantee(epsilon=800.0).sentence
    assert "at most e^20.0 p + " in make_guarantee(epsilon=20.0).sentence
    below = make_guarantee(epsilon=math.nextafter(20.0, 0.0)).sentence
    assert "at most 485,200,000 p + " in below  # rounded up: e^20 is 485,165,195.4
    assert "at most 22,030 p + " in make_guarantee(epsilon=10.0).sentence


def test_frozen(make_guarantee: Make) -> None:
    """A guarantee cannot be changed after it was made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_guarantee().epsilon = 2.0  # type: ignore[misc]  # that is the point


def test_numbers_become_floats(make_guarantee: Make) -> None:
    """Whole numbers and fractions are kept as floats, so that JSON has one spelling."""
    made = make_guarantee(epsilon=1, delta=Fraction(1, 4))
    assert (type(made.epsilon), type(made.delta)) == (float, float)
    assert made == make_guarantee(epsilon=1.0, delta=0.25)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("epsilon", -1.0),
        ("epsilon", float("nan")),
        ("epsilon", float("inf")),
        ("epsilon", 1.1e6),
        ("epsilon", "1"),
        ("epsilon", True),
        ("delta", 1.0),
        ("delta", -1e-9),
        ("delta", float("nan")),
        ("delta", None),
        ("tier", "global"),
        ("neighbours", "zero-out"),
        ("unit", "customer"),
        ("unit", Tier.GLOBAL),
    ],
)
def test_bad_fields_are_named(make_guarantee: Make, field: str, bad: object) -> None:
    """A guarantee without meaning is refused by field, rule and value."""
    with pytest.raises(InvalidParameterError) as caught:
        make_guarantee(**{field: bad})
    assert caught.value.field == field
    assert caught.value.value is bad


def test_fields_have_no_default() -> None:
    """Tier, relation and unit are always said."""
    with pytest.raises(TypeError):
        Guarantee(epsilon=1.0, delta=0.1)  # type: ignore[call-arg]  # that is the point


def test_composition_adds(make_guarantee: Make) -> None:
    """Releases on the same people add up, rounded up in exact arithmetic."""
    parts = [make_guarantee(epsilon=e, delta=d) for e, d in ((0.1, 0.1), (0.2, 0.2), (0.3, 1e-20))]
    together = parts[0].compose(*parts[1:])
    assert Fraction(together.epsilon) >= sum(Fraction(part.epsilon) for part in parts)
    assert Fraction(together.delta) >= sum(Fraction(part.delta) for part in parts)
    assert together.epsilon == pytest.approx(0.6, rel=1e-15)
    assert parts[0].compose() == parts[0]


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("tier", Tier.INSTANCE),
        ("neighbours", Neighbours.REPLACE_ONE),
        ("unit", Unit.CUSTOMER_DAY),
    ],
)
def test_kinds_never_mix(make_guarantee: Make, field: str, other: object) -> None:
    """Guarantees of different tier, relation or unit are not composed."""
    with pytest.raises(InvalidParameterError, match="the same in every part") as caught:
        make_guarantee().compose(make_guarantee(**{field: other}))
    assert caught.value.field == field
    assert len(str(caught.value.value).split(",")) == 2


def test_replace_one_is_two_steps(make_guarantee: Make) -> None:
    """Its epsilon doubles, delta grows by 1 + e^epsilon, rounded up; replace-one stays itself."""
    twice = make_guarantee(epsilon=1.0, delta=1e-6).as_replace_one()
    assert twice.epsilon == 2.0
    assert twice.neighbours is Neighbours.REPLACE_ONE
    assert 3.718281828459045e-06 < twice.delta < 3.71828182845906e-06
    assert twice.as_replace_one() is twice
    assert make_guarantee(epsilon=3.0, delta=0.0).as_replace_one().delta == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 3.0])
def test_replace_one_doubles_epsilon(make_guarantee: Make, epsilon: float, delta: float) -> None:
    """Exactly twice, with a delta and without."""
    assert make_guarantee(epsilon=epsilon, delta=delta).as_replace_one().epsilon == 2.0 * epsilon


def test_replace_one_delta_is_above_the_truth_where_floats_fall_short(
    make_guarantee: Make,
) -> None:
    """Here (1 + e^epsilon) delta in floats, and the float above that, are below the true value."""
    epsilon, delta = 1.9665900714291837, 9.061143935062464e-07
    with ctx.workprec(200):
        truth = (1 + arb(epsilon).exp()) * arb(delta)
        assert arb(math.nextafter((1.0 + math.exp(epsilon)) * delta, 1.0)) < truth
        assert arb(make_guarantee(epsilon=epsilon, delta=delta).as_replace_one().delta) >= truth


def test_the_largest_exponent_still_has_a_replace_one_equivalent(
    make_guarantee: Make,
) -> None:
    """At epsilon = 700 the factor is a float and a tiny delta still a guarantee; above, neither."""
    smallest = 1e-320
    found = make_guarantee(epsilon=700.0, delta=smallest).as_replace_one().delta
    assert found == pytest.approx(math.exp(700.0) * smallest, rel=1e-9, abs=0.0)
    with pytest.raises(InvalidParameterError, match="delta must be"):
        make_guarantee(epsilon=math.nextafter(700.0, 701.0), delta=smallest).as_replace_one()


def test_a_guarantee_too_weak_has_no_replace_one_equivalent(make_guarantee: Make) -> None:
    """Where (1 + e^epsilon) delta is no probability the answer is a refusal, not a small number."""
    for weak in (
        make_guarantee(epsilon=750.0, delta=1e-320),
        make_guarantee(epsilon=20.0, delta=0.1),
    ):
        with pytest.raises(InvalidParameterError, match="delta must be"):
            weak.as_replace_one()
        other = make_guarantee(epsilon=1e6, delta=0.999, neighbours=Neighbours.REPLACE_ONE)
        assert not weak.implies(other)


def test_composition_beyond_a_guarantee_is_refused(make_guarantee: Make) -> None:
    """Sums beyond the accepted range are not guarantees."""
    with pytest.raises(InvalidParameterError, match="epsilon must be"):
        make_guarantee(epsilon=1e6).compose(make_guarantee(epsilon=1.0))
    with pytest.raises(InvalidParameterError, match="delta must be"):
        make_guarantee(delta=0.5).compose(make_guarantee(delta=0.5))


def test_implies_is_reflexive(make_guarantee: Make) -> None:
    """Every guarantee implies itself."""
    for neighbours, unit in itertools.product(Neighbours, Unit):
        one = make_guarantee(neighbours=neighbours, unit=unit)
        assert one.implies(one)
    assert make_guarantee(tier=Tier.INSTANCE).implies(make_guarantee(tier=Tier.INSTANCE))


@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_implies_follows_the_numbers(make_guarantee: Make, field: str) -> None:
    """Less epsilon or less delta implies more, never the other way."""
    less, more = make_guarantee(**{field: 0.1}), make_guarantee(**{field: 0.2})
    assert less.implies(more)
    assert not more.implies(less)


def test_tiers_never_imply_each_other(make_guarantee: Make) -> None:
    """A guarantee for one data set says nothing about all, and is stated against another scale."""
    for tier, other in ((Tier.GLOBAL, Tier.INSTANCE), (Tier.INSTANCE, Tier.GLOBAL)):
        strong = make_guarantee(tier=tier, epsilon=0.0, delta=0.0)
        assert not strong.implies(make_guarantee(tier=other, epsilon=9.0))


def test_larger_units_cover_smaller_ones(make_guarantee: Make) -> None:
    """All data of a customer cover each month and day of them; a day covers no more than a day."""
    order = [Unit.CUSTOMER, Unit.CUSTOMER_MONTH, Unit.CUSTOMER_DAY]
    for i, large in enumerate(order):
        for j, small in enumerate(order):
            assert make_guarantee(unit=large).implies(make_guarantee(unit=small)) == (i <= j)


def test_zero_out_implies_replace_one_at_twice_the_price(make_guarantee: Make) -> None:
    """Zero-out implies its replace-one equivalent, nothing cheaper; the way back is closed."""
    zero_out = make_guarantee(epsilon=1.0, delta=1e-6)
    replace_one = zero_out.as_replace_one()
    assert zero_out.implies(replace_one)
    assert not zero_out.implies(dataclasses.replace(replace_one, epsilon=1.9))
    assert not zero_out.implies(dataclasses.replace(replace_one, delta=3.7e-6))
    assert not replace_one.implies(zero_out)
    assert not make_guarantee(epsilon=0.0, delta=0.0, neighbours=Neighbours.REPLACE_ONE).implies(
        zero_out
    )


def test_json_is_text_that_json_keeps(make_guarantee: Make) -> None:
    """The fields survive a JSON file to the last bit, as strings."""
    made = make_guarantee(
        epsilon=0.1 + 0.2, delta=5e-324, tier=Tier.INSTANCE, unit=Unit.CUSTOMER_DAY
    )
    written = json.dumps(made.to_json())
    assert '"epsilon": "0.30000000000000004"' in written
    assert '"tier": "instance"' in written
    assert Guarantee.from_json(json.loads(written)) == made


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "-1.0"}, "epsilon"),
        ({"delta": "1.0"}, "delta"),
        ({"delta": "1e400"}, "delta"),
        ({"delta": None}, "delta"),
        ({"tier": "GLOBAL"}, "tier"),
        ({"tier": ["global"]}, "tier"),
        ({"neighbours": "add-remove"}, "neighbours"),
        ({"unit": ""}, "unit"),
        ({"extra": "1"}, "guarantee"),
    ],
)
def test_malformed_json_is_refused(
    make_guarantee: Make, change: dict[str, object], field: str
) -> None:
    """A field that is not as `to_json` writes it is refused by name."""
    with pytest.raises(InvalidParameterError) as caught:
        Guarantee.from_json({**make_guarantee().to_json(), **change})
    assert caught.value.field == field


@pytest.mark.parametrize("fields", [None, [], "epsilon", {}, 3, [("epsilon", "1.0")]], ids=repr)
def test_json_of_the_wrong_shape_is_refused(fields: object) -> None:
    """Anything but an object with exactly the five fields is refused."""
    with pytest.raises(
        InvalidParameterError, match="guarantee must be an object with the fields"
    ) as caught:
        Guarantee.from_json(fields)
    assert caught.value.value is fields


def test_json_without_a_field_is_refused(make_guarantee: Make) -> None:
    """There is no default for a missing field."""
    for field in make_guarantee().to_json():
        fields = make_guarantee().to_json()
        del fields[field]
        with pytest.raises(InvalidParameterError, match="guarantee must be"):
            Guarantee.from_json(fields)
