"""The command `audit --replay`: output and exit code; and what a replay compares."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.sample_bundles import EVERYTHING, product_names, some_profiles
from wattveil import cli
from wattveil.bundle.produce import release_products
from wattveil.lab.audit.replay_audit import (
    WHOLE,
    Neighbour,
    hostile_rows,
    replay_audit,
    rows_without_data,
)
from wattveil.privacy.guarantee import Guarantee, Spend
from wattveil.privacy.mechanisms import contributions
from wattveil.release.group_load import load_shapes
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.release.randomised_labels import release_labels
from wattveil.simulate import simulate_load_kw

WIDE = CliRunner(env={"COLUMNS": "250"})
REPLAY = ["audit", "--replay", "--clusters", "2", "--epsilon", "4"]
CENTROIDS = np.array([[0.2] * 24, [2.0] * 24])


def test_every_part_of_own_profiles_is_replayed(tmp_path: Path) -> None:
    """Groups and labels: one line per part, marked private; no customer is named.

    Ids that a release would not publish are no obstacle: an audit publishes none.
    """
    file = tmp_path / "profiles.parquet"
    profiles = some_profiles(40)
    ids = tuple(f"=CUSTOMER-{number}" for number in range(40))
    replace(profiles, customer_ids=ids).write_parquet(file)
    options = ["--by", "class", "--levels", "home,shop", "--clip-kw", "5", "--label-epsilon", "2"]
    result = WIDE.invoke(cli.app, [*REPLAY, str(file), *options, "--removals", "3", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["private"], found["holds"], found["faults"]) == (True, True, [])
    assert found["replays"] == 13
    assert [part["part"] for part in found["parts"]] == product_names(EVERYTHING)
    assert all(part["worst_ratio"] <= 1.0 for part in found["parts"])
    # The cheapest channel of the labels may cost less than their epsilon, down to nothing.
    assert all(part["worst_ratio"] > 0.99 for part in found["parts"] if part["part"] != "labels")
    assert {part["verdict"] for part in found["parts"]} == {"within the bound"}
    assert "CUSTOMER" not in result.stdout


def test_simulated_homes_are_replayed() -> None:
    """Without profiles; the table says what it does not audit."""
    result = WIDE.invoke(cli.app, [*REPLAY, "--removals", "0"])
    assert result.exit_code == 0, result.output
    for words in ("10 replays", "--seed 0", "within the bound", "sampler", "Private"):
        assert words in result.output


def test_a_seed_repeats_the_audit() -> None:
    """To the last digit, so that a failed audit can be repeated; another seed is another run."""
    options = ["--label-epsilon", "2", "--removals", "0", "--json"]
    runs = [
        WIDE.invoke(cli.app, [*REPLAY, *options, "--seed", seed]).stdout for seed in ("5", "5", "6")
    ]
    found = [json.loads(run) for run in runs]
    assert runs[0] == runs[1]
    assert [one["seed"] for one in found] == [5, 5, 6]
    assert found[0]["parts"] != found[2]["parts"]
    assert found[0]["holds"]


def test_forgotten_clipping_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratio above 1 is reported, and the exit code is 1."""

    def unclipped(features: Any, cells: Any, totals: Any) -> bool:  # noqa: ANN401 - arrays
        np.add.at(totals, cells, np.clip(features * 2.0**25, -(2.0**50), 2.0**50).astype(int))
        return True

    monkeypatch.setattr(contributions, "_add_clipped", unclipped)
    result = WIDE.invoke(cli.app, [*REPLAY, "--removals", "0"])
    assert result.exit_code == 1
    assert "sensitivity exceeded" in result.output


