"""Check how scikit-learn calls a private estimator: in a `Pipeline`, or in model selection.

The guarantee of a private estimator covers its own releases. A scaler before it, fitted on the same
rows, passes on exact statistics, which that guarantee does not cover: a warning. A search over
parameters fits many times, each time with the whole budget, and scores held-out rows exactly: an
error.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wattveil.errors import ModelSelectionError, UnprotectedStepWarning

if TYPE_CHECKING:
    from types import FrameType

    from sklearn.pipeline import Pipeline


_MODEL_SELECTION = "sklearn.model_selection"

NO_SCORE = (
    "every fit spends the whole budget again, and the score of held-out customers is an exact"
    " number that no guarantee covers. Choose parameters without the private data: with a plan"
    " (`wattveil release --plan`, `plan_kmeans`), or in a plain loop over simulated customers"
    " (wattveil.simulate) or public data"
)


def refuse_model_selection() -> None:
    """Raise an error if the caller is `GridSearchCV`, `cross_val_score` or another of their kind.

    All of them copy the estimator before the first fit, look for its ``score``, and call ``fit``
    from a function of their package, also in another thread or process. Each of the three calls
    this function.
    """
    if _MODEL_SELECTION not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - `inspect.stack` reads source files
    found = ""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_MODEL_SELECTION):
            owner = frame.f_locals.get("self")
            found = frame.f_code.co_name if owner is None else type(owner).__name__
        frame = frame.f_back
    if found:
        raise ModelSelectionError(found, NO_SCORE)


def check_caller() -> None:
    """Refuse model selection; warn about every step that was fitted before the calling estimator.

    To be called by ``fit`` of a private estimator. Walks up the call stack and inspects, for each
    `Pipeline` that is being fitted, the steps before the calling one. A step is reported if its
    tags state that it must be fitted. Stateless steps (`Normalizer`, `FunctionTransformer`) are not
    reported, nor is `FrozenEstimator`, whose ``fit`` does nothing. Work that scikit-learn delegates
    to other threads or processes has its own stack, and is not inspected.
    """
    refuse_model_selection()
    if "sklearn.pipeline" not in sys.modules:  # then no Pipeline can exist
        return
    from sklearn.pipeline import Pipeline  # noqa: PLC0415 - loaded already

    below: list[object] = []  # the objects whose methods were called below, the innermost first
    found: list[str] = []
    depth, outermost = 1, 1
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - `inspect.stack` reads source files
    while frame is not None:
        owner = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(owner, Pipeline):
            outermost = depth
            if not any(owner is one for one in below):
                found += [_name(step) for step in _steps_before(owner, below)]
        if owner is not None:
            below.append(owner)
        frame, depth = frame.f_back, depth + 1
    level = _level_of_caller(outermost)
    for name in found:
        warnings.warn(
            f"{name} is fitted on the private rows in front of a private estimator in a Pipeline:"
            " what it learns is exact, and the privacy guarantee does not cover it. Leave it out,"
            " or fit it on public data and wrap it in sklearn.frozen.FrozenEstimator.",
            UnprotectedStepWarning,
            stacklevel=level,
        )


def _steps_before(pipeline: "Pipeline", below: list[object]) -> Iterator[object]:
    """Return the steps that were fitted before the one whose fit is under way."""
    steps = [step for _, step in pipeline.steps]
    running = [row for row, step in enumerate(steps) if any(step is one for one in below)]
    if not running:  # with a cache, a step is a copy of the one that is listed
        kinds = {type(one) for one in below}
        running = [row for row, step in enumerate(steps) if type(step) in kinds]
    for step in steps[: running[-1] if running else -1]:
        yield from _fitted(step)


def _fitted(step: Any) -> Iterator[object]:  # noqa: ANN401 - any object in a Pipeline
    """Return the step if it must be fitted; for a nested Pipeline, those of its steps."""
    from sklearn.frozen import FrozenEstimator  # noqa: PLC0415 - loaded by then
    from sklearn.pipeline import Pipeline  # noqa: PLC0415 - loaded by then
    from sklearn.utils import get_tags  # noqa: PLC0415 - loaded by then

    if step is None or step == "passthrough" or isinstance(step, FrozenEstimator):
        return
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            yield from _fitted(inner)
        return
    try:
        is_fitted = get_tags(step).requires_fit
    except (AttributeError, TypeError, ValueError):  # without tags it may have state
        is_fitted = True
    if is_fitted:
        yield step


def _name(step: object) -> str:
    return type(step).__name__


def _level_of_caller(depth: int) -> int:
    """Return the stack level, relative to the calling function, of the caller of scikit-learn."""
    frame: FrameType | None = sys._getframe(depth + 1)  # noqa: SLF001 - as above
    level = depth + 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sklearn."):
        frame, level = frame.f_back, level + 1
    return level
