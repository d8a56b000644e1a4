"""Interface of the baselines: recorded noise, public choices, the result, and its accuracy loss.

The guarantee of a baseline is computed from the record of its noisy steps, never from the budget it
was meant to spend. Noise is drawn in floating point from a generator that the caller seeds, so that
a comparison can be repeated; the guarantees hold for exact arithmetic and an unseeded source.

The clustering loss of centroids c and labels l is r(X, q) = 1/P sum_p |x_p - c_{l_p}|^2; the DP
accuracy loss is (r(X, private) - r(X, exact)) / r(X, exact). It is computed from private rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil import calibration, checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidDataError, InvalidParameterError, wrong_width
from wattveil.numerics.kmeans.instance_query import clip_rms
from wattveil.numerics.kmeans.lloyd import LloydResult, assign, k_means
from wattveil.numerics.load_basis import public_basis
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit


@dataclass(frozen=True, kw_only=True)
class NoisyStep:
    """Record of one noisy step.

    Attributes
    ----------
    step
        Name of the step.
    sensitivity
        For one customer: L1 for Laplace, L2 for Gaussian, of the cost for a choice.
    scale
        Of the noise: Laplace's b, the standard deviation, the temperature of a choice.
    pure
        Whether it costs epsilon = sensitivity / scale, or mu = sensitivity / scale of the Gaussian.
    """

    step: str
    sensitivity: float
    scale: float
    pure: bool = True

    @property
    def price(self) -> float:
        """Epsilon, or mu of a Gaussian answer."""
        return self.sensitivity / self.scale


class Noise:
    """Draws noise and records every noisy step.

    Parameters
    ----------
    generator
        From the caller: makes a comparison repeatable, protects nothing.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.steps: list[NoisyStep] = []

    def laplace(self, exact: Floats, *, sensitivity: float, epsilon: float, step: str) -> Floats:
        """Add Laplace noise of scale sensitivity / epsilon to every number."""
        drawn = NoisyStep(step=step, sensitivity=sensitivity, scale=sensitivity / epsilon)
        self.steps.append(drawn)
        return exact + self.generator.laplace(scale=drawn.scale, size=exact.shape)

    def gaussian(self, exact: Floats, *, sensitivity: float, mu: float, step: str) -> Floats:
        """Add Gaussian noise of standard deviation sensitivity / mu to every number."""
        drawn = NoisyStep(step=step, sensitivity=sensitivity, scale=sensitivity / mu, pure=False)
        self.steps.append(drawn)
        return exact + drawn.scale * self.generator.standard_normal(exact.shape)

    def choose(self, costs: Floats, *, sensitivity: float, epsilon: float, step: str) -> int:
        """Choose i with probability proportional to exp(-epsilon costs_i / sensitivity).

        The exponential mechanism of monotone costs: one more customer raises every cost by at most
        the sensitivity and lowers none, so epsilon is charged once, not twice.
        """
        drawn = NoisyStep(step=step, sensitivity=sensitivity, scale=sensitivity / epsilon)
        self.steps.append(drawn)
        # The largest of scores with Gumbel noise has just this distribution.
        scores = -costs / drawn.scale + self.generator.gumbel(size=costs.shape)
        return int(scores.argmax())

    def respond(self, labels: Ints, n_labels: int, *, epsilon: float, step: str) -> Ints:
        """Keep each label with probability e^epsilon / (e^epsilon + K - 1), else draw another."""
        self.steps.append(NoisyStep(step=step, sensitivity=1.0, scale=1.0 / epsilon))
        keeps = self.generator.random(labels.shape) < keep_chance(n_labels, epsilon)
        others = (labels + self.generator.integers(1, n_labels, size=labels.shape)) % n_labels
        return np.where(keeps, labels, others)

    def took_one_of(self, branches: "Sequence[Noise]") -> None:
        """Record branches on disjoint customers (parallel composition): the largest cost counts."""
        self.steps += max(branches, key=lambda branch: total_epsilon(branch.steps)).steps


def keep_chance(n_labels: int, epsilon: float) -> float:
    """Return e^epsilon / (e^epsilon + K - 1), the probability that a response is the true label."""
    return 1.0 / (1.0 + (n_labels - 1) * math.exp(-epsilon))


def total_epsilon(steps: Sequence[NoisyStep]) -> float:
    """Return the epsilon of all answers together, none of them Gaussian: their sum."""
    return math.fsum(drawn.price for drawn in steps if drawn.pure)


