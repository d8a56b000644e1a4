"""The one-run bound: the paper's own figures, a linear program, and what it must refuse."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from tests.statistical.harness import guarantee
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.canaries import ONE_RUN
from wattveil.lab.audit.epsilon_bounds import audit_one_run, one_run_epsilon, one_run_p_value
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import products_of

NO_CANARY = {
    "clusters": "its curves and sizes are of clusters of many customers: no number of one canary",
    "years": "its model is of clusters and of all customers together: no number of one canary",
}
"""Products that are audited by pairs of neighbours alone, with the reason."""


def test_every_product_has_a_canary_or_a_reason() -> None:
    """A product that one-run audits would silently leave out is found."""
    known = {product.name for product in products_of(Tier.GLOBAL)}
    assert not known - {*ONE_RUN, *NO_CANARY}, "needs an entry of ONE_RUN, or of NO_CANARY"
    assert not {*ONE_RUN, *NO_CANARY} - known
    assert not {*ONE_RUN} & {*NO_CANARY}


def printed_p_value(
    *, canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """Return P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i: the paper's appendix D."""
    law = stats.binom(guesses, math.exp(epsilon) / (1.0 + math.exp(epsilon)))
    below = np.cumsum(law.pmf(np.arange(right - 1, -1, -1))) / np.arange(1, right + 1)
    return float(law.sf(right - 1) + 2.0 * canaries * delta * below.max())


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "printed"),
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
)
def test_the_paper_s_figures(
    canaries: int, guesses: int, right: int, delta: float, printed: float
) -> None:
    """Steinke, Nasr & Jagielski print two bounds at 95 %: their formula gives them; ours, which is
    proved, gives as much or a little more.
    """
    counts = {"canaries": canaries, "guesses": guesses, "right": right}
    theirs = optimize.brentq(
        lambda epsilon: printed_p_value(**counts, epsilon=epsilon, delta=delta) - 0.05, 0.1, 5.0
    )
    assert theirs == pytest.approx(printed, abs=1e-3)  # one is rounded, one is cut
    assert theirs - 0.01 < one_run_epsilon(**counts, delta=delta, level=0.05) < theirs + 0.15


def test_the_printed_formula_is_no_bound() -> None:
    """Two canaries, (1, 0.02)-DP: g_k is the chance of a pattern with k wrong guesses.

    One of two is right more often than the printed formula lets it be; ours holds.
    """
    factor, delta = math.e, 0.02
    one_wrong = (1.0 + delta / factor) / (factor + 2.0 + 1.0 / factor)
    none_wrong, both_wrong = factor * one_wrong, (one_wrong - delta) / factor
    assert none_wrong + 2.0 * one_wrong + both_wrong == pytest.approx(1.0)
    # A flipped coin makes a right guess wrong: 0 and 1 wrong change places, or 1 and 2.
    excess = max(none_wrong - factor * one_wrong, 0.0) + max(one_wrong - factor * both_wrong, 0.0)
    assert excess == pytest.approx(delta)
    chance = 1.0 - both_wrong
    counts = {"canaries": 2, "guesses": 2, "right": 1}
    assert chance > printed_p_value(**counts, epsilon=1.0, delta=delta) + 9e-4
    assert chance < one_run_p_value(**counts, epsilon=1.0, delta=delta)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 2), (3, 3), (3, 2)])
def test_no_mechanism_does_better(
    canaries: int, guesses: int, epsilon: float, delta: float
) -> None:
    """A linear program over all (epsilon, delta)-DP mechanisms finds the best chance of v right
    guesses: never above the bound, and equal to it for delta = 0 or one canary.
    """
    for right in range(1, guesses + 1):
        bound = one_run_p_value(
            canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta
        )
        best = best_chance(canaries, guesses, right, epsilon, delta)
        assert best <= bound + 1e-8
        if delta == 0.0 or canaries == 1:
            assert best == pytest.approx(bound, abs=1e-8)


def test_without_the_delta_term_the_bound_would_be_wrong() -> None:
    """The linear program beats P[W >= v] as soon as delta is not 0."""
    at_least = one_run_p_value(canaries=3, guesses=3, right=3, epsilon=1.0, delta=0.0)
    assert best_chance(3, 3, 3, 1.0, 0.02) > at_least + 0.01


