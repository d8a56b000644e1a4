"""Each known violation of a baseline, shown on a small example."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import MissingExtraError, WattveilError
from wattveil.lab.baselines import diffprivlib_baseline, lloyd_baselines, non_lloyd_baselines
from wattveil.lab.baselines.baseline_interface import Noise, PublicChoices
from wattveil.lab.baselines.lloyd_baselines import packed_initialisation

ROWS = np.arange(10.0).reshape(5, 2)


def test_yu_publishes_a_customer(blobs: Floats, public: PublicChoices) -> None:
    """A cluster that noise makes look empty keeps its start: an exact row of one customer.

    So does its removal change the answer with probability 1.
    """
    rows = np.round(blobs, 6)
    published = [
        lloyd_baselines.Yu2016.fit(
            rows, epsilon=0.01, delta=1e-6, public=public, generator=np.random.default_rng(seed)
        ).centroids_kw
        for seed in range(40)
    ]
    apart = np.abs(np.concatenate(published)[:, None] - rows).max(axis=2)
    owner = apart.min(axis=0).argmin()
    assert apart[:, owner].min() < 1e-12
    again = [
        lloyd_baselines.Yu2016.fit(
            np.delete(rows, owner, axis=0),
            epsilon=0.01,
            delta=1e-6,
            public=public,
            generator=np.random.default_rng(seed),
        ).centroids_kw
        for seed in range(40)
    ]
    assert np.abs(np.concatenate(again) - rows[owner]).max(axis=1).min() > 1e-6


def test_yu_drops_outliers_by_exact_data(blobs: Floats, public: PublicChoices) -> None:
    """A lone customer is left out, which lets another one in who was left out before."""
    boxed = public.in_box(blobs)
    kept, _ = lloyd_baselines.without_outliers(boxed)
    lone = np.vstack([boxed, [[0.0, 0.0]]])
    kept_with, _ = lloyd_baselines.without_outliers(lone)
    assert not (kept_with == 0.0).all(axis=1).any()
    assert {tuple(row) for row in kept} < {tuple(row) for row in kept_with}
    assert len(lloyd_baselines.without_outliers(boxed[:1])[0]) == 1


def test_lu_and_shen_distinguish_two_neighbours() -> None:
    """Balls around the two exact means meet in one point: any outcome identifies the data set."""
    published, customers = np.array([0.2]), np.array([[0.9], [-0.1]])
    with_both, without_first = customers.mean(axis=0), customers[1]
    generator = np.random.default_rng(0)
    for rate in (0.001, 1.0, 100.0):
        for centre, beyond in ((with_both, 1.0), (without_first, -1.0)):
            drawn = [
                non_lloyd_baselines.point_in_ball(
                    centre, published, rate=rate, generator=generator
                )[0]
                for _ in range(200)
            ]
            assert ((np.array(drawn) - published[0]) * beyond > 0.0).all()


def test_lu_and_shen_draw_from_their_density() -> None:
    """The distance follows r^(d-1) exp(-rate r), cut at the radius; flat laws are uniform."""
    generator = np.random.default_rng(1)
    centre, edge = np.zeros(3), np.array([0.0, 2.0, 0.0])
    for rate in (3.0, 1e-120):
        drawn = [
            non_lloyd_baselines.point_in_ball(centre, edge, rate=rate, generator=generator)
            for _ in range(4000)
        ]
        lengths = np.linalg.norm(drawn, axis=1)
        r = np.linspace(0.0, 2.0, 20_001)
        density = r**2 * np.exp(-rate * r)
        mean = float((r * density).sum() / density.sum())
        variance = float((r**2 * density).sum() / density.sum()) - mean**2
        assert abs(lengths.mean() - mean) < 5.0 * np.sqrt(variance / 4000)
        assert lengths.max() <= 2.0
        assert np.abs(np.mean(drawn, axis=0)).max() < 0.15


def test_balcan_shows_a_lone_customer() -> None:
    """A cell is kept only if it has a customer: a kept far cell proves that its customer is."""
    crowd = np.full((50, 2), -0.6)
    lone = np.array([[0.7, 0.7]])

    def far_cells(rows: Floats, seed: int) -> int:
        middles, _ = non_lloyd_baselines.kept_cells(
            rows,
            np.full(2, -1.0),
            Noise(np.random.default_rng(seed)),
            side=2.0,
            prices=[0.5] * 2,
            threshold=3.0,
        )
        return int((middles > 0.0).all(axis=1).sum())

    assert sum(far_cells(np.vstack([crowd, lone]), seed) for seed in range(100)) > 5
    assert sum(far_cells(crowd, seed) for seed in range(100)) == 0
    assert non_lloyd_baselines.chance_above(2.0, 0.5) == pytest.approx(0.5 * np.exp(-1.0))
    assert non_lloyd_baselines.chance_above(-2.0, 0.5) == pytest.approx(1 - 0.5 * np.exp(-1.0))


def test_balcan_reports_when_nothing_is_left(blobs: Floats, public: PublicChoices) -> None:
    """At a huge epsilon every lone customer's cell is kept: no delta below 1 holds."""
    found = non_lloyd_baselines.Balcan2017.fit(
        blobs, epsilon=1e5, delta=1e-6, public=public, generator=np.random.default_rng(0)
    )
    assert found.true is None


