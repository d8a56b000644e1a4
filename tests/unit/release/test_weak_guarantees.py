"""Warnings about weak guarantees: from public and released numbers alone."""

import warnings

import numpy as np
import pytest

from wattveil.errors import WeakGuaranteeWarning
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.release.weak_guarantees import (
    NOT_PRIVATE,
    REAL_IDS,
    choice_warnings,
    delta_warning,
    guarantee_warnings,
    warn_of_delta,
)
from wattveil.simulate import simulate_load_kw


@pytest.mark.parametrize(
    ("delta", "customers", "warns"),
    [
        (1e-6, 1000, False),
        (0.999e-3, 1000, False),
        (1e-3, 1000, True),
        (2e-3, 1000, True),
        (1e-6, 10**6, True),
        (5e-3, 200, True),
    ],
)
def test_delta_at_or_above_one_over_customers_is_warned_of(
    delta: float, customers: int, *, warns: bool
) -> None:
    """At the border itself too."""
    assert (delta_warning(delta, customers) is not None) == warns


def test_the_warning_names_delta_estimate_and_rule() -> None:
    """The message names what to change."""
    text = delta_warning(0.01, 2000) or ""
    for words in ("delta = 0.01", "1/customers = 0.0005", "2,000 customers", "well below"):
        assert words in text


@pytest.mark.parametrize(("epsilon", "warns"), [(0.1, False), (10.0, False), (10.1, True)])
def test_an_epsilon_above_ten_is_warned_of(epsilon: float, *, warns: bool) -> None:
    """Beside a warning about delta, not instead of it."""
    found = guarantee_warnings(epsilon=epsilon, delta=0.01, customers=1000)
    assert len(found) == 1 + warns
    assert any(f"epsilon = {epsilon:g}" in text for text in found) == warns


@pytest.mark.parametrize(
    ("is_instance", "real_ids", "found"),
    [
        (False, False, ()),
        (False, True, (REAL_IDS,)),
        (True, False, (NOT_PRIVATE,)),
        (True, True, (NOT_PRIVATE, REAL_IDS)),
    ],
)
def test_tier_and_real_ids_are_warned_of(
    found: tuple[str, ...], *, is_instance: bool, real_ids: bool
) -> None:
    """Each on its own, in this order."""
    assert choice_warnings(is_instance=is_instance, real_ids=real_ids) == found


CENTROIDS = np.full((2, 24), 0.5) * np.array([[1.0], [2.0]])


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateKMeans(n_clusters=2, delta=0.05),
        LoadSynthesizer(n_clusters=2, delta=0.05),
        LoadSynthesizer(n_clusters=2, delta=0.05, centroids=CENTROIDS),
    ],
    ids=["kmeans", "synthesis", "model only"],
)
def test_fit_warns_its_caller_of_a_large_delta(
    estimator: PrivateKMeans,
) -> None:
    """Once, at the line that called fit, and from the released count."""
    load_kw = simulate_load_kw(customers=200, seed=1)
    with pytest.warns(WeakGuaranteeWarning, match="not below 1/customers") as found:
        estimator.fit(load_kw)
    assert [one.filename for one in found] == [__file__]
    assert "released, noisy number" in str(found[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.set_params(delta=1e-6).fit(load_kw)


def test_the_warning_depends_on_the_released_count_alone() -> None:
    """A count below 1 is taken as 1: no delta is above 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_delta(0.5, -3.0)
        warn_of_delta(0.01, 99.0)
    with pytest.warns(WeakGuaranteeWarning, match="100 customers"):
        warn_of_delta(0.01, 100.0)


def test_a_product_is_not_warned_of_twice() -> None:
    """What another package of Wattveil releases has the warning in its plan."""
    caller = {"__name__": "wattveil.products.clusters", "warn_of_delta": warn_of_delta}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("warn_of_delta(0.5, 100.0)", caller)  # noqa: S102 - a frame of another module
