"""Whose load the figures of the paper's AMI data set show.

The paper has 1,416 Californian customers, seven of them commercial, which nobody else has. Here
there are 1,409 simulated homes and seven simulated factories; or the London households of the data
folder; or the profiles of a file.
"""

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv
from sklearn.neighbors import NearestNeighbors

from wattveil.clustering.geometry import Floats
from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.profiles import Grid, Profiles, Split
from wattveil.reproduce.draws import lots
from wattveil.simulate import simulate_kwh

SIMULATED, LONDON = "simulated", "london"
MOST_CUSTOMERS = 2_000
"""Of a file; figures compare customers pair by pair, so others are left out by lot."""
ALPHA_KW = 15.0
"""The paper's alpha, which keeps log(x + alpha) defined where customers export."""
N_NEIGHBOURS = 20
"""Of Yu et al., as the paper has it."""

_FEWEST_CUSTOMERS = 100
_ZONE = "Europe/London"
_HOMES = {"single": 0.24, "couple": 0.24, "family": 0.24, "retired": 0.15, "ev": 0.06, "pv": 0.07}
_N_HOMES, _N_HOMES_FAST, _N_BUSINESSES = 1409, 400, 7
_BUSINESS_SEED = 4
"""One of those that make clusters of two, as the paper's customers must have done: where every
factory is alone in its cluster, leaving it out moves nothing, and the sensitivity is small."""
_DAYS = 14
_LONDON_FILE = Path("lcl1014", "lcl1014_hourly_2013_wide.csv.gz")
_OUTLIERS = 7 / 1416
"""The paper's share of customers that it removes by looking."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Customers:
    """Load profiles of one average day.

    Attributes
    ----------
    words : str
        Who they are.
    outlier : (P,)
        Whom the paper would have removed: businesses, or those farthest from their neighbours.
    private : bool
        Whether these are people: then every figure stays in house.
    """

    words: str
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


def customers_of(data: str, *, fast: bool, seed: int) -> Customers:
    """Return the customers that ``data`` names: simulated, london, or a file of profiles."""
    if data == SIMULATED:
        return _simulated(_N_HOMES_FAST if fast else _N_HOMES)
    if data == LONDON:
        return _with_farthest(_london(), "London households of 2013", seed)
    return _with_farthest(_one_day(Profiles.read_parquet(data)), f"customers of {data}", seed)


def farthest(load_kw: Floats, count: int) -> NDArray[np.bool_]:
    """Mark so many customers whose mean distance to their nearest neighbours is largest (Yu)."""
    neighbours = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(load_kw)
    distance = neighbours.kneighbors()[0].mean(axis=1)
    marked = np.zeros(len(load_kw), dtype=np.bool_)
    marked[np.argsort(-distance, kind="stable")[:count]] = True
    return marked


def _simulated(homes: int) -> Customers:
    load_kw = np.concatenate(
        [_days(homes, _HOMES, 1), _days(_N_BUSINESSES, {"industrial": 1.0}, _BUSINESS_SEED)]
    )
    return Customers(
        words=f"{homes:,} simulated homes and {_N_BUSINESSES} simulated factories",
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
        customer_ids=ids, load_kw=closed, grid=Grid(closing_midnight=True), timezone=_ZONE
    )


def _one_day(profiles: Profiles) -> Profiles:
    """Refuse profiles that the paper's figures cannot show."""
    if profiles.grid.split is not Split.DAY:
        rule = "profiles of one average day (`wattveil profiles --split day`)"
        raise InvalidParameterError("data", rule, profiles.grid.split.value)
    deep = np.flatnonzero((profiles.load_kw <= -ALPHA_KW).any(axis=1))
    if deep.size:
        names = [profiles.customer_ids[row] for row in deep]
        raise InvalidDataError(f"load above -{ALPHA_KW:g} kW, the paper's alpha", names)
    return profiles


def _with_farthest(profiles: Profiles, words: str, seed: int) -> Customers:
    """Keep at most so many customers, and mark the farthest."""
    if len(profiles) < _FEWEST_CUSTOMERS:
        raise InvalidDataError(f"at least {_FEWEST_CUSTOMERS} customers", [])
    kept = np.arange(len(profiles))
    if kept.size > MOST_CUSTOMERS:
        chosen = lots(seed, "customers").choice(kept, MOST_CUSTOMERS, replace=False)
        kept, words = np.sort(chosen), f"{MOST_CUSTOMERS:,} of the {words}, by lot"
    load_kw = profiles.load_kw[kept]
    return Customers(
        words=words,
        profiles=Profiles(
            customer_ids=tuple(profiles.customer_ids[row] for row in kept),
            load_kw=load_kw,
            grid=profiles.grid,
            timezone=profiles.timezone,
        ),
        outlier=farthest(load_kw, round(_OUTLIERS * kept.size)),
        private=True,
    )