def total_delta(steps: Sequence[NoisyStep], *, epsilon: float) -> float:
    """Return the delta of all answers together at epsilon, all of them Gaussian.

    They compose as one with mu = sqrt(sum mu_i^2).
    """
    mu = calibration.compose_s(*(drawn.price for drawn in steps if not drawn.pure))
    return calibration.gaussian_delta(epsilon=epsilon, s=mu)


# --- input and output -----------------------------------------------------------------------------


_BOUND_QUANTILES = (0.005, 0.995)
_NORM_QUANTILE = 0.99


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicChoices:
    """Public parameters: the number of clusters and the bounds of the load.

    Parameters
    ----------
    n_clusters
        K.
    n_customers
        Length of the list of customers, which is public.
    low_kw, high_kw : (d,)
        Load outside of them is clipped, slot by slot, by those that need a box.
    clip_kw
        Largest root-mean-square load; customers beyond it are clipped by those that need a
        ball.
    typical_kw
        Typical root-mean-square load, for those that need an initial estimate.
    centre_kw : (d,)
        Profile around which those that can be centred work.
    spread_kw
        Largest root-mean-square distance from ``centre_kw``; customers beyond it are clipped.
    """

    n_clusters: int
    n_customers: int
    low_kw: Floats
    high_kw: Floats
    clip_kw: float
    typical_kw: float
    centre_kw: Floats
    spread_kw: float

    def __post_init__(self) -> None:
        """Validate the bounds."""
        checks.integer("n_clusters", self.n_clusters, minimum=2)
        checks.integer("n_customers", self.n_customers, minimum=1)
        for field in ("low_kw", "high_kw", "centre_kw"):
            bound = checks.numbers(field, getattr(self, field))
            if bound.ndim != 1 or not np.isfinite(bound).all():
                raise InvalidParameterError(field, "one finite number per slot", bound)
            object.__setattr__(self, field, bound)
        if self.low_kw.shape != self.high_kw.shape or not (self.low_kw < self.high_kw).all():
            raise InvalidParameterError("low_kw", "below high_kw in every slot", self.low_kw)
        if self.centre_kw.shape != self.low_kw.shape:
            raise InvalidParameterError("centre_kw", "one number per slot", self.centre_kw.shape)
        for field in ("clip_kw", "typical_kw", "spread_kw"):
            checks.positive(field, getattr(self, field))

    @classmethod
    def taken_from(cls, load_kw: ArrayLike, n_clusters: int) -> Self:
        """Return bounds computed from the data: an advantage that no private release could have.

        The central 99 % of the load of each slot, 99 % of the lengths and of the distances from the
        mean profile, the mean length, the mean profile itself.
        """
        rows = finite_rows(load_kw)
        low, high = np.quantile(rows, _BOUND_QUANTILES, axis=0)
        rms = np.sqrt(np.square(rows).mean(axis=1))
        centre = rows.mean(axis=0)
        apart = np.sqrt(np.square(rows - centre).mean(axis=1))
        return cls(
            n_clusters=n_clusters,
            n_customers=len(rows),
            low_kw=low,
            high_kw=np.maximum(high, low + 1e-9),
            clip_kw=max(float(np.quantile(rms, _NORM_QUANTILE)), 1e-9),
            typical_kw=max(float(rms.mean()), 1e-9),
            centre_kw=centre,
            spread_kw=max(float(np.quantile(apart, _NORM_QUANTILE)), 1e-9),
        )

    @property
    def n_slots(self) -> int:
        """Columns of the data."""
        return self.low_kw.size

    @property
    def radius(self) -> float:
        """Length of the longest row that `in_ball` leaves as it is."""
        return self.clip_kw * float(np.sqrt(self.n_slots))

    def in_box(self, rows: Floats) -> Floats:
        """Clip every slot and map it to [-1, 1]."""
        clipped = np.clip(rows, self.low_kw, self.high_kw)
        return 2.0 * (clipped - self.low_kw) / (self.high_kw - self.low_kw) - 1.0

    def from_box(self, points: Floats) -> Floats:
        """Map [-1, 1] back to kW."""
        return self.low_kw + 0.5 * (points + 1.0) * (self.high_kw - self.low_kw)

    def in_ball(self, rows: Floats) -> Floats:
        """Clip long rows; the ball of radius `radius` is mapped to that of radius 1."""
        return clip_rms(rows, self.clip_kw) / self.radius

    def centred_ball(
        self, *, relative_radius: float = 1.0, coordinates: int | None = None
    ) -> "CentredBall":
        """Return the ball around the centre, of some of its radius and its smooth coordinates."""
        return CentredBall(
            centre_kw=self.centre_kw,
            radius=relative_radius * self.spread_kw * float(np.sqrt(self.n_slots)),
            basis=smooth_basis(self.n_slots, coordinates),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CentredBall:
    """Offsets from a public or released centre, clipped and mapped to the unit ball.

    Parameters
    ----------
    centre_kw : (d,)
        Maps to the origin. What lies outside of the coordinates keeps its value.
    radius
        Length of the longest offset that stays as it is.
    basis : (r, d)
        Orthonormal rows: the coordinates.
    """

    centre_kw: Floats
    radius: float
    basis: Floats

    def points(self, rows: Floats) -> Floats:
        """Return the coordinates of rows, in the unit ball."""
        return in_unit_ball((rows - self.centre_kw) @ self.basis.T / self.radius)

    def rows(self, points: Floats) -> Floats:
        """Return what has these coordinates, in kW."""
        return self.centre_kw + self.radius * points @ self.basis


def smooth_basis(n_slots: int, coordinates: int | None) -> Floats:
    """Return the first public curves as rows; the slots themselves if None."""
    if coordinates is None:
        return np.eye(n_slots)
    return public_basis(n_slots)[: min(coordinates, n_slots)]


def in_unit_ball(points: Floats) -> Floats:
    """Clip points to the unit ball."""
    scaled: Floats = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0)
    return scaled


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineResult:
    """Output of a baseline, and its claimed and actual guarantee.

    Attributes
    ----------
    centroids_kw : (K, d)
        Released.
    labels : (P,)
        Released; None from a mechanism that releases none.
    claimed
        Claim of the authors at the requested epsilon and delta.
    true
        Actual guarantee of the centroids, from the recorded noise, in exact arithmetic and for
        choices that are public; None if no epsilon and delta below 1 hold.
    known_violations
        Violations of the claim, and assumptions where the source is not specific.
    steps
        Record of each noisy step.
    true_with_labels
        Actual guarantee of centroids and labels together; None without labels or guarantee.
    """

    centroids_kw: Floats
    labels: Ints | None = None
    claimed: Guarantee
    true: Guarantee | None
    known_violations: tuple[str, ...]
    steps: tuple[NoisyStep, ...] = ()
    true_with_labels: Guarantee | None = None


