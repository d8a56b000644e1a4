"""The data and mechanisms that all figures of one run share, computed on first use.

The paper has 1,416 Californian customers, seven of them commercial, which are not public. Here are
1,409 simulated homes and seven simulated factories; or the London households of the data
folder; or the profiles of a file.
"""

import os
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv
from sklearn.neighbors import NearestNeighbors

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.lab.reproduce.paper_mechanism import ALPHA_KW, PaperMechanism, paper_mechanism
from wattveil.lab.seeded_draws import Generator, named_generator
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.simulate import simulate_kwh

# --- customers ------------------------------------------------------------------------------------


SIMULATED, LONDON = "simulated", "london"
MAX_CUSTOMERS = 2_000
"""Of a file; figures compare customers pair by pair, so larger files are sampled."""
N_NEIGHBOURS = 20
"""Of Yu et al., as the paper has it."""

_MIN_CUSTOMERS = 100
_ZONE = "Europe/London"
_HOMES = {"single": 0.24, "couple": 0.24, "family": 0.24, "retired": 0.15, "ev": 0.06, "pv": 0.07}
_N_HOMES, _N_HOMES_FAST, _N_BUSINESSES = 1409, 400, 7
_BUSINESS_SEED = 4
"""One of those that make clusters of two, as the paper's customers must have done: where every
factory is alone in its cluster, leaving it out moves nothing, and the sensitivity is small."""
_DAYS = 14
_LONDON_FILE = Path("lcl1014", "lcl1014_hourly_2013_wide.csv.gz")
_OUTLIERS = 7 / 1416
"""The paper's share of customers that it removes by inspection."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyCustomers:
    """Load profiles of one average day.

    Attributes
    ----------
    description
        Origin of the customers.
    outlier : (P,)
        Customers that the paper removes: businesses, or those farthest from their neighbours.
    private
        Whether the customers are real: then every figure is for internal use only.
    """

    description: str
    profiles: Profiles
    outlier: NDArray[np.bool_]
    private: bool

    @property
    def load_kw(self) -> Floats:
        """(P, d)."""
        return self.profiles.load_kw

    @property
    def homes_kw(self) -> Floats:
        """The same without outliers."""
        return self.load_kw[~self.outlier]


def customers_of(data: str, *, fast: bool, seed: int) -> StudyCustomers:
    """Return the customers that ``data`` names: simulated, london, or a file of profiles."""
    if data == SIMULATED:
        return _simulated(_N_HOMES_FAST if fast else _N_HOMES)
    if data == LONDON:
        return _with_farthest(_london(), "London households of 2013", seed)
    return _with_farthest(_one_day(Profiles.read_parquet(data)), f"customers of {data}", seed)


def farthest(load_kw: Floats, count: int) -> NDArray[np.bool_]:
    """Mark the ``count`` customers of largest mean distance to their nearest neighbours (Yu)."""
    neighbours = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(load_kw)
    distance = neighbours.kneighbors()[0].mean(axis=1)
    marked = np.zeros(len(load_kw), dtype=np.bool_)
    marked[np.argsort(-distance, kind="stable")[:count]] = True
    return marked


def _simulated(homes: int) -> StudyCustomers:
    load_kw = np.concatenate(
        [_days(homes, _HOMES, 1), _days(_N_BUSINESSES, {"industrial": 1.0}, _BUSINESS_SEED)]
    )
    return StudyCustomers(
        description=f"{homes:,} simulated homes and {_N_BUSINESSES} simulated factories",
        profiles=_profiles(tuple(f"S{row}" for row in range(len(load_kw))), load_kw),
        outlier=np.arange(len(load_kw)) >= homes,
        private=False,
    )


def _days(customers: int, mix: dict[str, float], seed: int) -> Floats:
    """Return the average day of simulated customers."""
    kwh = simulate_kwh(
        customers=customers,
        days=_DAYS,
        start=date(2025, 3, 3),
        timezone=_ZONE,
        minutes=60,
        mix=mix,
        seed=seed,
    )
    mean: Floats = kwh.reshape(customers, _DAYS, 24).mean(axis=1)
    return mean


def _london() -> Profiles:
    """Return the average day of each home of the Low Carbon London trial, over 2013."""
    folder = os.environ.get("WATTVEIL_DATA")
    if folder is None:
        rule = "another than 'london' unless WATTVEIL_DATA names the data folder"
        raise InvalidParameterError("data", rule, LONDON)
    path = Path(folder) / _LONDON_FILE
    text = {"meter_id": pa.string(), "date": pa.string()}
    try:
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=text))
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "the London households", str(error)) from error
    hours = [name for name in table.column_names if name not in text]
    means = table.group_by("meter_id").aggregate([(hour, "mean") for hour in hours])
    means = means.take(compute.sort_indices(means, sort_keys=[("meter_id", "ascending")]))
    load_kw = np.column_stack([means[f"{hour}_mean"].to_numpy() for hour in hours])
    return _profiles(tuple(means["meter_id"].to_pylist()), load_kw)


def _profiles(ids: tuple[str, ...], load_kw: Floats) -> Profiles:
    """Close the day: midnight to midnight, the paper's d = 25."""
    closed = np.concatenate([load_kw, load_kw[:, :1]], axis=1)
    return Profiles(
        customer_ids=ids, load_kw=closed, grid=TimeGrid(closing_midnight=True), timezone=_ZONE
    )