def test_leaks_end_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact number in a table is a fault; of many, a few are printed."""

    def leaking(profiles: Any, *plan: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        parts = release_products(profiles, *plan, **options)
        exact = json.dumps(float(profiles.load_kw.sum()))
        return tuple(replace(part, documents={"sum": exact}) for part in parts)

    monkeypatch.setattr("wattveil.lab.audit.replay_audit.release_products", leaking)
    result = WIDE.invoke(cli.app, [*REPLAY, "--removals", "0"])
    assert result.exit_code == 1
    for words in (
        "exact value released",
        "clusters.documents.sum is not the same",
        "faults in all",
    ):
        assert words in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tier", "instance"], "not differential privacy"),
        (["--report", "page.html"], "omitted with --replay"),
        (["--removals", "-1"], "a whole number of at least 0"),
        (["--seed", "-1"], "a whole number of at least 0"),
    ],
)
def test_bad_options_are_explained(options: list[str], words: str) -> None:
    """Field, rule and value, without a traceback."""
    result = WIDE.invoke(cli.app, [*REPLAY, *options])
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def shapes(load_kw: Any) -> object:  # noqa: ANN401 - an array
    """Release the mean load."""
    return load_shapes(load_kw, epsilon=1.0, delta=1e-6)


def test_hostile_rows_without_other_customers() -> None:
    """Ten rows, all finite, also where there is no other customer; rows without data are not."""
    rows = hostile_rows(np.zeros((0, 24)))
    assert len(rows) == 10
    assert np.isfinite(np.array([*rows.values()])).all()
    assert not np.isfinite(np.array([*rows_without_data(24).values()])).any()


def test_what_a_second_run_may_not_do() -> None:
    """Stop, send another query or fewer, read a row without data, keep private rows."""
    load_kw = simulate_load_kw(customers=5)

    def moody(rows: Any) -> object:  # noqa: ANN401 - an array
        if len(rows) == 6:
            raise ZeroDivisionError
        if len(rows) == 7:
            shapes(rows)
        return shapes(rows if len(rows) < 8 else rows[:0])

    larger = [np.vstack([load_kw, *[load_kw[0]] * n]) for n in (1, 2, 3)]
    neighbours = [Neighbour(name=str(len(one)), data=one) for one in larger]
    neighbours[-1] = replace(neighbours[-1], adds_nothing=True)
    found = replay_audit(moody, load_kw, neighbours)
    assert [fault.text for fault in found.faults] == [
        "the second run stopped: ZeroDivisionError",
        "the second run made another query than the first",
        "a row without data changed a query",
    ]
    assert str(found.faults[0]) == "release, 6: the second run stopped: ZeroDivisionError"

    def fewer(rows: Any) -> object:  # noqa: ANN401 - an array
        shapes(rows[:0])
        return shapes(rows) if len(rows) == 5 else released

    released = shapes(load_kw)
    found = replay_audit(fewer, load_kw, neighbours[:1])
    texts = {fault.text for fault in found.faults}
    assert "noise was not drawn with the scales that were charged" in texts
    assert "the second run made fewer queries than the first" in texts


def test_a_tuple_of_other_parts_is_one_release() -> None:
    """Parts are products of a release: a result that is a named tuple has its own charges."""

    class Shapes(NamedTuple):
        mean_kw: Any
        guarantee: Guarantee
        spends: tuple[Spend, ...]

    def named(rows: Any) -> Shapes:  # noqa: ANN401 - an array
        found = load_shapes(rows, epsilon=1.0, delta=1e-6)
        return Shapes(found.mean_kw, found.guarantee, found.spends)

    load_kw = simulate_load_kw(customers=5)
    found = replay_audit(named, load_kw, [Neighbour(name="one less", data=load_kw[1:])])
    assert [part.part for part in found.parts] == [WHOLE]
    assert found.holds
    assert found.worst_ratio > 0.9


def test_values_of_the_same_name_are_all_compared() -> None:
    """An exact value is found also where the next one has its name."""

    @dataclass(frozen=True)
    class Named:
        value: float
        name: str = "same"

    @dataclass(frozen=True)
    class Leaking:
        values: tuple[Named, ...]
        guarantee: Guarantee
        spends: tuple[Spend, ...]

    def leaking(rows: Any) -> Leaking:  # noqa: ANN401 - an array
        found = load_shapes(rows, epsilon=1.0, delta=1e-6)
        return Leaking((Named(float(len(rows))), Named(0.0)), found.guarantee, found.spends)

    load_kw = simulate_load_kw(customers=5)
    found = replay_audit(leaking, load_kw, [Neighbour(name="one less", data=load_kw[1:])])
    assert [fault.text for fault in found.faults] == ["values.0.value is not the same in both runs"]


def test_classes_and_labels() -> None:
    """Classes share one grant; a label of another customer than the changed one may not change."""
    load_kw = simulate_load_kw(customers=6)
    estimator = PrivateKMeans(n_clusters=1, epsilon=4.0)

    def by_class(rows: Any) -> object:  # noqa: ANN401 - an array
        return private_kmeans_by_class(estimator, rows, ["a"] * len(rows), ["a", "b"])

    found = replay_audit(by_class, load_kw, [Neighbour(name="one less", data=load_kw[1:])])
    assert found.holds
    assert found.worst_ratio > 0.99

    def labels(rows: Any) -> object:  # noqa: ANN401 - an array
        ids = [str(row) for row in range(len(rows))]
        return release_labels(
            rows,
            centroids=CENTROIDS,
            sizes=[1.0, 1.0],
            epsilon=9.0,
            customer_ids=ids,
            real_ids=True,
        )

    other = load_kw.copy()
    other[0] = 5.0  # its label changes, nearly always
    wrong = Neighbour(name="another", data=other, customer_id="1")
    right = replace(wrong, customer_id="0")
    assert replay_audit(labels, load_kw, [right]).holds
    assert not replay_audit(labels, load_kw, [wrong]).holds
