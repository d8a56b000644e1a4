"""What an estimator is given and cannot take is refused, and no word of it is quoted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wattveil import LeaveOneOutKMeans, LoadSynthesizer, PrivateKMeans

SECRET = 3.14159265
SLOTS = 24
GIVEN: dict[str, tuple[object, str]] = {
    "scalar": (SECRET, "X must be a matrix"),
    "one row": (np.full(SLOTS, SECRET), "X must be a matrix"),
    "three axes": (np.full((2, 2, SLOTS), SECRET), "X must be a matrix"),
    "complex": (np.full((3, SLOTS), SECRET + 0j), "Complex data not supported"),
    "text": ([[f"{SECRET}x"] * SLOTS], "X is an array of real numbers"),
    "bytes": ([[f"{SECRET}x".encode()] * SLOTS], "X is an array of real numbers"),
    "ragged": ([[SECRET], [SECRET, SECRET]], "X is an array of real numbers"),
    "too large": ([[10**400, SECRET]], "X is an array of real numbers"),
    "masked": (
        np.ma.masked_array(np.full((4, SLOTS), SECRET), mask=np.eye(4, SLOTS, dtype=bool)),
        "X is no masked array: leave rows out or fill them with NaN",
    ),
}
ROWS = np.random.default_rng(3).random((9, SLOTS))
ESTIMATORS: list[Callable[..., Any]] = [PrivateKMeans, LoadSynthesizer, LeaveOneOutKMeans]


@pytest.mark.parametrize(("given", "words"), GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_is_no_matrix_is_refused_unseen(
    kind: Callable[..., Any], given: object, words: str
) -> None:
    """Neither the error nor what it came from has a digit of a load."""
    fitted = kind(n_clusters=2).fit(ROWS)
    takes = [kind(n_clusters=2).fit, fitted.predict]
    if hasattr(fitted, "release_labels"):
        takes += [lambda rows: fitted.release_labels(rows, epsilon=1.0, customer_ids=["a"])]
    for take in takes:
        with pytest.raises(ValueError, match=words) as caught:
            take(given)
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_another_width_is_refused_in_the_words_of_scikit_learn(kind: Callable[..., Any]) -> None:
    """They quote nothing but the width, which is public."""
    with pytest.raises(ValueError, match=r"X has 7 features, but .* is expecting 24") as caught:
        kind(n_clusters=2).fit(ROWS).predict(np.full((2, 7), SECRET))
    assert str(SECRET) not in str(caught.value)
