"""What the estimators take from scikit-learn, which the extra `release` installs.

Without it, releases can be verified but not computed: base classes are empty, so that modules with
estimators can be imported, and every function refuses with the name of the extra.
"""

from importlib.util import find_spec
from typing import Any, NoReturn

from wattveil.errors import MissingExtraError

BaseEstimator: Any = type("BaseEstimator", (), {})
ClusterMixin: Any = type("ClusterMixin", (), {})


def _refuse(estimator: object, *_: object, **__: object) -> NoReturn:
    raise MissingExtraError(f"the estimator {type(estimator).__name__}", "release")


check_is_fitted: Any = _refuse
clone: Any = _refuse
validate_data: Any = _refuse

if find_spec("sklearn") is not None:
    from sklearn import base
    from sklearn.utils import validation

    BaseEstimator, ClusterMixin, clone = base.BaseEstimator, base.ClusterMixin, base.clone
    check_is_fitted, validate_data = validation.check_is_fitted, validation.validate_data
