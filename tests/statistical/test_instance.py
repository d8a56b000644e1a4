"""The instance tier draws what it states: covariance, labels and the privacy loss of a removal.

All draws come from whole fits of a small data set; what is equal in every fit is computed once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.statistical.harness import MARGIN, accepts, covariance_p, draws, normal_p, refuses, tells
from wattveil import calibration
from wattveil.arrays import Floats, Ints
from wattveil.numerics.kmeans.lloyd import k_means, lloyd
from wattveil.privacy.opening import reveal
from wattveil.release import instance
from wattveil.release.instance import InstanceDiagnostics, LeaveOneOutKMeans

EPSILON, DELTA = 1.0, 0.2
FITS = draws(2_000)
WIDE = 2.0 * MARGIN  # a fit is slow: fewer draws, coarser faults


def customers() -> Floats:
    """Return customers without structure, so that labels flip, longer in one direction."""
    return np.random.default_rng(9).normal(size=(60, 2)) * [2.0, 1.0]


def model(**fields: object) -> LeaveOneOutKMeans:
    """Return an estimator whose starts repeat, with a weak claim that Monte Carlo can see."""
    usual: dict[str, object] = {"n_clusters": 3, "n_init": 1, "random_state": 1}
    weak: dict[str, object] = {"epsilon_c": EPSILON, "delta_c": DELTA, "epsilon_l": 2.0}
    return LeaveOneOutKMeans(**{**usual, **weak, **fields})  # type: ignore[arg-type]  # a dict


@dataclass(frozen=True, kw_only=True)
class Fits:
    """What many fits released, and the private part that they share."""

    noise: Floats
    labels: Ints
    exact: InstanceDiagnostics


@pytest.fixture(scope="module")
def released() -> dict[str, Fits]:
    """Return what was drawn so far, by colour: each sample is drawn once for all tests."""
    return {}


@pytest.fixture
def many_fits(
    repeated_runs: None,  # noqa: ARG001 - patches
    monkeypatch: pytest.MonkeyPatch,
    released: dict[str, Fits],
) -> Callable[[str], Fits]:
    """Return what fits many times, with the colour found once."""

    def fit_often(colour: str) -> Fits:
        if colour in released:
            return released[colour]
        first = model(noise=colour).fit(customers())
        exact = reveal(first.diagnostics_)
        found, kept = first._colour, list[instance._Colour]()

        def once(_: LeaveOneOutKMeans, *given: Any) -> instance._Colour:  # noqa: ANN401 - passed on
            if not kept:
                kept.append(found(*given))
            kept[0].budget._spends.clear()
            return kept[0]

        monkeypatch.setattr(LeaveOneOutKMeans, "_colour", once)
        fits = [model(noise=colour).fit(customers()) for _ in range(FITS)]
        centroids = np.array([fit.cluster_centers_.ravel() for fit in fits])
        released[colour] = Fits(
            noise=centroids - exact.centroids.ravel(),
            labels=np.array([fit.labels_ for fit in fits]),
            exact=exact,
        )
        return released[colour]

    return fit_often


def worst_difference(rows: Floats, exact: InstanceDiagnostics) -> Floats:
    """Return c(X) - c(X minus p) for the p that is seen best, by running Lloyd again for each."""
    fit = k_means(rows, 3, n_init=1, seed=1)
    others = [np.delete(rows, p, axis=0) for p in range(len(rows))]
    differences = [(fit.centroids - lloyd(o, fit.centroids).centroids).ravel() for o in others]
    inverse = np.linalg.inv(exact.covariance)
    return max(differences, key=lambda v: float(v @ inverse @ v))


@pytest.mark.parametrize("colour", ["coloured", pytest.param("white", marks=pytest.mark.long)])
def test_released_centroids_have_the_stated_covariance(
    colour: str, many_fits: Callable[[str], Fits]
) -> None:
    """Of whole fits: the stated covariance is accepted, 10 % of scale more or less and another
    colour of the same power are refused, on one sample.
    """
    fits = many_fits(colour)
    stated = fits.exact.covariance
    tells(lambda scale: covariance_p(fits.noise, scale**2 * stated), margin=WIDE)
    sizes, axes = np.linalg.eigh(stated)
    stretched = sizes * np.where(np.arange(6) == 0, 2.0, 1.0)
    refuses(covariance_p(fits.noise, (axes * stretched) @ axes.T))


def test_the_privacy_loss_of_the_worst_removal_is_the_guarantee(
    many_fits: Callable[[str], Fits],
) -> None:
    """With L the log-ratio of the two densities at a released answer, E[(1 - e^(epsilon - L))_+]
    is delta_c for the worst removal by the naive loop. With half the noise it is far above.
    """
    fits = many_fits("coloured")
    covariance = fits.exact.covariance
    v = worst_difference(customers(), fits.exact)

    def excess(noise: Floats, covariance: Floats) -> Floats:
        """Return (1 - e^(epsilon - L))_+ with L = log N(y; 0, S) / N(y; -v, S) at every draw."""
        law = stats.multivariate_normal(cov=covariance)
        loss = law.logpdf(noise) - law.logpdf(noise + v)
        return np.maximum(1.0 - np.exp(EPSILON - loss), 0.0)

    right = excess(fits.noise, covariance)
    accepts(normal_p((right.mean() - DELTA) / (right.std() / math.sqrt(right.size))))
    half = excess(fits.noise / 2.0, covariance / 4.0)
    refuses(normal_p((half.mean() - DELTA) / (half.std() / math.sqrt(half.size))))
    s = 2.0 * calibration.gaussian_s(epsilon=EPSILON, delta=DELTA)
    truth = calibration.gaussian_delta(epsilon=EPSILON, s=s)
    accepts(normal_p((half.mean() - truth) / (half.std() / math.sqrt(half.size))))


def test_labels_move_with_the_stated_chance(many_fits: Callable[[str], Fits]) -> None:
    """In L with probability rho, to both other labels equally often; outside L never."""
    fits = many_fits("coloured")
    exact = fits.exact
    step = (fits.labels - exact.labels) % 3
    outside = np.setdiff1d(np.arange(60), exact.label_set)
    assert exact.label_set.size > 0
    assert not step[:, outside].any()
    inside = step[:, exact.label_set]

    def p_value(factor: float) -> float:
        chance = exact.flip * factor
        return float(stats.binomtest(int((inside > 0).sum()), inside.size, chance).pvalue)

    tells(p_value, margin=WIDE)
    moved = int((inside > 0).sum())
    accepts(float(stats.binomtest(int((inside == 1).sum()), moved, 0.5).pvalue))