def _one_day(profiles: Profiles) -> Profiles:
    """Reject profiles that are not one average day, or that lie below -alpha."""
    if profiles.grid.split is not Split.DAY:
        rule = "profiles of one average day (`wattveil profiles --split day`)"
        raise InvalidParameterError("data", rule, profiles.grid.split.value)
    deep = np.flatnonzero((profiles.load_kw <= -ALPHA_KW).any(axis=1))
    if deep.size:
        names = [profiles.customer_ids[row] for row in deep]
        raise InvalidDataError(f"load above -{ALPHA_KW:g} kW, the paper's alpha", names)
    return profiles


def _with_farthest(profiles: Profiles, description: str, seed: int) -> StudyCustomers:
    """Keep at most `MAX_CUSTOMERS` customers, and mark the farthest."""
    if len(profiles) < _MIN_CUSTOMERS:
        raise InvalidDataError(f"at least {_MIN_CUSTOMERS} customers", [])
    kept = np.arange(len(profiles))
    if kept.size > MAX_CUSTOMERS:
        chosen = named_generator(seed, "customers").choice(kept, MAX_CUSTOMERS, replace=False)
        kept, description = (
            np.sort(chosen),
            f"{MAX_CUSTOMERS:,} of the {description}, sampled at random",
        )
    load_kw = profiles.load_kw[kept]
    return StudyCustomers(
        description=description,
        profiles=Profiles(
            customer_ids=tuple(profiles.customer_ids[row] for row in kept),
            load_kw=load_kw,
            grid=profiles.grid.without_days,
            timezone=profiles.timezone,
        ),
        outlier=farthest(load_kw, round(_OUTLIERS * kept.size)),
        private=True,
    )


# --- one run --------------------------------------------------------------------------------------


_MIXTURE_POINTS = 1000
_MIXTURE_MEANS = np.array(
    [[0.0, 0.0], [2.25, 0.5], [0.75, 2.25], [-1.75, 1.5], [-2.0, -1.25], [0.75, -2.0]]
)


class Study:
    """One run.

    Parameters
    ----------
    data
        Source of the load: simulated, london (with WATTVEIL_DATA), or a file of profiles.
    fast
        Fewer customers, repetitions and settings: the same figures, rougher.
    seed
        Of what is drawn for figures. Products of Wattveil that appear in them have no seed.
    """

    def __init__(self, *, data: str = SIMULATED, fast: bool = False, seed: int = 1) -> None:
        self.data = data
        self.fast = fast
        self.seed = checks.integer("seed", seed, minimum=0)

    def generator(self, name: str) -> Generator:
        """Return the seeded generator of that name."""
        return named_generator(self.seed, name)

    @cached_property
    def customers(self) -> StudyCustomers:
        """The customers of the AMI figures."""
        return customers_of(self.data, fast=self.fast, seed=self.seed)

    @cached_property
    def mixture(self) -> Floats:
        """The paper's synthetic set: 1,000 points of six round Gaussians in the plane.

        The paper does not state their means; here they overlap, or L would be empty.
        """
        source = self.generator("mixture")
        means = _MIXTURE_MEANS[source.integers(len(_MIXTURE_MEANS), size=_MIXTURE_POINTS)]
        return means + source.standard_normal(means.shape)

    @cached_property
    def mixture_mechanism(self) -> PaperMechanism:
        """White noise: in the plane, with round clusters, the paper needs no colour."""
        return paper_mechanism(self.mixture, noise="white")

    @cached_property
    def white(self) -> PaperMechanism:
        """White noise on the customers without outliers."""
        return paper_mechanism(self.customers.homes_kw, noise="white")

    @cached_property
    def coloured(self) -> PaperMechanism:
        """Coloured noise on the customers without outliers, by the certified optimum."""
        return paper_mechanism(self.customers.homes_kw, noise="coloured")