def best_chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return max P[right guesses >= v] over mechanisms from coins to guesses, by linear program.

    Variables: p(t | s), and for each neighbouring pair s, s' the excess
    (p(t | s) - e^epsilon p(t | s'))_+, whose sum over t is at most delta.
    """
    worlds = list(itertools.product((-1, 1), repeat=canaries))
    outputs = [
        guess
        for guess in itertools.product((-1, 0, 1), repeat=canaries)
        if sum(map(abs, guess)) == guesses
    ]
    pairs = [
        (i, j)
        for i, first in enumerate(worlds)
        for j, second in enumerate(worlds)
        if sum(a != b for a, b in zip(first, second, strict=True)) == 1
    ]
    n, k = len(worlds), len(outputs)
    excess = n * k + np.arange(len(pairs) * k).reshape(len(pairs), k)
    gain = np.zeros(n * k + excess.size)
    for i, world in enumerate(worlds):
        for t, guess in enumerate(outputs):
            correct = sum(a == b for a, b in zip(world, guess, strict=True))
            gain[i * k + t] = float(correct >= right) / n
    private = np.zeros((len(pairs) * (k + 1), gain.size))
    limits = np.zeros(len(pairs) * (k + 1))
    for row, (i, j) in enumerate(pairs):
        for t in range(k):
            line = row * (k + 1) + t
            private[line, i * k + t] = 1.0
            private[line, j * k + t] = -math.exp(epsilon)
            private[line, excess[row, t]] = -1.0
        private[row * (k + 1) + k, excess[row]] = 1.0
        limits[row * (k + 1) + k] = delta
    total = np.zeros((n, gain.size))
    for i in range(n):
        total[i, i * k : (i + 1) * k] = 1.0
    solved = optimize.linprog(-gain, A_ub=private, b_ub=limits, A_eq=total, b_eq=np.ones(n))
    assert solved.fun is not None
    return -float(solved.fun)


@given(
    guesses=st.integers(1, 25),
    share=st.floats(0.0, 1.0),
    epsilon=st.floats(0.0, 5.0),
    delta=st.floats(0.0, 0.01),
)
@settings(max_examples=25, deadline=None)
def test_the_bound_on_epsilon_is_where_the_level_is_met(
    guesses: int, share: float, epsilon: float, delta: float
) -> None:
    """The p-value term by term; what is refuted is refuted, and a little more is not."""
    counts = {"canaries": 2 * guesses, "guesses": guesses, "right": round(share * guesses)}
    chance = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    law = stats.binom(guesses, chance)
    direct = sum(float(law.pmf(k)) for k in range(counts["right"], guesses + 1))
    peaks = (
        max(float(stats.binom.pmf(j, k, chance)) for j in range(k + 1)) for k in range(guesses)
    )
    if counts["right"]:
        direct += 2.0 * delta / (1.0 + math.exp(epsilon)) * sum(peaks)  # m / r = 2
    found = one_run_p_value(**counts, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(min(direct, 1.0), rel=1e-9, abs=1e-12)
    bound = one_run_epsilon(**counts, delta=delta, level=0.05)
    assert bound == 0.0 or one_run_p_value(**counts, epsilon=bound, delta=delta) <= 0.05
    assert one_run_p_value(**counts, epsilon=bound + 1e-6, delta=delta) > 0.05


def test_observers_with_all_and_with_no_information() -> None:
    """The bound grows with what is seen, and is 0 for noise."""
    coins = np.arange(4000) % 2 == 0
    noise = np.sin(np.arange(4000.0) ** 2)[:, None]  # has nothing to do with the coins
    claim = guarantee(epsilon=1.0, delta=1e-6)
    sees = audit_one_run(coins, coins[:, None].astype(float), claim=claim, level=0.05)
    assert sees.refutes
    assert sees.epsilon > 4.0
    assert (sees.canaries, sees.guesses, sees.right) == (2000, sees.guesses, sees.guesses)
    inverted = audit_one_run(coins, -coins[:, None].astype(float), claim=claim, level=0.05)
    assert inverted.epsilon == sees.epsilon  # the sign is learned
    blind = audit_one_run(coins, noise, claim=claim, level=0.05)
    assert blind.epsilon == 0.0
    assert not blind.refutes


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"guesses": 11}, "guesses"),
        ({"right": 6}, "right"),
        ({"canaries": 0}, "canaries"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_counts_that_cannot_be(change: dict[str, float], field: str) -> None:
    """The error names the field."""
    good = {"canaries": 10, "guesses": 5, "right": 3, "epsilon": 1.0, "delta": 0.0}
    with pytest.raises(InvalidParameterError) as error:
        one_run_p_value(**{**good, **change})  # type: ignore[arg-type]
    assert error.value.field == field


def test_observations_of_other_canaries_are_refused() -> None:
    """One row a canary, and enough of them."""
    claim = guarantee()
    with pytest.raises(InvalidParameterError, match="observed"):
        audit_one_run(np.ones(40, dtype=bool), np.zeros((39, 1)), claim=claim, level=0.05)
    with pytest.raises(InvalidParameterError, match="canaries"):
        audit_one_run(np.ones(8, dtype=bool), np.zeros((8, 1)), claim=claim, level=0.05)