class Fit(Protocol):
    """Interface of all baselines."""

    def __call__(
        self,
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Cluster the rows of ``load_kw``, one per customer."""
        ...


def checked(load_kw: ArrayLike, *, epsilon: float, delta: float, public: PublicChoices) -> Floats:
    """Validate the input of a baseline and return the rows."""
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    rows = finite_rows(load_kw)
    if rows.shape[1] != public.n_slots:
        raise wrong_width("load_kw", public.n_slots, rows.shape[1])
    if len(rows) < public.n_clusters:
        raise InvalidParameterError(
            "n_clusters", "at most the number of customers", public.n_clusters
        )
    return rows


def finite_rows(load_kw: ArrayLike) -> Floats:
    """Return a matrix of finite numbers with at least one row."""
    rows = checks.numbers("load_kw", load_kw)
    checks.columns("load_kw", rows)
    if not len(rows):
        raise InvalidDataError("load_kw has at least one customer", [])
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise InvalidDataError("finite load", bad.tolist())
    return rows


def claimed_guarantee(
    epsilon: float, delta: float = 0.0, *, neighbours: Neighbours = Neighbours.ZERO_OUT
) -> Guarantee:
    """Return a claimed_guarantee about every data set, whose list of customers is public."""
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=neighbours,
        unit=Unit.CUSTOMER,
    )


# --- accuracy loss --------------------------------------------------------------------------------


EXACT_SEED = 0
EXACT_INITS = 10


def exact_answer(rows: Floats, n_clusters: int) -> LloydResult:
    """Return the exact answer: K-means, the best of ten seeded initialisations."""
    return k_means(rows, n_clusters, seed=EXACT_SEED, n_init=EXACT_INITS)


def clustering_loss(rows: Floats, centroids: Floats, labels: Ints | None = None) -> float:
    """Return r(X, q); without labels each customer takes the nearest centroid."""
    taken = assign(rows, centroids) if labels is None else labels
    return float(np.square(rows - centroids[taken]).sum(axis=1).mean())


def accuracy_loss(
    rows: Floats, centroids: Floats, labels: Ints | None = None, *, exact: float
) -> float:
    """Return (r(private) - exact) / exact, for the loss ``exact`` of the exact answer."""
    if exact <= 0.0:
        raise InvalidDataError("more different customers than clusters", [])
    return (clustering_loss(rows, centroids, labels) - exact) / exact
