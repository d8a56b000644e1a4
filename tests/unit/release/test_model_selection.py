"""Model selection is refused: each fit would spend, and the score of held-out rows is exact."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from wattveil import LeaveOneOutKMeans, LoadSynthesizer, PrivateKMeans
from wattveil.errors import ModelSelectionError
from wattveil.privacy.guarantee import Budget
from wattveil.release.pipeline_check import check_caller, refuse_model_selection
from wattveil.simulate import simulate_load_kw

ROWS = np.array(simulate_load_kw(customers=40))
GRID = {"n_clusters": [2, 3]}


def constant(*_: object) -> float:
    """Score everything alike."""
    return 0.0


SEARCHES: dict[str, Callable[[Any], object]] = {
    "GridSearchCV": lambda one: GridSearchCV(one, GRID).fit(ROWS),
    "GridSearchCV, own score": lambda one: GridSearchCV(one, GRID, scoring=constant).fit(ROWS),
    "GridSearchCV, processes": lambda one: GridSearchCV(
        one, GRID, scoring=constant, n_jobs=2, error_score=np.nan
    ).fit(ROWS),
    "RandomizedSearchCV": lambda one: RandomizedSearchCV(one, GRID, n_iter=2).fit(ROWS),
    "cross_val_score": lambda one: cross_val_score(one, ROWS),
    "cross_validate": lambda one: cross_validate(one, ROWS, scoring=constant),
    "cross_val_predict": lambda one: cross_val_predict(one, ROWS),
    "learning_curve": lambda one: learning_curve(one, ROWS, None, scoring=constant),
    "validation_curve": lambda one: validation_curve(
        one, ROWS, None, param_name="n_clusters", param_range=[2], scoring=constant
    ),
}


@pytest.fixture(autouse=True)
def nothing_is_spent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A charge fails the test, whatever catches the error."""
    charged: list[object] = []
    monkeypatch.setattr(Budget, "charge", lambda _, spend: charged.append(spend))
    yield
    assert not charged


@pytest.mark.parametrize("kind", [PrivateKMeans, LoadSynthesizer, LeaveOneOutKMeans])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_refused_before_anything_is_spent(name: str, kind: type) -> None:
    """The message names the tool, both reasons and what to do instead."""
    with pytest.raises(ModelSelectionError, match="budget") as refusal:
        SEARCHES[name](kind())
    assert refusal.value.caller == name.partition(",")[0]
    for part in ("spends", "exact", "plan", "simulated", "public data"):
        assert part in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["GridSearchCV", "cross_val_score", "GridSearchCV, own score", "cross_validate"]
)
def test_a_pipeline_hides_nothing(name: str) -> None:
    """Its last step is copied with it."""
    pipeline = make_pipeline(Normalizer(), PrivateKMeans())
    search = SEARCHES[name]
    with pytest.raises(ModelSelectionError):
        search(pipeline)


def test_fit_itself_refuses_without_a_copy() -> None:
    """Where no copy is made, as in a worker of another process, `fit` looks at its callers."""
    source = "def _fit_and_score(fit):\n    return fit()\n"
    space: dict[str, Any] = {"__name__": "sklearn.model_selection._validation"}
    exec(source, space)  # noqa: S102 - a frame of that module
    with pytest.raises(ModelSelectionError, match="_fit_and_score"):
        space["_fit_and_score"](check_caller)


def test_without_model_selection_there_is_nothing_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frame of a package that was never loaded does not exist."""
    monkeypatch.delitem(sys.modules, "sklearn.model_selection")
    refuse_model_selection()


def test_there_is_no_score() -> None:
    """The attribute explains itself; tools that ask whether there is one get the right answer."""
    estimator = PrivateKMeans()
    assert not hasattr(estimator, "score")
    with pytest.raises(AttributeError, match=r"exact number.*plan"):
        estimator.score(ROWS)


def test_copies_and_splits_by_hand_are_no_search() -> None:
    """Whoever splits rows or copies an estimator decides on each fit."""
    assert clone(PrivateKMeans(n_clusters=3)).n_clusters == 3
    assert len(list(KFold(2).split(ROWS))) == 2
    frozen = FrozenEstimator(PrivateKMeans())
    assert clone(frozen) is frozen
