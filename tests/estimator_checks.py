"""scikit-learn's checks of estimators, for estimators that add noise."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def every_check(
    estimators: Sequence[object], *, fails: Mapping[str, str], noisy: Collection[str]
) -> pytest.MarkDecorator:
    """Return a parametrisation (``estimator``, ``check``) with every check of scikit-learn.

    Parameters
    ----------
    estimators
        Estimators to check.
    fails
        Checks that always fail, with the reason; one that passes is an error.
    noisy
        Checks that are left out: they compare two fits, whose noise may or may not agree.
    """
    mark = parametrize_with_checks(
        estimators, expected_failed_checks=lambda _: dict(fails), xfail_strict=True
    ).mark
    names, cases = mark.args
    kept = [case for case in cases if _name_of(case) not in noisy]
    return pytest.mark.parametrize(names, kept, ids=mark.kwargs["ids"])


def _name_of(case: Any) -> str:  # noqa: ANN401 - a tuple, or pytest's set of parameters
    _, check = getattr(case, "values", case)
    name: str = getattr(check, "func", check).__name__
    return name
