"""K-ary randomised response in one call, as most tests want it."""

from fractions import Fraction

from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import response
from wattveil.privacy.mechanisms.response import PARTS, channel_response
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import IntArray


def randomised_response(
    labels: Secret[IntArray], *, n_labels: int, epsilon: float, budget: Budget, tag: str
) -> Released[IntArray]:
    """Release labels through the response channel of the budget's neighbours."""
    channel = response.response_channel(
        n_labels=n_labels, epsilon=epsilon, neighbours=budget.guarantee.neighbours
    )
    return channel_response(labels, channel=channel, budget=budget, tag=tag)


def keep_probability(*, n_labels: int, epsilon: float, neighbours: Neighbours) -> Fraction:
    """Return the chance that a label stays."""
    channel = response.response_channel(n_labels=n_labels, epsilon=epsilon, neighbours=neighbours)
    return Fraction(int(channel.parts[0, 0]), PARTS)
