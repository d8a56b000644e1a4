"""The leaderboard: it resumes, measures again what changed, and its figures are those of its runs.

Its scripts live in benchmarks/, which is no package: they are imported as they run.
"""

import csv
import importlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.doc_pages import REPOSITORY
from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import accuracy_loss, exact_answer

OWN_METHOD = """
from leaderboard_methods import Method
from types import SimpleNamespace

def fit(rows, *, epsilon, delta, public, generator, first=0):
    return SimpleNamespace(centroids_kw=rows[first : first + public.n_clusters])

METHOD = Method("rows", "Some rows", fit, lambda kind: {"a": {}, "b": {"first": 7}})
"""


def rows_of_toy() -> Floats:
    """Return some customers of six slots; the last has no load, and so no shape."""
    rows = np.random.default_rng(0).lognormal(0.0, 0.5, (60, 6))
    return np.vstack([rows, np.zeros((1, 6))])


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Return the scripts, with one small family."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    names = ("leaderboard", "leaderboard_methods", "leaderboard_report", "families")
    found = SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    family = found.families.Family("toy", "held-out", "single month", "60 customers", rows_of_toy)
    monkeypatch.setattr(found.families, "FAMILIES", {"toy": family})
    monkeypatch.setattr(found.families, "CACHE", tmp_path / "cache")
    found.families.load.cache_clear()
    yield found
    found.families.load.cache_clear()
    for name in (*names, "measured_homes", "global_tier_cases", "populations"):
        sys.modules.pop(name, None)


def measured(board: SimpleNamespace, folder: Path, methods: list[Any], **runs: int) -> list[Any]:
    """Return the cells of the small family."""
    store = board.leaderboard.Store(folder / "cells.jsonl")
    given = {"runs": 2, "peer_runs": 2, **runs}
    cells: list[Any] = board.leaderboard.measure(["toy"], methods, store, **given)
    return cells


def own_method(board: SimpleNamespace, folder: Path) -> Any:  # noqa: ANN401 - of a script
    """Return the method of a stranger's file."""
    path = folder / "my_method.py"
    path.write_text(OWN_METHOD)
    return board.leaderboard_methods.method_of(path)


def chosen(board: SimpleNamespace, *names: str) -> list[Any]:
    """Return some of the methods."""
    return [one for one in board.leaderboard_methods.METHODS if one.name in names]


def test_a_method_is_one_file(board: SimpleNamespace, tmp_path: Path) -> None:
    """Its losses are those of its centroids, and its best variant counts."""
    methods = [*chosen(board, "ours", "mean"), own_method(board, tmp_path)]
    cells = measured(board, tmp_path, methods)
    assert [(cell.kind, cell.epsilon, cell.customers) for cell in cells] == [
        *(("kW", epsilon, 61) for epsilon in (0.3, 1.0, 3.0)),
        *(("shapes", epsilon, 60) for epsilon in (0.3, 1.0, 3.0)),
    ]
    rows = rows_of_toy()
    exact = exact_answer(rows, 6).loss
    by_hand = [accuracy_loss(rows, rows[a : a + 6], exact=exact) for a in (0, 7)]
    assert cells[0].medians["rows"] == pytest.approx(min(by_hand))
    assert cells[0].variant("rows") == ("a" if by_hand[0] < by_hand[1] else "b")
    shapes = rows[:-1] / np.linalg.norm(rows[:-1], axis=1, keepdims=True)
    assert cells[3].losses["rows"]["b"][0] == pytest.approx(
        accuracy_loss(shapes, shapes[7:13], exact=exact_answer(shapes, 6).loss)
    )
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(TypeError, match="must define METHOD"):
        board.leaderboard_methods.method_of(empty)


def test_finished_cells_are_not_run_again(board: SimpleNamespace, tmp_path: Path) -> None:
    """A restart continues, also after half a line; more runs and other code are measured."""
    method = own_method(board, tmp_path)
    ours = chosen(board, "ours")[0]
    calls: list[int] = []

    def counted(rows: Floats, **given: Any) -> Any:  # noqa: ANN401 - as the method
        calls.append(len(rows))
        return method.fit(rows, **given)

    def methods(digest: str = "0") -> list[Any]:
        found = [board.leaderboard_methods.Method("rows", "Some rows", counted, method.variants)]
        for one in found:
            object.__setattr__(one, "digest", lambda: digest)
        return [ours, *found]

    first = measured(board, tmp_path, methods())
    assert len(calls) == 2 * 3 * 2 * 2  # kinds, epsilons, variants, runs
    with (tmp_path / "cells.jsonl").open("a") as file:
        file.write('{"key": ["toy", "kW"')  # killed while it wrote
    again = measured(board, tmp_path, methods())
    assert len(calls) == 24
    assert [cell.losses for cell in again] == [cell.losses for cell in first]
    measured(board, tmp_path, methods(), peer_runs=3)
    assert len(calls) == 24 + 36
    measured(board, tmp_path, methods("1"), peer_runs=3)
    assert len(calls) == 24 + 36 + 36


