"""Filter, copy and solar attacks: what they recover and what they cannot recover is known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattveil import cli
from wattveil.cli.attack import _own_or_simulated
from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks.attack_page import write_solar_page
from wattveil.lab.attacks.filter_attack import filter_attack
from wattveil.lab.attacks.solar_attack import solar_attack
from wattveil.lab.attacks.synthetic_attacks import MemberSplit, copy_attack, demonstrated_releases
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw

HOMES = simulate_load_kw(customers=80)
WIDE = CliRunner(env={"COLUMNS": "250"})
FILTER_RUNS = 12
"""Coloured noise has hardly more than one direction: a single draw is below 0.3 of its own size in
one run of fifteen."""


def profiles(load_kw: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Profiles:
    """Return rows as profiles of homes with odd names."""
    return Profiles(
        customer_ids=tuple(f"[home] {row}" for row in range(len(load_kw))),
        load_kw=np.array(load_kw),
        grid=TimeGrid(),
        timezone="Europe/London",
    )


def with_panels() -> Profiles:
    """Return homes the fifth of which exports at noon."""
    load_kw = np.array(HOMES)
    load_kw[5, 10:15] = -2.0
    return profiles(load_kw)


# --- filter ---------------------------------------------------------------------------------------


def test_a_filter_takes_white_noise_away_and_coloured_noise_less() -> None:
    """At the same guarantee; the figures agree with the curves that were released."""
    runs = [
        filter_attack(profiles(HOMES), n_clusters=2, epsilon=1.0, delta=1e-6).found
        for _ in range(FILTER_RUNS)
    ]
    white, coloured = runs[0]["white"], runs[0]["coloured"]
    assert white.removed == pytest.approx(0.8, abs=0.01)  # lines through five slots: a mean of five
    assert coloured.removed < white.removed - 0.2
    assert coloured.noise_kw < 0.5 * white.noise_kw
    exact = filter_attack_exact()
    for colour, said in runs[0].items():
        noise = [run[colour].released_kw - exact for run in runs]
        assert 0.4 * said.noise_kw < np.sqrt(np.square(noise).mean()) < 2.5 * said.noise_kw


def filter_attack_exact() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the exact curve, which has no noise and no seed in it but that of the starts."""
    found = filter_attack(profiles(HOMES), n_clusters=2, epsilon=1e5, delta=1e-6)
    return found.exact_kw


# --- copies ---------------------------------------------------------------------------------------


def test_copies_are_found_and_private_customers_are_not() -> None:
    """Every member, reading and outlier of a release without names; none of the private one."""
    assignment = RandomAssignment(1)
    split = MemberSplit.of(HOMES, assignment)
    assert len(split.members) == len(split.holdout) == 40
    releases = demonstrated_releases(assignment, epsilon=1.0, delta=1e-6, n_clusters=2)
    raw, shuffled, private = (copy_attack(split, release) for release in releases.values())
    for share in (raw.maxima, raw.closest_is_member, raw.membership_auc, raw.outliers_found):
        assert share == 1.0
    assert raw.tpr_at_01_percent == raw.tpr_at_1_percent == 1.0
    assert (shuffled.copied, shuffled.maxima) == (raw.copied, 1.0)
    assert (private.copied, private.maxima, private.outliers_found) == (0.0, 0.0, 0.0)
    assert private.membership_auc == pytest.approx(0.5, abs=0.25)


def test_too_few_customers_to_split() -> None:
    """Half of them must be enough for a release."""
    with pytest.raises(InvalidParameterError, match="at least 40 customers"):
        MemberSplit.of(HOMES[:30], RandomAssignment(0))


# --- solar ----------------------------------------------------------------------------------------


def test_exact_averages_reveal_the_home_and_released_ones_do_not() -> None:
    """Exact averages to the last digits; released ones are off by far more than the home's load."""
    found = solar_attack(with_panels(), customer=None, epsilon=1.0, delta=1e-6, releases=4)
    assert found.customer == "[home] 5"
    assert found.error_kw < 1e-10
    assert np.flatnonzero(found.sunny).tolist() == [10, 11, 12, 13, 14]
    assert found.protected_kw.shape == found.control_kw.shape == (4, 24)
    assert np.abs(found.protected_kw - found.home_kw).mean() > 2.0


