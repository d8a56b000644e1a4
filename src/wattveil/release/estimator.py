"""What private estimators add to those of scikit-learn: tables, a chart, no model selection."""

import sys
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Self

import numpy as np

from wattveil.errors import ModelSelectionError
from wattveil.release.pipeline_check import NO_SCORE, refuse_model_selection
from wattveil.release.weak_guarantees import warn_of_delta
from wattveil.sklearn_base import check_is_fitted
from wattveil.web.curves import Chart, Curve, slot_labels
from wattveil.web.results import ChartedResult, ResultTable, one_line

_PIPELINE = "sklearn.pipeline"
_BUDGET = {"epsilon", "delta"}


class PrivateEstimator(ChartedResult):
    """Base of estimators whose centroids are released; once fitted, they are a result."""

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; refuse it to model selection, which begins with one."""
        refuse_model_selection()
        copy: Self = super().__sklearn_clone__()  # type: ignore[misc] # of scikit-learn
        return copy

    @property
    def score(self) -> Callable[..., object]:
        """Not available: the score of a private data set would be an exact number."""
        try:
            refuse_model_selection()
        except ModelSelectionError:
            if sys._getframe(1).f_globals.get("__name__") != _PIPELINE:  # noqa: SLF001 - as in `pipeline_check`
                raise
            # A Pipeline would replace the error by one that does not say why. The search goes on to
            # copy the estimator, before any fit, and is refused there.
            return refuse_model_selection
        raise AttributeError(f"{type(self).__name__} has no score: {NO_SCORE}")

    def _warn_of_delta(self, delta: float) -> None:
        """Warn if delta is too large for the released number of customers."""
        found: Any = self
        warn_of_delta(delta, float(found.cluster_sizes_.sum()))

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        check_is_fitted(self)
        return {"centroids": self._centroids, "cluster_sizes": self._cluster_sizes}

    def _centroids(self) -> ResultTable:
        found: Any = self
        n_clusters, n_slots = found.cluster_centers_.shape
        value, error = ("shape", "shape_std") if self._is_shape else ("load_kw", "std_kw")
        columns = {
            "cluster": np.repeat(np.arange(n_clusters), n_slots),
            "slot": np.tile(np.arange(n_slots), n_clusters),
            value: found.cluster_centers_.ravel(),
        }
        if hasattr(self, "cluster_centers_std_"):
            columns[error] = self.cluster_centers_std_.ravel()
        return ResultTable(columns, ("cluster", "slot"))

    def _cluster_sizes(self) -> ResultTable:
        found: Any = self
        columns = {
            "cluster": np.arange(len(found.cluster_sizes_)),
            "customers": found.cluster_sizes_,
            "customers_std": found.cluster_sizes_std_,
        }
        return ResultTable(columns, ("cluster",))

    def _chart(self) -> Chart:
        found: Any = self
        errors = getattr(self, "cluster_centers_std_", [None] * len(found.cluster_centers_))
        labels = slot_labels(found.cluster_centers_.shape[1], getattr(self, "slots_per_day", None))
        pairs = zip(found.cluster_centers_, errors, strict=True)
        curves = [
            Curve(f"cluster {number}", number, labels, load, std)
            for number, (load, std) in enumerate(pairs)
        ]
        for number in np.flatnonzero(~getattr(self, "supported_", np.ones(len(curves), bool))):
            size = found.cluster_sizes_[number], found.cluster_sizes_std_[number]
            curves[number] = curves[number].unsupported(*size)
        unit = "relative to unit L2 norm" if self._is_shape else "kW per customer"
        return Chart(curves, unit)

    @property
    def _is_shape(self) -> bool:
        return bool(getattr(self, "normalise", False))

    def _statement(self) -> str:
        guarantee = getattr(self, "guarantee_", None)
        return "" if guarantee is None else one_line(guarantee.sentence)

    def __repr__(self) -> str:
        """Show the budget, and every other parameter that is not its default."""
        defaults = signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()  # type: ignore[attr-defined] # of scikit-learn
            if name in _BUDGET or repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """Return the released clusters; before `fit`, scikit-learn's diagram of the parameters."""
        if hasattr(self, "guarantee_"):
            return super()._repr_html_()
        from sklearn.utils import estimator_html_repr  # noqa: PLC0415 - for notebooks alone

        diagram: str = estimator_html_repr(self)
        return diagram
