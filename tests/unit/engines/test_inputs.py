"""Releases of customers who are not here: the same integers, and labels that stay the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.elsewhere import ElsewhereRows
from tests.transcripts import record, replay
from wattveil import (
    PrivateKMeans,
    cluster_shares,
    load_duration_curve,
    load_shapes,
    private_kmeans_by_class,
    release_labels,
)
from wattveil.engines.local import LocalRows
from wattveil.engines.rows import text_column
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms import response

Floats = NDArray[np.float64]

SLOTS, LEVELS = 6, ("home", "shop")
CENTROIDS = np.array([[0.2] * SLOTS, [2.0] * SLOTS])
PROMISE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return customers with gaps, export and giants."""
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
        lambda load, own: load_shapes(load, groups=own(CLASSES), levels=LEVELS, **PROMISE),
        lambda load, _: load_shapes(load, **PROMISE),
        lambda load, own: load_duration_curve(
            load, groups=own(CLASSES), levels=LEVELS, slots_per_day=3, **PROMISE
        ),
        lambda load, own: cluster_shares(
            load,
            centroids=CENTROIDS,
            groups={"area": own(AREAS), "class": own(CLASSES)},
            levels={"class": LEVELS, "area": ("0", "1")},
            **PROMISE,
        ),
        lambda load, own: private_kmeans_by_class(
            PrivateKMeans(n_clusters=2, n_customers=60, **PROMISE), load, own(CLASSES), LEVELS
        ),
    ],
    ids=["shapes", "one shape", "duration", "shares", "by class"],
)
def test_groups_are_the_same_wherever_customers_are(
    release: Callable[..., object], load_kw: Floats
) -> None:
    """Handed the same noise, every ask has the same integers."""
    draws = record(lambda: release(load_kw, np.ndarray.tolist))
    again = replay(lambda: release(ElsewhereRows(load_kw), ElsewhereRows), draws)
    assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]
    assert any(draw.exact.any() for draw in draws)


@pytest.mark.parametrize(
    ("load", "groups"),
    [
        (ElsewhereRows(np.ones((2, SLOTS))), ["home", "shop"]),
        (ElsewhereRows(np.ones((2, SLOTS))), LocalRows(CLASSES[:2])),
        (np.ones((2, SLOTS)), ElsewhereRows(CLASSES[:2])),
        (LocalRows(np.ones((2, SLOTS))), LocalRows(CLASSES[:2])),
    ],
)
def test_groups_are_where_the_load_is(load: object, groups: object) -> None:
    """Values here do not fit to rows elsewhere, nor the other way round."""
    with pytest.raises(InvalidParameterError, match="groups must be"):
        load_shapes(load, groups=groups, levels=LEVELS, **PROMISE)  # type: ignore[arg-type]


def test_columns_in_memory_fit_only_beside_their_own(load_kw: Floats) -> None:
    """As many values as customers, and in memory too; the error does not say how many."""
    for other in (LocalRows(NAMES[:7]), ElsewhereRows(NAMES)):
        with pytest.raises(InvalidParameterError, match="names must be") as refused:
            LocalRows(load_kw).beside(other, field="names")
        assert "60" not in str(refused.value)


# --- labels ---------------------------------------------------------------------------------------


def _labels(load_kw: Floats, *, epsilon: float, real_ids: bool = True) -> dict[str, int]:
    released = release_labels(
        ElsewhereRows(load_kw),
        centroids=CENTROIDS,
        sizes=[1.0, 1.0],
        epsilon=epsilon,
        customer_ids=ElsewhereRows(NAMES),
        real_ids=real_ids,
    )
    assert list(released.ids) == sorted(released.ids)
    assert [(one.tag, one.mechanism) for one in released.spends] == [("labels", "keyed_response")]
    return dict(zip(released.ids, released.labels.tolist(), strict=True))


def test_labels_drawn_elsewhere_are_those_of_the_channel(load_kw: Floats) -> None:
    """At a large epsilon all are right; where data are missing any may be drawn."""
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


def test_two_releases_draw_anew(load_kw: Floats) -> None:
    """A key serves one release: at a small epsilon 60 labels do not come twice."""
    assert _labels(load_kw, epsilon=0.1) != _labels(load_kw, epsilon=0.1)


def test_pseudonyms_and_words_have_keys_of_their_own(
    load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published pseudonym is no way to the word behind a label."""
    keys, fresh = [], response.fresh_key

    def seen() -> object:
        keys.append(fresh())
        return keys[-1]

    monkeypatch.setattr(response, "fresh_key", seen)
    assert not set(_labels(load_kw, epsilon=1.0, real_ids=False)) & set(NAMES)
    assert len({key.value for key in keys}) == len(keys) == 2


def test_an_estimator_labels_customers_elsewhere(load_kw: Floats) -> None:
    """`PrivateKMeans.release_labels` leaves them where they are."""
    estimator = PrivateKMeans(n_clusters=2, epsilon=4.0).fit(load_kw)
    released = estimator.release_labels(
        ElsewhereRows(load_kw), epsilon=1.0, customer_ids=ElsewhereRows(NAMES)
    )
    assert estimator.guarantee_with(released).epsilon <= 5.0
    assert released.sizes.sum() == pytest.approx(60.0)
