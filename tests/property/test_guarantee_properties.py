"""Composition and implication of guarantees, for any numbers."""

import json
from fractions import Fraction

from flint import arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit

epsilons = st.floats(0.0, 500.0)
deltas = st.floats(0.0, 1.0, exclude_max=True)
kinds = st.sampled_from(  # the instance tier has no replace-one
    [
        (Tier.GLOBAL, Neighbours.ZERO_OUT),
        (Tier.GLOBAL, Neighbours.REPLACE_ONE),
        (Tier.INSTANCE, Neighbours.ZERO_OUT),
    ]
)


def of_kind(kind: tuple[Tier, Neighbours], epsilon: float, delta: float, unit: Unit) -> Guarantee:
    """Make a guarantee of a kind that exists."""
    return Guarantee(epsilon=epsilon, delta=delta, tier=kind[0], neighbours=kind[1], unit=unit)


guarantees = st.builds(
    of_kind,
    kind=kinds,
    epsilon=epsilons | st.floats(0.0, 1e6),
    delta=deltas,
    unit=st.sampled_from(Unit),
)
same_kind = st.builds(
    Guarantee,
    epsilon=epsilons,
    delta=st.floats(0.0, 0.2),
    tier=st.just(Tier.GLOBAL),
    neighbours=st.just(Neighbours.ZERO_OUT),
    unit=st.just(Unit.CUSTOMER),
)
# Few values, so that one guarantee often implies another.
few = st.builds(
    of_kind,
    kind=kinds,
    epsilon=st.sampled_from([0.0, 1.0, 2.0, 4.0]),
    delta=st.sampled_from([0.0, 1e-6, 1e-3]),
    unit=st.sampled_from(Unit),
)


@settings(deadline=None)
@given(guarantees)
def test_json_round_trip(guarantee: Guarantee) -> None:
    """Through a JSON text and back: the same guarantee, to the last bit."""
    text = json.dumps(guarantee.to_json())
    assert Guarantee.from_json(json.loads(text)) == guarantee


@settings(deadline=None, max_examples=100)
@given(
    guarantees,
    st.sampled_from(["epsilon", "delta", "tier", "neighbours", "unit"]),
    st.none() | st.integers() | st.text() | st.floats() | st.lists(st.text()),
)
def test_json_is_read_exactly_or_refused(guarantee: Guarantee, field: str, value: object) -> None:
    """Whatever is put in a field, the result writes back the very same text, or it is refused."""
    fields: dict[str, object] = {**guarantee.to_json(), field: value}
    try:
        read = Guarantee.from_json(fields)
    except InvalidParameterError as error:
        assert error.field == field  # noqa: PT017 - either way is allowed, not any way
    else:
        assert read.to_json() == fields


@settings(deadline=None)
@given(st.lists(same_kind, min_size=1, max_size=4))
def test_composition_is_never_cheaper_than_its_parts(parts: list[Guarantee]) -> None:
    """The whole is at least each part, at least the exact sum, and implied by no cheaper one."""
    whole = parts[0].compose(*parts[1:])
    assert all(part.implies(whole) for part in parts)
    assert Fraction(whole.epsilon) >= sum(Fraction(part.epsilon) for part in parts)
    assert Fraction(whole.delta) >= sum(Fraction(part.delta) for part in parts)


@settings(deadline=None, max_examples=250)
@given(few, few, few)
def test_implication_is_transitive(first: Guarantee, second: Guarantee, third: Guarantee) -> None:
    """If a implies b and b implies c, a implies c."""
    assert first.implies(first)
    if first.implies(second) and second.implies(third):
        assert first.implies(third)
    if first.implies(second):
        assert first.tier is second.tier


@settings(deadline=None)
@given(st.floats(0.0, 690.0), st.floats(1e-300, 0.5))
def test_replace_one_delta_is_rounded_up(epsilon: float, delta: float) -> None:
    """2 epsilon exactly, and at least (1 + e^epsilon) delta, in ball arithmetic."""
    zero_out = Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    with ctx.workprec(200):
        exact = (1 + arb(epsilon).exp()) * arb(delta)
        assume(bool(exact < 0.999))
        replaced = zero_out.as_replace_one()
        assert replaced.epsilon == 2.0 * epsilon
        assert bool(arb(replaced.delta) >= exact)
        assert bool(arb(replaced.delta) <= exact * (1 + arb("1e-14")))
    assert zero_out.implies(replaced)
