"""Small series on disk: simulated customers over some quarters."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.bundle import series_bundle, series_contents
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.series_report import series_report
from wattveil.bundle.series_result import SeriesResult
from wattveil.privacy.accounting import discretisation_eta, noise_scale
from wattveil.privacy.guarantee import Spend
from wattveil.privacy.mechanisms.contributions import STEP, UNIT
from wattveil.profiles import Profiles, TimeGrid
from wattveil.release.load_series import LOAD, LoadPeriod
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
    load = _simulated(customers)
    here = [row for row in range(customers) if (row + place) % 10]
    return Profiles(
        customer_ids=tuple(f"household {row}" for row in here),
        load_kw=load[here] * (1.0 + 0.05 * place),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={
            "class": tuple("home" if row % 3 else "shop" for row in here),
            "car": tuple("yes" if row % 9 <= place else "no" for row in here),
        },
    )


@cache
def _simulated(customers: int) -> Floats:
    return np.array(simulate_load_kw(customers=customers))


def some_series(folder: Path, *periods: int, **changed: Any) -> LoadSeries:  # noqa: ANN401 - choices
    """Begin a series and release some of its periods."""
    series = LoadSeries.begin(folder / "series", **{**CHOICES, **changed})
    for place in periods:
        series.add(quarter(place), period=series.request.label(place))
    return series


def share_reports(patch: pytest.MonkeyPatch) -> None:
    """Draw the report of equal manifests and numbers once: a chain is verified again and again."""
    drawn: dict[bytes, str] = {}

    def shared(manifest: Mapping[str, Any], result: SeriesResult) -> str:
        key = pickle.dumps((json.dumps(manifest), result.request, result.released))
        if key not in drawn:
            drawn[key] = series_report(manifest, result)
        return drawn[key]

    for module in (series_bundle, series_contents):
        patch.setattr(module, "series_report", shared)


def with_further_draw(one: LoadPeriod) -> LoadPeriod:
    """State one unit for the load, and spend the rest of its charge on a draw of another name.

    The noise of the load is unchanged, so it costs as much as before.
    """
    spends = {spend.tag: spend for spend in one.spends}
    units = spends[LOAD].rho_units - 1
    spends[LOAD] = replace(spends[LOAD], rho_units=1)
    further = drawn_spend("further sums", rho_units=units, numbers=24)
    return replace(one, spends=(*spends.values(), further))


def drawn_spend(tag: str, *, rho_units: int, numbers: int) -> Spend:
    """Return the charge of a draw as the kernel would make it."""
    scale = noise_scale(squared_sensitivity=UNIT**2, rho_units=rho_units)
    eta = discretisation_eta(numbers=numbers, sigma=scale, s=UNIT / scale)
    drawn = {"numbers": numbers, "squared": UNIT**2, "scale": scale, "step": STEP}
    return Spend(tag=tag, mechanism="gaussian_cell_sums", rho_units=rho_units, eta=eta, drawn=drawn)


def without_eta(one: LoadPeriod) -> LoadPeriod:
    """State that drawing on a grid costs nothing."""
    return replace(one, spends=tuple(replace(spend, eta=0.0) for spend in one.spends))
