"""Small series on disk: simulated customers over some quarters."""

from pathlib import Path
from typing import Any

import numpy as np

from wattveil.bundle.published_series import LoadSeries
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw

CHOICES: dict[str, Any] = {
    "epsilon": 4.0,
    "delta": 1e-6,
    "periods": 9,
    "first": "2026-Q1",
    "timezone": "Europe/London",
    "by": "class",
    "levels": ("home", "shop"),
    "counts": ("car=yes",),
}


def quarter(place: int, *, customers: int = 150) -> Profiles:
    """Return the customers of a quarter: one in ten is absent, load grows."""
    load = simulate_load_kw(customers=customers)
    here = [row for row in range(customers) if (row + place) % 10]
    return Profiles(
        customer_ids=tuple(f"household {row}" for row in here),
        load_kw=np.array(load)[here] * (1.0 + 0.05 * place),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={
            "class": tuple("home" if row % 3 else "shop" for row in here),
            "car": tuple("yes" if row % 9 <= place else "no" for row in here),
        },
    )


def some_series(folder: Path, *periods: int, **changed: Any) -> LoadSeries:  # noqa: ANN401 - choices
    """Begin a series and release some of its periods."""
    series = LoadSeries.begin(folder / "series", **{**CHOICES, **changed})
    for place in periods:
        series.add(quarter(place), period=series.request.label(place))
    return series
