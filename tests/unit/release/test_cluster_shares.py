"""Clusters by group: counts, totals, shares with error bars; one histogram for all cells."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.release_transcripts import record
from wattveil import cluster_shares
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.release.cluster_shares import ClusterShares

CENTROIDS = np.array([[0.0], [10.0], [20.0]])
LEVELS = {"area": ["north", "south"], "class": ["home", "shop"]}
TRUE = np.array([[[300, 200, 100], [50, 30, 20]], [[400, 0, 200], [0, 0, 0]]])


def population() -> tuple[NDArray[np.float64], dict[str, list[str]]]:
    """Return customers as many as `TRUE` says, then one of an unlisted area and one with gaps."""
    rows, area, kind = [], [], []
    for (a, c, k), count in np.ndenumerate(TRUE):
        rows += [10.0 * k + 0.5] * count
        area += [LEVELS["area"][a]] * count
        kind += [LEVELS["class"][c]] * count
    load_kw = np.array([*rows, 0.0, math.nan])[:, None]
    return load_kw, {"area": [*area, "west", "north"], "class": [*kind, "home", "home"]}


def release(**changes: object) -> ClusterShares:
    """Release the population above, or what `changes` say."""
    load_kw, groups = population()
    arguments: dict[str, object] = {
        "load_kw": load_kw,
        "centroids": CENTROIDS,
        "groups": groups,
        "levels": LEVELS,
        "epsilon": 2.0,
        "delta": 1e-6,
        **changes,
    }
    return cluster_shares(**arguments)  # type: ignore[arg-type]  # wrong ones on purpose


def test_cells_are_counted_where_they_belong() -> None:
    """Each customer in one cell at most: unlisted values and gaps in none; one histogram in all."""
    [draw] = record(release)
    assert (draw.exact == TRUE.ravel() * 2**25).all()
    assert TRUE.sum() == len(population()[0]) - 2
    released = release()
    assert released.counts.shape == (2, 2, 3)
    assert released.levels == {"area": ("north", "south"), "class": ("home", "shop")}


def test_attributes_are_matched_by_name() -> None:
    """The values of an attribute belong to the levels of its name, in whatever order they come."""
    reversed_groups = dict(reversed(population()[1].items()))
    [draw] = record(lambda: release(groups=reversed_groups))
    assert (draw.exact == TRUE.ravel() * 2**25).all()


@pytest.mark.usefixtures("cached_constants")
def test_counts_are_unbiased_and_their_error_right() -> None:
    """Over 100 releases the noise of all cells has the stated standard deviation."""
    runs = [release() for _ in range(100)]
    z = np.array([(one.counts - TRUE) / one.counts_std for one in runs]).ravel()
    low, high = (float(stats.chi2.ppf(p, z.size)) for p in (5e-7, 1.0 - 5e-7))
    assert low < float(np.square(z).sum()) < high
    assert abs(z.mean()) < stats.norm.isf(5e-7) / math.sqrt(z.size)


@pytest.mark.usefixtures("cached_constants")
def test_share_errors_cover() -> None:
    """In groups that are not empty the true share is within two stated errors 95 times in 100.

    Cutting at 0 and fixing sums brings shares nearer to the truth, so the bars may be wide, never
    narrow; in an empty group the bar is 1.
    """
    runs = [release() for _ in range(200)]
    for known in (False, True):
        if known:
            runs = [release(totals=TRUE.sum(axis=-1)) for _ in range(200)]
        truth = TRUE[:, 0] / TRUE[:, 0].sum(axis=-1, keepdims=True)  # the two large groups
        z = np.array([(one.shares[:, 0] - truth) / one.shares_std[:, 0] for one in runs])
        inside = int((np.abs(z) < 2.0).sum())
        assert inside > stats.binom.ppf(1e-6, z.size, 0.9545)
        assert {float(one.shares_std[1, 1].min()) for one in runs if one.totals[1, 1] < 1.0} <= {
            1.0
        }
        # Away from 0 the bars are not wide either: one cluster of each group, so independent.
        squares = float(np.square(z[:, :, 0]).sum())
        law = stats.chi2(z[:, :, 0].size)
        assert law.ppf(1e-6) < squares < law.isf(1e-6)


def test_tables_fit_together() -> None:
    """Counts of at least 0 that add up to the totals; shares that add up to 1, also where empty."""
    for totals in (None, TRUE.sum(axis=-1)):
        released = release(totals=totals)
        assert released.consistent_counts.min() >= 0.0
        assert released.consistent_counts.sum(axis=-1) == pytest.approx(released.totals)
        assert released.shares.sum(axis=-1) == pytest.approx(np.ones((2, 2)))
        if totals is not None:
            assert released.totals.tolist() == totals.tolist()
        else:
            sums = np.maximum(released.counts.sum(axis=-1), 0.0)
            assert released.totals == pytest.approx(sums)
    assert release(totals=TRUE.sum(axis=-1)).shares[1, 1] == pytest.approx([1.0 / 3.0] * 3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_guarantee_and_spends(epsilon: float) -> None:
    """One charge, the whole grant to the last unit."""
    released = release(epsilon=epsilon)
    assert released.guarantee == global_guarantee(epsilon=epsilon, delta=1e-6)
    (spend,) = released.spends
    assert spend.rho_units == Budget(released.guarantee).rho_units
    assert (spend.tag, spend.mechanism) == ("clusters by group", "gaussian_histogram")
    assert released.counts_std == pytest.approx(1.0 / math.sqrt(2e-18 * spend.rho_units), rel=1e-6)


def test_one_group_and_no_customers() -> None:
    """Without attributes the table has one axis; without customers it is all noise."""
    released = release(load_kw=np.zeros((0, 1)), groups={}, levels={})
    assert released.counts.shape == released.shares.shape == (3,)
    assert np.isfinite(released.shares).all()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("epsilon", {"epsilon": 0.0}),
        ("epsilon", {"epsilon": None}),
        ("delta", {"delta": 0.0}),
        ("delta", {"delta": 1.0}),
        ("groups", {"groups": {"area": ["north"], "class": ["home"]}}),
        ("groups", {"groups": {}}),
        ("levels", {"levels": {"area": ["a", "a"], "class": ["home"]}}),
        ("totals", {"totals": [1.0]}),
        ("totals", {"totals": [[1.0, 2.0], [3.0, -1.0]]}),
        ("centroids", {"centroids": [[math.nan]]}),
        ("load_kw", {"centroids": [[1.0, 2.0]]}),
        ("load_kw", {"load_kw": np.zeros(3)}),
    ],
)
def test_bad_arguments_are_named(
    field: str, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field and rule, before anything is charged."""

    def never(*_: object, **__: object) -> None:
        pytest.fail("the budget was charged")

    monkeypatch.setattr(Budget, "charge", never)
    with pytest.raises(InvalidParameterError, match=f"^{field}.* must be"):
        release(**changes)