def test_every_method_runs(board: SimpleNamespace, tmp_path: Path) -> None:
    """Each variant of each method returns losses; ours, peers and one oracle are told apart."""
    methods = board.leaderboard_methods.METHODS
    store = board.leaderboard.Store(tmp_path / "cells.jsonl")
    data = next(iter(board.leaderboard.data_sets(["toy"])))
    for method in methods:
        for losses in board.leaderboard.losses_of(data, 1.0, method, 1, store).values():
            assert len(losses) == 1
            assert math.isfinite(losses[0])
            assert losses[0] > -0.05  # exact K-means is the best of ten starts
    assert [one.name for one in methods if one.role == "ours"] == ["ours"]
    assert [one.name for one in methods if one.role == "oracle"] == ["told-mean"]


def test_tables_and_chart_state_the_runs(board: SimpleNamespace, tmp_path: Path) -> None:
    """Summary, CSV and chart agree with a second computation from the losses."""
    report = board.leaderboard_report
    limit = SimpleNamespace(
        one_draw=0.1, no_small_clusters=0.2, bound=0.05, reference=0.2, against_b=lambda loss: loss
    )

    def cell(family: str, epsilon: float, ours: list[float], peer: float) -> Any:  # noqa: ANN401
        return report.Cell(
            family=family,
            split="held-out",
            kind="kW",
            customers=300,
            slots=24,
            epsilon=epsilon,
            limit=limit,
            losses={
                "ours": {"": ours},
                "slow": {"x": [9.0, 9.0], "y": [peer, peer]},
                "other": {"": [20.0, 20.0]},
                "knows": {"": [0.0, 0.0]},
            },
            roles={"ours": "ours", "slow": "peer", "other": "peer", "knows": "oracle"},
        )

    cells = [
        cell("a", 1.0, [0.1, 0.1, 0.1, 0.5], 0.4),
        cell("b", 1.0, [0.5, 0.5, 0.5, 0.5], 0.25),
        cell("c", 1.0, [0.0, 0.0, 0.0, 0.0], 0.002),
    ]
    ratios = [4.0, 0.5, 2.0]  # the last with 0 counted as 0.001
    assert [one.ratio for one in cells] == pytest.approx(ratios)
    assert [one.wild for one in cells] == [1, 0, 0]
    titles = {"ours": "Ours", "slow": "Slow", "other": "Other", "knows": "Knows"}
    text = report.write_report(cells, titles, tmp_path)
    mean = math.prod(ratios) ** (1.0 / 3.0)
    assert (
        f"| held-out | kW | 3 | **{mean:.2f}** | 0.50 | 1 | 67% of cells | 1 of 12 (8.3%) |" in text
    )
    peers, ours = (0.4 * 0.25 * 0.002) ** (1 / 3) / 0.2, (0.1 * 0.5 * 0.001) ** (1 / 3) / 0.2
    for who, of_limit, extremes in (
        ("best peer", peers, "0.01 to 2.00"),
        ("ours", ours, "0.01 to 2.50"),
    ):
        cells_of_both = f"{of_limit:.2f} | {of_limit:.2f} | {extremes}"
        assert f"| held-out, kW: {who} / max(A, B) | {cells_of_both} |" in text
    assert "| a | 300 | 24 | .100 / .400 (slow) / .200 |" in text
    assert "Knows (oracle, no peer)" in text
    with (tmp_path / "leaderboard.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 3 * 4
    assert {row["variant"] for row in table if row["method"] == "slow"} == {"y"}
    chart = ET.parse(tmp_path / "leaderboard.svg").getroot()  # noqa: S314 - our own file
    assert len(chart.findall(".//{*}circle")) == 2 + 2 * 3
    page = tmp_path / "page.md"
    (tmp_path / "images").mkdir()
    page.write_text(f"# Head\n\n{report.MARKER}\n\nold\n")
    report.write_page(text, tmp_path / "leaderboard.svg", page)
    assert re.fullmatch(r"# Head\n\n<!--[^\n]*\n\n\| families.*", page.read_text(), re.DOTALL)
    assert "old" not in page.read_text()
    page.write_text("# Head\n")
    with pytest.raises(ValueError, match="has no line"):
        report.write_page(text, tmp_path / "leaderboard.svg", page)
