"""What a baseline is given and what it gives back."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from wattveil import checks
from wattveil.baselines.noise import Ask
from wattveil.clustering.transforms import clip_rms
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FAVOURED_RANGE = (0.005, 0.995)
_FAVOURED_LENGTH = 0.99


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicChoices:
    """What everybody may know: the number of clusters and the bounds of the load.

    Parameters
    ----------
    n_clusters : int
        K.
    low_kw, high_kw : (d,)
        Load outside of them is clipped, slot by slot, by those that need a box.
    clip_kw : float
        Largest root-mean-square load; a customer beyond it is scaled back by those that need a
        ball.
    typical_kw : float
        Usual root-mean-square load, for those that start from a guess.
    """

    n_clusters: int
    low_kw: Floats
    high_kw: Floats
    clip_kw: float
    typical_kw: float

    def __post_init__(self) -> None:
        """Refuse bounds that hold nothing."""
        checks.integer("n_clusters", self.n_clusters, least=2)
        for field in ("low_kw", "high_kw"):
            bound = checks.numbers(field, getattr(self, field))
            if bound.ndim != 1 or not np.isfinite(bound).all():
                raise InvalidParameterError(field, "one finite number a slot", bound)
            object.__setattr__(self, field, bound)
        if self.low_kw.shape != self.high_kw.shape or not (self.low_kw < self.high_kw).all():
            raise InvalidParameterError("low_kw", "below high_kw in every slot", self.low_kw)
        checks.positive("clip_kw", self.clip_kw)
        checks.positive("typical_kw", self.typical_kw)

    @classmethod
    def taken_from(cls, load_kw: ArrayLike, n_clusters: int) -> Self:
        """Return bounds that fit the data: a favour that no honest release could do itself.

        The middle 99 % of the load of each slot, 99 % of the lengths, the mean length.
        """
        rows = finite_rows(load_kw)
        low, high = np.quantile(rows, _FAVOURED_RANGE, axis=0)
        rms = np.sqrt(np.square(rows).mean(axis=1))
        return cls(
            n_clusters=n_clusters,
            low_kw=low,
            high_kw=np.maximum(high, low + 1e-9),
            clip_kw=max(float(np.quantile(rms, _FAVOURED_LENGTH)), 1e-9),
            typical_kw=max(float(rms.mean()), 1e-9),
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
        """Scale long rows back; the ball of radius `radius` becomes that of radius 1."""
        return clip_rms(rows, self.clip_kw) / self.radius


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a baseline released, and what that is worth.

    Attributes
    ----------
    centroids_kw : (K, d)
        Released.
    labels : (P,) or None
        Released; None from a mechanism that releases none.
    claimed : Guarantee
        What its authors say, at the epsilon and delta asked for.
    true : Guarantee or None
        What the centroids really have, by the noise that was drawn, in exact arithmetic and for
        public choices that are public; None if no epsilon and delta below 1 hold.
    doubts : tuple of str
        What does not hold, or was assumed because the source does not say.
    asks : tuple of Ask
        What each noisy step was asked to spend.
    true_with_labels : Guarantee or None
        What centroids and labels really have together; None without labels or guarantee.
    """

    centroids_kw: Floats
    labels: Ints | None = None
    claimed: Guarantee
    true: Guarantee | None
    doubts: tuple[str, ...]
    asks: tuple[Ask, ...] = ()
    true_with_labels: Guarantee | None = None


class Fit(Protocol):
    """The one interface of all baselines."""

    def __call__(
        self,
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> Outcome:
        """Cluster the rows of ``load_kw``, one a customer."""
        ...


def checked(load_kw: ArrayLike, *, epsilon: float, delta: float, public: PublicChoices) -> Floats:
    """Return the rows, or say what is wrong with what a baseline was given."""
    checks.positive_epsilon("epsilon", epsilon)
    checks.probability("delta", delta)
    rows = finite_rows(load_kw)
    if rows.shape[1] != public.n_slots:
        raise InvalidParameterError("load_kw", f"of {public.n_slots} columns", rows.shape[1])
    if len(rows) < public.n_clusters:
        raise InvalidParameterError(
            "n_clusters", "at most the number of customers", public.n_clusters
        )
    return rows


def finite_rows(load_kw: ArrayLike) -> Floats:
    """Return a matrix of finite numbers with a row at least."""
    rows = checks.numbers("load_kw", load_kw)
    checks.columns("load_kw", rows)
    if not len(rows):
        raise InvalidDataError("load_kw has a customer at least", [])
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise InvalidDataError("finite load", bad.tolist())
    return rows


def promise(
    epsilon: float, delta: float = 0.0, *, neighbours: Neighbours = Neighbours.ZERO_OUT
) -> Guarantee:
    """Return a promise about every data set, whose list of customers is public."""
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=neighbours,
        unit=Unit.CUSTOMER,
    )
