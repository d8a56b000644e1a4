"""The calibration of bands runs: it measures releases without the factors that it fits."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from wattveil.simulate import simulate_load_kw

REPOSITORY = Path(__file__).parents[2]


def test_records_of_a_release_are_without_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each z is one of the release's own noise, and the factor in force is beside it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    fit_bands = importlib.import_module("fit_bands")
    rows = np.array(simulate_load_kw(customers=100, seed=1))
    records = fit_bands._clusters(rows, "kw", 1.0, 0, {"family": "simulated"})
    assert 1 <= len(records) <= 6
    for one in records:
        assert one["z"].shape == (24,)
        assert np.isfinite(one["z"]).all()
        assert one["factor"] > 0.0
