"""Steps that learn from private rows in front of a private estimator are warned of."""

import sys
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from wattveil.errors import ModelSelectionError, UnprotectedStepWarning
from wattveil.release.pipeline_check import check_caller

ROWS = np.arange(60.0).reshape(20, 3)


class Private(ClusterMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A stand-in for a private estimator: its fit looks for fitted steps, and does no more."""

    def __init__(self, *, size: int = 1) -> None:
        self.size = size

    def fit(self, X: object, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Look up the stack."""
        check_caller()
        self.labels_ = np.zeros(len(ROWS))
        return self

    def transform(self, X: object) -> object:  # noqa: N803 - scikit-learn's
        """Return what came."""
        return X

    def score(self, X: object, y: object = None) -> float:  # noqa: N803, ARG002 - scikit-learn's
        """Return a score, for a search."""
        return 0.0


class Untagged:
    """A third-party step without estimator tags."""

    def fit_transform(self, X: object, y: object = None) -> object:  # noqa: N803, ARG002
        """Return what came."""
        return X

    def fit(self, X: object, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Do nothing."""
        return self

    def transform(self, X: object) -> object:  # noqa: N803 - scikit-learn's
        """Return what came."""
        return X


def warned_of(pipeline: Any, method: str = "fit") -> list[str]:  # noqa: ANN401 - of scikit-learn
    """Fit, and return the names of the steps that were warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(pipeline, method)(ROWS)
    ours = [one for one in caught if issubclass(one.category, UnprotectedStepWarning)]
    assert {one.filename for one in ours} <= {__file__}  # it points to the caller of fit
    return [str(one.message).split()[0] for one in ours]


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_a_scaler_in_front_is_warned_of(method: str) -> None:
    """Whichever method fits: the scaler has seen exact rows."""
    assert warned_of(make_pipeline(StandardScaler(), Private()), method) == ["StandardScaler"]


def test_every_fitted_step_is_named() -> None:
    """One warning a step, in order."""
    pipeline = make_pipeline(StandardScaler(), Normalizer(), MinMaxScaler(), Private())
    assert warned_of(pipeline) == ["StandardScaler", "MinMaxScaler"]


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Normalizer(), FunctionTransformer(np.log1p)),
        ("passthrough",),
        (make_pipeline(Normalizer(), FunctionTransformer()),),
        (FrozenEstimator(StandardScaler().fit([[1.0, 2.0, 3.0]])),),
    ],
)
def test_steps_that_learn_nothing_are_fine(steps: tuple[Any, ...]) -> None:
    """Stateless steps, alone or nested, and one that was fitted on public data and frozen."""
    assert warned_of(make_pipeline(*steps, Private())) == []


@pytest.mark.parametrize(
    ("step", "names"),
    [
        (ColumnTransformer([("all", Normalizer(), [0])]), ["ColumnTransformer"]),
        (FeatureUnion([("one", Normalizer())]), ["FeatureUnion"]),
        (make_pipeline(Normalizer(), make_pipeline(RobustScaler())), ["RobustScaler"]),
        (Untagged(), ["Untagged"]),
    ],
)
def test_combining_and_untagged_steps_count_as_fitted(step: object, names: list[str]) -> None:
    """Whatever does not say that it is stateless."""
    assert warned_of(Pipeline([("step", step), ("private", Private())])) == names


def test_pipelines_around_a_pipeline_are_looked_at() -> None:
    """The innermost first."""
    inner = make_pipeline(MinMaxScaler(), Private())
    assert warned_of(make_pipeline(StandardScaler(), inner)) == ["MinMaxScaler", "StandardScaler"]


def test_a_search_between_pipeline_and_estimator_is_refused() -> None:
    """Whatever is fitted before it: each of its fits would spend the whole budget."""
    search = GridSearchCV(Private(), {"size": [1]}, cv=2, error_score="raise")
    with pytest.raises(ModelSelectionError, match="GridSearchCV"):
        warned_of(make_pipeline(StandardScaler(), search))


@pytest.mark.parametrize("cached", [False, True])
def test_steps_after_a_private_one_are_postprocessing(tmp_path: Path, *, cached: bool) -> None:
    """They see what was released; with a cache, the private step is a copy."""
    memory = str(tmp_path) if cached else None
    pipeline = make_pipeline(Private(), StandardScaler(), MinMaxScaler(), memory=memory)
    assert warned_of(pipeline) == []
    before = make_pipeline(RobustScaler(), Private(), StandardScaler(), memory=memory)
    assert warned_of(before) == ["RobustScaler"]


def test_without_a_pipeline_there_is_nothing_to_warn_of() -> None:
    """Also if a scaler was fitted by hand: nothing tells."""
    assert warned_of(Private()) == []


def test_the_check_does_not_load_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its pipelines are not loaded there is none, and none is looked for."""
    monkeypatch.delitem(sys.modules, "sklearn.pipeline")
    check_caller()
    assert "sklearn.pipeline" not in sys.modules
