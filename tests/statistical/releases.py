"""One-call releases of each mechanism, each with all of a budget that is renewed first."""

from typing import Any

import numpy as np

from tests.single_queries import gaussian_histogram, given_cells, sum_of
from tests.statistical.harness import guarantee, renew
from wattveil.arrays import Floats, Ints, Texts
from wattveil.engines.local import LocalRows
from wattveil.privacy.guarantee import Budget, Guarantee, Tier
from wattveil.privacy.mechanisms import response
from wattveil.privacy.mechanisms.gaussian import NoisyTotals
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, NoisyAnswer, gaussian_answer
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.response import Channel, respond
from wattveil.privacy.private_data import ReleasedRows, Secret


def noisy_counts(cells: Ints, n_cells: int, budget: Budget) -> NoisyTotals:
    """Release how many customers are in each cell."""
    return gaussian_histogram(
        cells, n_cells=n_cells, rho_units=budget.rho_units, budget=renew(budget), tag="counts"
    ).value


def noisy_sums(
    features: Floats, budget: Budget, *, cells: Ints | None = None, n_cells: int = 1
) -> NoisyTotals:
    """Release the sum of clipped features in each cell; all customers are in cell 0 by default."""
    return sum_of(
        features,
        rho_units=budget.rho_units,
        budget=renew(budget),
        tag="sums",
        cells=cells,
        n_cells=n_cells,
    ).value


def instance_guarantee(**amounts: float) -> Guarantee:
    """Return a claim of the instance tier."""
    return guarantee(tier=Tier.INSTANCE, **amounts)  # type: ignore[arg-type]  # epsilon and delta


def noisy_answer(answer: Floats, differences: Ellipsoid, budget: Budget) -> NoisyAnswer:
    """Release an answer that is not a sum."""
    return gaussian_answer(
        Secret(answer),
        differences=differences,
        rho_units=budget.rho_units,
        budget=renew(budget),
        tag="answer",
    ).value


def labels_through(channel: Channel, labels: Ints, budget: Budget) -> ReleasedRows[Texts, Ints]:
    """Release labels through a channel.

    Ids are whole numbers, which sort fast: released labels keep the order of the customers.
    """
    ids: Any = np.arange(labels.size)
    return respond(
        LocalRows(labels),
        LocalRows(ids),
        given_cells.bind(),
        channel=channel,
        budget=renew(budget),
        tag="labels",
        real_ids=True,
    )


def randomised_response(labels: Ints, n_labels: int, budget: Budget) -> Ints:
    """Release labels through K-ary randomised response, with the epsilon of the budget."""
    guarantee = budget.guarantee
    channel = response.response_channel(
        n_labels=n_labels, epsilon=guarantee.epsilon, neighbours=guarantee.neighbours
    )
    return labels_through(channel, labels, budget).here()[1]


def noisy_modulo(
    labels: Ints, unstable: Ints, *, changed: int, n_labels: int, budget: Budget
) -> Ints:
    """Release labels, the unstable ones with noise modulo K."""
    return modulo_labels(
        Secret(labels),
        unstable=Secret(unstable),
        changed=changed,
        n_labels=n_labels,
        epsilon=budget.guarantee.epsilon,
        delta=budget.guarantee.delta,
        budget=renew(budget),
        tag="labels",
    ).value


def label_budget(claim: Guarantee) -> Budget:
    """Return a budget that is set aside for labels."""
    return Budget(claim, response_epsilon=claim.epsilon, response_delta=claim.delta)
