"""The planner's summary of an evaluation: signed differences, verdicts, very large customers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil.arrays import Floats
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.grid.planning_summary import Equivalence
from wattveil.lab.evaluation.customer_samples import (
    Populations,
    SampleLayout,
    read_populations,
    usual_populations,
)
from wattveil.lab.evaluation.load_summary import load_summary, more_customers
from wattveil.profiles import Profiles

LAYOUT = SampleLayout(slots_per_day=24)
YEAR = SampleLayout(slots_per_day=24, days=30, series=True)


def homes(count: int, seed: int, days: int = 1) -> Floats:
    """Return homes of random sizes with an evening peak."""
    generator = np.random.default_rng(seed)
    curve = np.tile(0.4 + np.exp(-0.1 * (np.arange(24) - 19.0) ** 2), days)
    size = np.exp(0.3 * generator.normal(size=(count, 1)))
    return np.asarray(size * curve * np.exp(0.1 * generator.normal(size=(count, curve.size))))


def test_values_by_hand() -> None:
    """The coincident peak, energy and load factor of all customers, and 95 % of own peaks."""
    real, other = homes(80, 1, days=30), 1.1 * homes(80, 1, days=30)
    rows = {row.quantity: row for row in load_summary(real, other, YEAR, margin=0.05)}
    assert rows["coincident peak"].real == pytest.approx(real.mean(axis=0).max())
    assert rows["energy per day"].synthetic == pytest.approx(24.0 * other.mean())
    assert rows["95th percentile of peaks of single homes"].real == pytest.approx(
        np.quantile(real.max(axis=1), 0.95)
    )
    factor = real.mean() / real.mean(axis=0).max()
    assert rows["load factor of all homes together"].real == pytest.approx(factor)
    for name in ("coincident peak", "energy per day", "95th percentile of peaks of single homes"):
        assert rows[name].difference == pytest.approx(0.1)
    assert rows["ADMD of 64 homes"].difference == pytest.approx(0.1, abs=0.03)
    assert rows["load factor of all homes together"].equivalence is Equivalence.EQUIVALENT
    assert "95th percentile of peaks of single homes" not in {
        row.quantity for row in load_summary(real[:, :24], other[:, :24], LAYOUT, margin=0.05)
    }


def test_verdicts_follow_the_difference() -> None:
    """Twice as large is different, the same is equivalent at a wide margin and not at a narrow."""
    real = homes(400, 2)
    for factor, margin, verdict in (
        (2.0, 0.1, Equivalence.DIFFERENT),
        (1.0, 0.2, Equivalence.EQUIVALENT),
        (1.0, 0.01, Equivalence.INCONCLUSIVE),
    ):
        rows = load_summary(real, factor * homes(400, 3), LAYOUT, margin=margin)
        assert rows[0].equivalence is verdict


def test_the_interval_covers_the_sampling_of_customers() -> None:
    """Of 60 pairs from one population, the interval contains no difference in all but a few."""
    held = [
        row.low <= 0.0 <= row.high
        for seed in range(60)
        for row in load_summary(homes(60, 100 + seed), homes(60, 900 + seed), LAYOUT, margin=0.1)
        if row.quantity in {"coincident peak", "energy per day"}
    ]
    assert 0.88 <= np.mean(held) <= 0.99  # 0.95, standard error 0.03: pairs of rows are alike


def test_groups_do_not_widen_the_interval() -> None:
    """Groups of 64 are many: their mean peak is as precise as the peak of all homes."""
    rows = load_summary(homes(3000, 2), homes(3000, 3), LAYOUT, margin=0.1)
    reach = {row.quantity: row.high - row.low for row in rows}
    assert reach["average-day ADMD of 64 homes"] < 1.5 * reach["coincident peak"]


def test_more_synthetic_customers_are_advised() -> None:
    """Where a verdict is inconclusive and there are fewer than five for each real customer."""
    rows = load_summary(homes(60, 2), homes(60, 3), LAYOUT, margin=0.01)
    assert rows[0].equivalence is Equivalence.INCONCLUSIVE
    assert "(300 instead of 299)" in more_customers(rows, 60, 299)
    assert not more_customers(rows, 60, 300)
    clear = [row for row in rows if row.equivalence is not Equivalence.INCONCLUSIVE]
    assert not more_customers(clear, 60, 60)


def test_exporters_have_no_relative_difference() -> None:
    """Where a value is not above 0, nothing is claimed."""
    rows = load_summary(-homes(50, 1), homes(50, 2), LAYOUT, margin=0.1)
    assert np.isnan(rows[0].low)
    assert rows[0].equivalence is Equivalence.INCONCLUSIVE


@pytest.mark.parametrize("margin", [0.0, 1.5, float("nan")])
def test_a_margin_that_decides_nothing_is_refused(margin: float) -> None:
    """It must be above 0 and at most 1."""
    with pytest.raises(InvalidParameterError, match="margin"):
        load_summary(homes(50, 1), homes(50, 2), LAYOUT, margin=margin)


def test_very_large_customers_are_set_aside() -> None:
    """A factory among homes is counted and not compared; empty populations stay."""
    real = homes(100, 1)
    real[0] = 400.0
    both = usual_populations(Populations(real_kw=real, synthetic_kw=homes(90, 2), layout=LAYOUT))
    assert (len(both.real_kw), len(both.synthetic_kw)) == (99, 90)
    assert both.set_aside[:2] == (1, 0)
    empty = Populations(real_kw=real, synthetic_kw=real[:0], layout=LAYOUT)
    assert usual_populations(empty) is empty


def test_fewer_synthetic_customers_are_warned_of() -> None:
    """The coincident peak of fewer homes is higher by chance: 50 of one population against 800."""
    few, many = homes(50, 1), homes(800, 2)
    assert "fewer synthetic (50) than real" in (
        Populations(real_kw=many, synthetic_kw=few, layout=LAYOUT).warning
    )
    for synthetic in (many, homes(801, 3)):
        assert not Populations(real_kw=many, synthetic_kw=synthetic, layout=LAYOUT).warning


def test_exclusions_and_warnings_are_on_the_page(
    tmp_path: Path,
    homes_kw: Floats,
    named_profiles: Callable[..., Profiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on the terminal: customers with gaps, fewer synthetic customers, and in JSON."""
    paths = [str(tmp_path / name) for name in ("real.parquet", "made.parquet")]
    named_profiles(homes_kw[:120]).write_parquet(paths[0])
    named_profiles(homes_kw[120:200]).write_parquet(paths[1])

    def with_gaps(*files: Path, timezone: str | None) -> Populations:
        return replace(read_populations(*files, timezone=timezone), left_out=(25, 0))

    monkeypatch.setattr("wattveil.cli.evaluate.read_populations", with_gaps)
    page = tmp_path / "page.html"
    command = ["evaluate", *paths]
    shown = CliRunner().invoke(app, [*command, "--report", str(page)], env={"COLUMNS": "150"})
    assert shown.exit_code == 0, shown.output
    for text in (" ".join(shown.output.split()), page.read_text()):
        assert "25 real customers have gaps and are excluded." in text
        assert "synthetic customers have gaps" not in text
        assert "there are fewer synthetic (80) than real customers (120)" in text
    said = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert len(said["warnings"]) == 1


