"""Data sets, reference clusterings and runs for the benchmark of the global tier."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import measured_homes as measured
import numpy as np
from populations import normalised, one_kind, random_kinds, resampled, six_kinds
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import clustering_loss
from wattveil.release.kmeans import PrivateKMeans

DELTA = 1e-6
SEED = 101
FRESH_SEED = 9001  # random clusters, unseen while constants were chosen
MILLION = 1_000_000
BALLS = ("ball", "evening ball", "night ball", "panel ball", "flat ball", "business ball")


@dataclass(frozen=True)
class Case:
    """A data set, by name and number of customers."""

    name: str
    n_customers: int
    make: Callable[[], Floats]
    is_shape: bool = False
    is_fresh: bool = False
    """Whether constants were chosen without it, except for two stages and the coarse steps."""

    @property
    def label(self) -> str:
        """Name, number of customers, and a star if it is fresh."""
        return f"{self.name}{' *' if self.is_fresh else ''} | {self.n_customers:,}"

    def rows(self) -> Floats:
        """Return the customers, or raise FileNotFoundError.

        Customers without load have no shape and are excluded, as in a release.
        """
        rows = self.make()
        return normalised(rows[rows.any(axis=1)]) if self.is_shape else rows


def simulated_case(name: str, n_customers: int, *, n_slots: int = 24) -> Case:
    """Return a simulated case: res, shape, mix, gp or a ball, the last two also as shapes."""
    kind = name.removesuffix(" shape")
    makers: dict[str, Callable[[], Floats]] = {
        "res": lambda: six_kinds(n_customers, SEED),
        "shape": lambda: six_kinds(n_customers, SEED),
        "mix": lambda: six_kinds(n_customers, SEED, mixed=True),
        "gp": lambda: random_kinds(n_customers, FRESH_SEED),
        **{ball: partial(one_kind, n_customers, SEED, kind=i) for i, ball in enumerate(BALLS)},
    }
    make = makers[kind]
    if n_slots != measured.N_HOURS:
        hourly = make
        make = lambda: resampled(hourly(), n_slots)  # noqa: E731 - one line each
    return Case(name, n_customers, make, is_shape=name.endswith("shape"), is_fresh=kind == "gp")


def part_of(case: Case, n_customers: int) -> Case:
    """Return some customers of a case, always the same."""

    def make() -> Floats:
        rows = case.make()
        return rows[np.random.default_rng(0).permutation(len(rows))[:n_customers]]

    return Case(case.name, n_customers, make, case.is_shape, case.is_fresh)


MEASURED = {
    "lcl raw": Case("lcl raw", 1_014, measured.london_homes),
    "lcl shape": Case("lcl shape", 1_014, measured.london_homes, is_shape=True),
    "pv raw": Case("pv raw", 4_200, measured.london_panels),
    "pv shape": Case("pv shape", 4_200, measured.london_panels, is_shape=True),
    "lcl month raw": Case("lcl month raw", 11_627, measured.london_months),
    "lcl month shape": Case("lcl month shape", 11_627, measured.london_months, is_shape=True),
    "lcl day raw": Case("lcl day raw", 100_000, measured.london_days),
    "lcl day shape": Case("lcl day shape", 100_000, measured.london_days, is_shape=True),
    "uci shape": Case("uci shape", 203, measured.portugal_clients, is_shape=True, is_fresh=True),
    "city raw": Case("city raw", 901, measured.city_weeks, is_fresh=True),
    "city shape": Case("city shape", 901, measured.city_weeks, is_shape=True, is_fresh=True),
}

ACCURACY = [
    *(simulated_case(name, 1_409) for name in ("res", "shape", "mix")),
    *(MEASURED[name] for name in ("lcl raw", "lcl shape", "pv raw", "pv shape")),
    *(simulated_case(name, 10_000) for name in ("res", "shape", "mix")),
    *(MEASURED[name] for name in ("lcl month raw", "lcl month shape")),
    *(MEASURED[name] for name in ("uci shape", "city raw", "city shape")),
    *(simulated_case(name, n) for n in (1_409, 10_000) for name in ("gp", "gp shape")),
    *(simulated_case(name, 100_000) for name in ("res", "shape", "mix")),
    *(MEASURED[name] for name in ("lcl day raw", "lcl day shape")),
]


@cache
def rows_of(case: Case) -> Floats | None:
    """Return the customers of a case; if they are absent, print the reason and return None."""
    try:
        return case.rows()
    except FileNotFoundError as absent:
        say(f"skipped {case.name}: {absent}; set WATTVEIL_DATA")
        return None


@cache
def reference(case: Case, n_clusters: int) -> float:
    """Return the loss of scikit-learn's best of ten starts (of three, for a million rows)."""
    rows = rows_of(case)
    assert rows is not None
    starts = 3 if len(rows) >= MILLION else 10
    with threadpool_limits(limits=1):  # on a busy machine threads wait for each other
        return float(KMeans(n_clusters, n_init=starts, random_state=0).fit(rows).inertia_) / len(
            rows
        )


def fitted(case: Case, epsilon: float, n_clusters: int, **known: Any) -> PrivateKMeans:  # noqa: ANN401
    """Return one release, with the public facts of the case."""
    model = PrivateKMeans(
        n_clusters=n_clusters, epsilon=epsilon, delta=DELTA, normalise=case.is_shape, **known
    )
    return model.fit(rows_of(case))


def accuracy_loss(case: Case, centroids: Floats, n_clusters: int) -> float:
    """Return (r(released) - r(reference)) / r(reference)."""
    rows = rows_of(case)
    assert rows is not None
    return clustering_loss(rows, centroids) / reference(case, n_clusters) - 1.0


def our_losses(
    case: Case,
    epsilon: float,
    *,
    runs: int,
    n_clusters: int = 6,
    **known: Any,  # noqa: ANN401
) -> list[float]:
    """Return the loss of each of some releases."""
    fits = (fitted(case, epsilon, n_clusters, **known) for _ in range(runs))
    return [accuracy_loss(case, fit.cluster_centers_, n_clusters) for fit in fits]


def median_error(losses: list[float]) -> float:
    """Return the standard error of the median, by resampling."""
    drawn = np.random.default_rng(0).choice(losses, (400, len(losses)))
    return float(np.median(drawn, axis=1).std())


def say(text: str = "") -> None:
    """Print without buffering, so that a long run shows its progress."""
    print(text, flush=True)  # noqa: T201
