"""The choice of the radius, and the model read from sums: against simulation."""

import numpy as np
import pytest

from wattveil.numerics.synthesis import population_model, synthesis_tuning
from wattveil.numerics.synthesis.cluster_counts import ClusterCounts
from wattveil.numerics.synthesis.coordinates import Coordinates
from wattveil.numerics.synthesis.noisy_moments import ClusterMoments
from wattveil.release.rows.load_features import size_cells


@pytest.fixture
def to() -> Coordinates:
    """Return coordinates around two homes."""
    home = 0.5 + 0.2 * np.sin(np.arange(24) / 4.0)
    return Coordinates(centroids=np.array([home, 3.0 * home]), transform="asinh", alpha_kw=15.0)


@pytest.mark.parametrize("spread", [0.2, 0.5, 0.8])
def test_radius_against_simulation(to: Coordinates, spread: float) -> None:
    """Four in five are inside; inflation gives back what clipping takes, but for the last 1 %."""
    edges = population_model.radius_edges(to)
    lengths = (
        1.3 * to.typical_length * np.exp(spread * np.random.default_rng(1).standard_normal(200_000))
    )
    rows = np.zeros((lengths.size, 2))
    rows[:, 1] = lengths
    (cells,) = size_cells(rows, edges=edges, coordinates=2)
    counts = np.bincount(cells, minlength=edges.size + 1)
    radius = population_model.choose_radius(counts.astype(np.float64), 1.0, edges)
    assert np.mean(lengths < radius.clip) == pytest.approx(synthesis_tuning.KEPT_INSIDE, abs=0.02)
    before = np.square(np.minimum(lengths, np.quantile(lengths, 0.99))).mean()
    after = np.square(np.minimum(lengths, radius.clip)).mean()
    # The fit tries spreads 14 % apart.
    assert radius.inflation == pytest.approx(before / after, rel=0.12)
    assert before / after > 1.12 or spread < 0.3


def test_radius_of_noise_is_usable(to: Coordinates) -> None:
    """Counts that are noise alone still give a finite radius within the cells."""
    edges = population_model.radius_edges(to)
    generator = np.random.default_rng(2)
    for _ in range(20):
        radius = population_model.choose_radius(
            generator.normal(0.0, 50.0, edges.size + 1), 50.0, edges
        )
        assert 0.0 < radius.clip < 100.0 * edges[-1]
        assert 1.0 <= radius.inflation < 100.0


def test_slots_are_coordinates_written_out(to: Coordinates) -> None:
    """Means and covariances by slot are what samples of the coordinates have."""
    generator = np.random.default_rng(3)
    r = to.n_coordinates
    found = ClusterMoments(
        means=generator.normal(size=(2, r)),
        covariances=np.array([np.eye(r), 2.0 * np.eye(r)]),
        levels=np.array([1.0, 2.0]),
    )
    means, covariances = population_model.in_slots(found, to)
    np.testing.assert_allclose(covariances[1], 2.0 * to.prior, atol=1e-12)
    z = generator.multivariate_normal(found.means[0], found.covariances[0], 20_000)
    y = to.centres[0] + z @ to.curves
    np.testing.assert_allclose(y.mean(axis=0), means[0], atol=0.03)
    np.testing.assert_allclose(np.cov(y.T), covariances[0], atol=0.02)


@pytest.mark.parametrize(
    ("without", "with_export", "deepest", "exports"),
    [
        (500.0, 100.0, 0.3, 1),  # surely some
        (500.0, 50.0, 0.3, 0),  # perhaps none
        (10.0, 60.0, -0.5, 1),  # most, and the mean exports
        (10.0, 60.0, 0.3, 0),  # most of a few, and the mean does not
        (120.0, 10.0, -0.5, 1),  # who is near a curve that exports
        (40.0, 10.0, -0.5, 0),  # perhaps nobody is
        (-30.0, 40.0, -0.5, 0),  # no customers
    ],
)
def test_who_exports(without: float, with_export: float, deepest: float, exports: int) -> None:
    """Noise of 25 customers: export is believed by number, or by number and mean together."""
    centroid = np.full((1, 24), 0.5)
    centroid[0, 12] = deepest
    unknown = np.array([[0.0], [np.inf]])
    counts = ClusterCounts.of(np.array([[without, with_export]]), 25.0, unknown)
    assert counts.exports(centroid).tolist() == [exports]


def test_counts_are_averaged_by_their_variances() -> None:
    """The average of simulated counts has the stated error, below that of either."""
    generator = np.random.default_rng(4)
    counts = np.array([300.0, 100.0]) + 20.0 * generator.normal(size=(4000, 2))
    errors = np.tile([15.0, 40.0], 2000)
    known = np.array([400.0 + errors * generator.normal(size=4000), errors])
    found = ClusterCounts.of(counts, 20.0, known)
    scores = (found.customers - 400.0) / found.customers_std
    assert float(scores.std()) == pytest.approx(1.0, abs=0.05)
    assert float(scores.mean()) == pytest.approx(0.0, abs=0.06)
    assert (found.customers_std < np.minimum(errors, 20.0 * np.sqrt(2.0))).all()
