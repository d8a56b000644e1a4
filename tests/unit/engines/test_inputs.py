"""Releases of rows that another engine keeps: the same integers, labels that retries keep."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.block_engine import BlockRows
from tests.release_transcripts import record, replay
from wattveil import (
    PrivateKMeans,
    cluster_shares,
    load_duration_curve,
    load_shapes,
    private_kmeans_by_class,
    release_labels,
)
from wattveil.arrays import Floats
from wattveil.engines.local import LocalRows, text_column
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms import response

SLOTS, LEVELS = 6, ("home", "shop")
CENTROIDS = np.array([[0.2] * SLOTS, [2.0] * SLOTS])
GUARANTEE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return customers with missing values, export and very large loads."""
    rows = np.random.default_rng(6).lognormal(-1.0, 1.0, size=(60, SLOTS))
    rows[3, 2], rows[4], rows[5, 0] = np.nan, 1e6, -np.inf
    rows[9:20] *= -1.0
    return rows


CLASSES = text_column(("home", "shop", "farm")[number % 3] for number in range(60))
AREAS = text_column(number % 2 for number in range(60))
NAMES = text_column(f"meter {number}" for number in range(60))


@pytest.mark.parametrize(
    "release",
    [
        lambda load, own: load_shapes(load, groups=own(CLASSES), levels=LEVELS, **GUARANTEE),
        lambda load, _: load_shapes(load, **GUARANTEE),
        lambda load, own: load_duration_curve(
            load, groups=own(CLASSES), levels=LEVELS, slots_per_day=3, **GUARANTEE
        ),
        lambda load, own: cluster_shares(
            load,
            centroids=CENTROIDS,
            groups={"area": own(AREAS), "class": own(CLASSES)},
            levels={"class": LEVELS, "area": ("0", "1")},
            **GUARANTEE,
        ),
        lambda load, own: private_kmeans_by_class(
            PrivateKMeans(n_clusters=2, **GUARANTEE), load, own(CLASSES), LEVELS
        ),
    ],
    ids=["shapes", "one shape", "duration", "shares", "by class"],
)
def test_groups_are_the_same_in_every_engine(
    release: Callable[..., object], load_kw: Floats
) -> None:
    """Given the same noisy numbers, every query has the same exact integers."""
    draws = record(lambda: release(load_kw, np.ndarray.tolist))
    again = replay(lambda: release(BlockRows(load_kw), BlockRows), draws)
    assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]
    assert any(draw.exact.any() for draw in draws)


@pytest.mark.parametrize(
    ("load", "groups"),
    [
        (BlockRows(np.ones((2, SLOTS))), ["home", "shop"]),
        (BlockRows(np.ones((2, SLOTS))), LocalRows(CLASSES[:2])),
        (np.ones((2, SLOTS)), BlockRows(CLASSES[:2])),
    ],
)
def test_groups_are_of_the_engine_of_the_load(load: object, groups: object) -> None:
    """Values in memory do not fit beside rows of another engine, nor the other way round."""
    with pytest.raises(InvalidParameterError, match="groups must be"):
        load_shapes(load, groups=groups, levels=LEVELS, **GUARANTEE)  # type: ignore[arg-type]


def test_groups_in_memory_are_values_or_rows(load_kw: Floats) -> None:
    """A list of values and a column of `LocalRows` are the same groups."""
    values, column = CLASSES.tolist(), LocalRows(CLASSES)
    draws = record(lambda: load_shapes(load_kw, groups=values, levels=LEVELS, **GUARANTEE))
    rows = LocalRows(load_kw)
    again = replay(lambda: load_shapes(rows, groups=column, levels=LEVELS, **GUARANTEE), draws)
    assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]


def test_columns_in_memory_fit_only_beside_their_own(load_kw: Floats) -> None:
    """As many values as customers, in memory; the error does not contain the number."""
    for other in (LocalRows(NAMES[:7]), BlockRows(NAMES)):
        with pytest.raises(InvalidParameterError, match="names must be") as refused:
            LocalRows(load_kw).beside(other, field="names")
        assert "60" not in str(refused.value)


# --- labels ---------------------------------------------------------------------------------------


def _labels(load_kw: Floats, *, epsilon: float, real_ids: bool = True) -> dict[str, int]:
    released = release_labels(
        BlockRows(load_kw),
        centroids=CENTROIDS,
        sizes=[1.0, 1.0],
        epsilon=epsilon,
        customer_ids=BlockRows(NAMES),
        real_ids=real_ids,
    )
    assert list(released.ids) == sorted(released.ids)
    assert [(one.tag, one.mechanism) for one in released.spends] == [("labels", "keyed_response")]
    return dict(zip(released.ids, released.labels.tolist(), strict=True))


def test_labels_of_another_engine_are_those_of_the_channel(load_kw: Floats) -> None:
    """At a large epsilon all labels with data are right; others are drawn from the last row."""
    nearest = (
        np.square(np.nan_to_num(load_kw, neginf=0.0)[:, None] - CENTROIDS)
        .sum(axis=2)
        .argmin(axis=1)
    )
    found = _labels(load_kw, epsilon=40.0)
    has_data = [bool(np.isfinite(row).all()) for row in load_kw]
    for name, label, known in zip(NAMES, nearest.tolist(), has_data, strict=True):
        assert not known or found[name] == label
    assert set(found) == set(NAMES)


def test_two_releases_draw_different_labels(load_kw: Floats) -> None:
    """Each release has a key of its own: at a small epsilon 60 labels do not repeat."""
    assert _labels(load_kw, epsilon=0.1) != _labels(load_kw, epsilon=0.1)


def test_pseudonyms_and_words_have_keys_of_their_own(
    load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published pseudonym does not reveal the random word of a label."""
    keys: list[bytes] = []
    fresh = response.fresh_key

    def seen() -> bytes:
        keys.append(fresh())
        return keys[-1]

    monkeypatch.setattr(response, "fresh_key", seen)
    assert not set(_labels(load_kw, epsilon=1.0, real_ids=False)) & set(NAMES)
    assert len(set(keys)) == len(keys) == 2


def test_an_estimator_labels_customers_of_another_engine(load_kw: Floats) -> None:
    """`PrivateKMeans.release_labels` leaves the rows with their engine."""
    estimator = PrivateKMeans(n_clusters=2, epsilon=4.0).fit(load_kw)
    released = estimator.release_labels(
        BlockRows(load_kw), epsilon=1.0, customer_ids=BlockRows(NAMES)
    )
    assert estimator.guarantee_with(released).epsilon <= 5.0
    assert released.sizes.sum() == pytest.approx(60.0)