def test_the_command_shows_the_summary_first(
    tmp_path: Path, homes_kw: Floats, named_profiles: Callable[..., Profiles]
) -> None:
    """With the margin and what was set aside, on the terminal, on the page and in JSON."""
    paths = [str(tmp_path / name) for name in ("real.parquet", "made.parquet")]
    with_factory = np.array(homes_kw[:120])
    with_factory[0] = 500.0
    named_profiles(with_factory).write_parquet(paths[0])
    named_profiles(2.0 * homes_kw[120:240]).write_parquet(paths[1])
    page = tmp_path / "page.html"
    command = ["evaluate", *paths, "--margin", "0.1"]
    shown = CliRunner().invoke(app, [*command, "--report", str(page)], env={"COLUMNS": "150"})
    assert shown.exit_code == 0, shown.output
    first, _, metrics = shown.output.partition("All metrics")
    for words in ("Set aside: 1 real", "Margin ±10 %", "coincident peak", "different"):
        assert words in first
    assert "F1 W1 of a slot" in metrics
    for words in ("Summary for planners", "Set aside: 1 real", "ADMD of 64 homes"):
        assert words in page.read_text()
    said = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert said["set_aside"]["real"] == 1
    assert said["summary"][0]["equivalence"] == "different"
    assert said["margin"] == 0.1