def test_releases_with_negligible_noise_reveal_the_home(tmp_path: Path) -> None:
    """The same attack on releases without a useful guarantee: it is the noise that protects."""
    rows = with_panels()
    found = solar_attack(rows, customer="[home] 5", epsilon=1e5, delta=1e-6, releases=8)
    assert found.export_rates == (1.0, 0.0)
    write_solar_page(found, rows.grid, tmp_path / "solar.html")
    assert "the attack succeeds in part at this epsilon" in (tmp_path / "solar.html").read_text()


@pytest.mark.parametrize(
    ("customer", "words"), [("nobody", "one of the profiles"), ("[home] 0", "a home that exports")]
)
def test_homes_that_cannot_be_found(customer: str, words: str) -> None:
    """Who is not there, and who has no panels."""
    with pytest.raises(InvalidParameterError, match=words):
        solar_attack(with_panels(), customer=customer, epsilon=1.0, delta=1e-6, releases=1)


def test_homes_without_panels_are_needed() -> None:
    """Where all homes export there is no group to compare with."""
    with pytest.raises(InvalidParameterError, match="never exports"):
        solar_attack(profiles(-HOMES), customer=None, epsilon=1.0, delta=1e-6, releases=1)


def test_the_demo_has_one_home_with_panels() -> None:
    """The last of 300, the only one that exports much."""
    rows = _own_or_simulated(None)
    assert len(rows) == 300
    assert rows.customer_ids[int(np.argmin(rows.load_kw.min(axis=1)))] == "home with panels"


# --- the commands --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["filter"], ("white", "coloured", "of the power")),
        (["copy", "--clusters", "2"], ("names removed", "global tier", "planted outliers")),
        (["solar", "--releases", "2"], ("[home] 5", "two exact averages", "indicate export")),
    ],
)
def test_a_command_prints_and_draws(
    options: list[str], words: tuple[str, ...], tmp_path: Path
) -> None:
    """On own profiles: a table, one JSON object, and a page marked as private."""
    file, page = tmp_path / "profiles.parquet", tmp_path / "page.html"
    with_panels().write_parquet(file)
    command = ["attack", options[0], str(file), *options[1:]]
    result = WIDE.invoke(cli.app, [*command, "--report", str(page)])
    assert result.exit_code == 0, result.output
    for word in (*words, "Private"):
        assert word in result.output
    assert "INTERNAL: exact figures" in page.read_text()
    as_json = WIDE.invoke(cli.app, [*command, "--json"])
    assert json.loads(as_json.stdout)["private"] is True


def test_own_synthetic_customers(tmp_path: Path) -> None:
    """Copies in a file are counted; what needs a hold-out is left out."""
    real, made = tmp_path / "real.parquet", tmp_path / "made.parquet"
    profiles(HOMES).write_parquet(real)
    profiles(HOMES[::-1]).write_parquet(made)
    command = [
        "attack",
        "copy",
        str(real),
        "--synthetic",
        str(made),
        "--report",
        str(made) + ".html",
    ]
    found = json.loads(WIDE.invoke(cli.app, [*command, "--json"]).stdout)["releases"]["synthetic"]
    assert (found["maxima"], found["membership_auc"]) == (1.0, None)
    assert found["copied"] > 0.99  # nought is no copy
    shown = WIDE.invoke(cli.app, command).output
    assert "100.0 %" in shown
    assert "outliers" not in shown


def test_synthetic_customers_of_another_grid_are_refused(tmp_path: Path) -> None:
    """As many columns, but other hours: nothing would match, and it would look safe."""
    real, made = tmp_path / "real.parquet", tmp_path / "made.parquet"
    profiles(HOMES).write_parquet(real)
    replace(profiles(HOMES), timezone="Asia/Tokyo").write_parquet(made)
    result = WIDE.invoke(cli.app, ["attack", "copy", str(real), "--synthetic", str(made)])
    assert result.exit_code == 2
    assert "synthetic must be in Europe/London" in result.output


def test_a_wrong_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    """Nothing is computed for a page that cannot be written."""
    page = str(tmp_path / "nowhere" / "page.html")
    result = WIDE.invoke(cli.app, ["attack", "filter", "--report", page])
    assert result.exit_code == 2
    assert "page" in result.output
