"""The promise of everything that is published: global, zero-out, for each customer."""

from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit


def global_promise(*, epsilon: float, delta: float) -> Guarantee:
    """Return (epsilon, delta)-DP for zero-out of one customer."""
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
