"""The customers that a demonstration attacks: the user's own, or simulated ones."""

from datetime import date
from pathlib import Path

import numpy as np

from wattveil.profiles import Grid, Profiles
from wattveil.simulate import LONDON_MIX, simulate_kwh

_CUSTOMERS, _DAYS, _MINUTES = 300, 14, 15
_FIRST_DAY, _ZONE = date(2025, 5, 5), "Europe/London"
_SOLAR = "home with panels"


def attacked(profiles: Path | None) -> Profiles:
    """Read the profiles; without any, simulate 300 homes, the last with solar panels."""
    if profiles is not None:
        return Profiles.read_parquet(profiles)
    mixes = (LONDON_MIX, _CUSTOMERS - 1), ({"pv": 1.0}, 1)
    kwh = np.vstack(
        [
            simulate_kwh(
                customers=customers,
                days=_DAYS,
                start=_FIRST_DAY,
                timezone=_ZONE,
                minutes=_MINUTES,
                mix=mix,
                seed=1,
            )
            for mix, customers in mixes
        ]
    )
    mean_kwh = kwh.reshape(_CUSTOMERS, _DAYS, -1).mean(axis=1)
    names = (f"home {number}" for number in range(1, _CUSTOMERS))
    return Profiles(
        customer_ids=(*names, _SOLAR),
        load_kw=mean_kwh * (60.0 / _MINUTES),
        grid=Grid(minutes=_MINUTES),
        timezone=_ZONE,
    )