def test_packing_keeps_its_distance() -> None:
    """Packed centroids stand apart, also in a narrow space."""
    for n_clusters, n_slots in ((6, 24), (40, 2)):
        start = packed_initialisation(n_clusters, n_slots, np.random.default_rng(0))
        apart = np.linalg.norm(start[:, None] - start, axis=2) + 9.0 * np.eye(n_clusters)
        walls = 1.0 - np.abs(start).max()
        assert start.shape == (n_clusters, n_slots)
        assert apart.min() > 0.05
        assert walls > 0.0


@pytest.mark.parametrize(("n_slots", "times"), [(24, 1.62), (48, 2.06), (96, 2.63)])
def test_diffprivlib_spends_more_than_it_claims(n_slots: int, times: float) -> None:
    """One count with the share of a slot and d slots with that of the counts, in every round.

    Load between 4 and 5 has a fifth of the noise it needs, too.
    """
    weight = np.cbrt(4 * n_slots * 0.225**2)
    of_slot, of_counts = 1.0 / (n_slots + weight), weight / (n_slots + weight)
    assert of_counts + n_slots * of_slot == pytest.approx(1.0)  # as Su et al. split
    swapped = of_slot + n_slots * of_counts

    def spent(low: float, high: float) -> float:
        return diffprivlib_baseline.overspending(
            PublicChoices(
                n_clusters=2,
                n_customers=100,
                low_kw=np.full(n_slots, low),
                high_kw=np.full(n_slots, high),
                clip_kw=5.0,
                typical_kw=1.0,
                centre_kw=np.full(n_slots, low),
                spread_kw=1.0,
            )
        )

    assert spent(0.0, 5.0) == pytest.approx(swapped)
    assert spent(4.0, 5.0) == pytest.approx(of_slot + 5 * n_slots * of_counts)
    assert swapped == pytest.approx(times, abs=0.005)


def test_diffprivlib_shows_a_lone_customer() -> None:
    """Without the customer its cluster keeps a start away from all walls; with it, noise lies near.

    So one outcome distinguishes two neighbours at any epsilon, with hardly an error on either side.
    """
    try:
        diffprivlib_baseline.check_installed()
    except MissingExtraError as absent:
        pytest.skip(str(absent))
    n_slots = 12
    public = PublicChoices(
        n_clusters=2,
        n_customers=2000,
        low_kw=np.zeros(n_slots),
        high_kw=np.ones(n_slots),
        clip_kw=1.0,
        typical_kw=0.5,
        centre_kw=np.zeros(n_slots),
        spread_kw=1.0,
    )
    crowd, lone = np.zeros((2000, n_slots)), np.ones((1, n_slots))

    def share_with_a_start(rows: Floats) -> float:
        """Return how often some centroid lies a quarter of the width or more from all walls."""
        centroids = diffprivlib_baseline.centroids_of_runs(rows, [1.0], public, range(20))[0]
        return float((np.abs(centroids - 0.5) <= 0.25).all(axis=2).any(axis=1).mean())

    assert share_with_a_start(crowd) > 0.9
    assert share_with_a_start(np.vstack([crowd, lone])) < 0.1


STAND_IN = """
import numpy as np

class KMeans:
    def __init__(self, n_clusters, *, epsilon, bounds, random_state):
        self.given = (n_clusters, epsilon, random_state)
        self.bounds = bounds

    def fit(self, rows):
        low, high = self.bounds
        assert (rows >= low).all() and (rows <= high).all()
        self.cluster_centers_ = np.full((self.given[0], rows.shape[1]), self.given[1])
        return self
"""


def test_diffprivlib_runs_in_its_own_interpreter(
    blobs: Floats, public: PublicChoices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets clipped rows, bounds, K and epsilon, and what it spends is stated."""
    package = tmp_path / "diffprivlib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    found = diffprivlib_baseline.Diffprivlib.fit(
        10.0 * blobs,
        epsilon=1.5,
        delta=1e-6,
        public=public,
        generator=np.random.default_rng(0),
    )
    assert found.centroids_kw.tolist() == [[1.5, 1.5]] * 4
    assert found.true is None
    assert (
        f"spends {diffprivlib_baseline.overspending(public):.3g} times its claim"
        in found.known_violations[-1]
    )


@pytest.mark.parametrize(
    ("models", "kind", "words"),
    [
        ("raise ImportError", MissingExtraError, r'pip install "wattveil\[bench\]"'),
        ("raise RuntimeError('broken inside')", WattveilError, "broken inside"),
    ],
)
def test_diffprivlib_that_does_not_run(
    models: str,
    kind: type[Exception],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed import names the extra; any other failure is passed on."""
    (tmp_path / "diffprivlib").mkdir()
    (tmp_path / "diffprivlib" / "__init__.py").write_text(models)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(diffprivlib_baseline.PYTHON_VARIABLE, sys.executable)
    with pytest.raises(kind, match=words):
        diffprivlib_baseline.centroids_of_runs(ROWS, [1.0], PublicChoices.taken_from(ROWS, 2), [0])


def test_diffprivlib_in_an_interpreter_that_is_none(
    blobs: Floats, public: PublicChoices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable."""
    monkeypatch.setenv(diffprivlib_baseline.PYTHON_VARIABLE, "/no/such/python")
    with pytest.raises(WattveilError, match="WATTVEIL_DIFFPRIVLIB_PYTHON names no interpreter"):
        diffprivlib_baseline.centroids_of_runs(blobs, [1.0], public, [0])
