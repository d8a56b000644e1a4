"""The mean load shape: right on average, as uncertain as it says, and paid for to the last unit."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from wattveil.errors import InvalidDataError, InvalidParameterError, RehearsalError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret
from wattveil.release import shapes
from wattveil.release.shapes import LoadShape, mean_load_shape
from wattveil.simulate import simulate_load_kw

ALPHA = 1e-6


def release(customers: int = 2000, clip_kw: float = 20.0, epsilon: float = 1.0) -> LoadShape:
    """Release simulated customers; the bound is above every one of them, so nothing is clipped."""
    load_kw = simulate_load_kw(customers=customers)
    return mean_load_shape(load_kw, clip_kw=clip_kw, epsilon=epsilon, delta=1e-6)


def test_unbiased_within_its_band() -> None:
    """The distance to the true mean, in stated standard errors, is that of a normal number."""
    shape = release(customers=2000)
    z = (shape.mean_kw - simulate_load_kw(customers=2000).mean(axis=0)) / shape.std_kw
    assert np.abs(z).max() < stats.norm.isf(ALPHA / (2 * 24))
    count = (shape.customers - 2000) / shape.customers_std
    assert abs(count) < stats.norm.isf(ALPHA / 2)


def test_stated_error_is_the_true_error() -> None:
    """Over 150 releases with real noise the spread of each hour is what the band says."""
    runs, load_kw = 150, simulate_load_kw(customers=800)
    shapes = [mean_load_shape(load_kw, clip_kw=20.0, epsilon=1.0, delta=1e-6) for _ in range(runs)]
    truth = load_kw.mean(axis=0)
    squares = np.array([((shape.mean_kw - truth) / shape.std_kw) ** 2 for shape in shapes])
    low, high = (float(stats.chi2.ppf(p, runs)) for p in (ALPHA / 48, 1.0 - ALPHA / 48))
    # The ratio of two noisy numbers is normal to first order only: 5 % of slack.
    assert (squares.sum(axis=0) > 0.95 * low).all()
    assert (squares.sum(axis=0) < 1.05 * high).all()
    counts = np.array([((shape.customers - 800) / shape.customers_std) ** 2 for shape in shapes])
    assert low < counts.sum() < high


def test_std_by_hand() -> None:
    """First order: sqrt(var S + (S/n)^2 var n) / n with the scales of the two charges."""
    shape = release(customers=500, clip_kw=2.0)
    rho = [spend.rho_units * 1e-18 for spend in shape.spends]
    count_std = math.sqrt(2.0) / math.sqrt(2.0 * rho[0])  # two cells are added up
    sum_std = 2.0 * math.sqrt(24.0) / math.sqrt(2.0 * rho[1])
    expected = np.sqrt(sum_std**2 + (shape.mean_kw * count_std) ** 2) / shape.customers
    assert shape.std_kw == pytest.approx(expected, rel=1e-6)
    assert shape.customers_std == pytest.approx(count_std, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_guarantee_and_spends(epsilon: float) -> None:
    """Global, zero-out, customer; the charges add up to the whole grant, exactly."""
    shape = release(customers=20, epsilon=epsilon)
    assert shape.guarantee == Guarantee(
        epsilon=epsilon,
        delta=1e-6,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    granted = Budget(shape.guarantee)
    assert sum(spend.rho_units for spend in shape.spends) == granted.rho_units
    assert [(spend.tag, spend.mechanism) for spend in shape.spends] == [
        ("number of customers", "gaussian_histogram"),
        ("sum of load", "gaussian_sum"),
    ]
    assert shape.spends[0].rho_units == granted.share(0.05)
    assert sum(spend.eta for spend in shape.spends) < 1e-6 * epsilon


def test_clipping_bounds_one_customer() -> None:
    """A customer of a million kW moves the mean no more than one of clip_kw, root mean square."""
    load_kw = np.full((1000, 24), 0.5)
    load_kw[0] = 1e6
    shape = mean_load_shape(load_kw, clip_kw=2.0, epsilon=5.0, delta=1e-6)
    expected = (999 * 0.5 + 2.0) / 1000
    z = (shape.mean_kw - expected) / shape.std_kw
    assert np.abs(z).max() < stats.norm.isf(ALPHA / 48)


def test_nobody_still_gets_a_private_answer() -> None:
    """No rows: finite numbers, a count of at least 1, the same charges."""
    shape = mean_load_shape(np.zeros((0, 24)), clip_kw=2.0, epsilon=1.0, delta=1e-6)
    assert shape.mean_kw.shape == shape.std_kw.shape == (24,)
    assert np.isfinite(shape.mean_kw).all()
    assert shape.customers >= 1.0
    assert len(shape.spends) == 2


def test_two_releases_differ() -> None:
    """The same customers twice: other noise in every hour."""
    first, second = release(customers=5), release(customers=5)
    assert (first.mean_kw != second.mean_kw).all()


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", math.nan),
        ("epsilon", "1"),
        ("epsilon", True),
        ("delta", 0.0),
        ("delta", 1.0),
        ("delta", math.nan),
        ("clip_kw", 0.0),
        ("clip_kw", -2.0),
        ("clip_kw", math.inf),
        ("clip_kw", None),
    ],
)
def test_bad_arguments_are_named(field: str, bad: object) -> None:
    """Field, rule and value, for every public argument."""
    arguments: dict[str, object] = {"clip_kw": 2.0, "epsilon": 1.0, "delta": 1e-6, field: bad}
    with pytest.raises(InvalidParameterError, match=f"{field} must be") as caught:
        mean_load_shape(np.ones((3, 24)), **arguments)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert caught.value.value is bad


@pytest.mark.parametrize("shape", [(24,), (3, 0), (2, 3, 4), ()])
def test_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    """One row a customer and at least one slot of the day."""
    with pytest.raises(InvalidParameterError, match="load_kw must be a matrix with one row"):
        mean_load_shape(np.zeros(shape), clip_kw=2.0, epsilon=1.0, delta=1e-6)


def test_rows_with_gaps_are_refused_by_number() -> None:
    """NaN is refused, never treated as a small load."""
    load_kw = np.ones((4, 24))
    load_kw[2, 7] = math.nan
    with pytest.raises(InvalidDataError, match="every value is finite") as caught:
        mean_load_shape(load_kw, clip_kw=2.0, epsilon=1.0, delta=1e-6)
    assert caught.value.row_ids == (2,)


def test_clipped_share_tells_the_bound_from_the_data() -> None:
    """A bound that most customers exceed shows in the released share; one that none does is 0."""
    load_kw = np.full((5000, 24), 1.0)
    load_kw[:1500] = 5.0
    shape = mean_load_shape(load_kw, clip_kw=2.0, epsilon=8.0, delta=1e-6)
    assert abs(shape.clipped_share - 0.3) < 6.0 * shape.clipped_share_std
    assert 0.0 < shape.clipped_share_std < 0.01
    wide = mean_load_shape(load_kw, clip_kw=10.0, epsilon=8.0, delta=1e-6)
    assert wide.clipped_share < 6.0 * wide.clipped_share_std


def test_a_row_is_counted_the_same_alone_and_beside_others() -> None:
    """Whether a customer counts as clipped depends on that customer alone, whatever the layout."""
    generator = np.random.default_rng(5)
    seen: list[list[int]] = []

    def record(cells: Secret[NDArray[np.int64]], **_: object) -> None:
        seen.append(cells.reveal().tolist())
        raise InterruptedError

    for _ in range(300):
        row = generator.normal(size=(1, 24))
        row *= 2.0 * math.sqrt(24.0) / np.linalg.norm(row)  # on the bound, where an ulp decides
        both = np.asfortranarray(np.vstack([row, generator.normal(size=(1, 24))]))
        seen.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shapes, "gaussian_histogram", record)
            for rows in (np.asfortranarray(row), both, np.ascontiguousarray(both)):
                with pytest.raises(InterruptedError):
                    mean_load_shape(rows, clip_kw=2.0, epsilon=1.0, delta=1e-6)
        assert len({cells[0] for cells in seen}) == 1


def test_a_rehearsal_is_no_release(silent: NoiseSource) -> None:
    """Noise from a test's source never becomes a load shape."""
    with noise.rehearse(silent), pytest.raises(RehearsalError):
        release(customers=5)
