"""BIC of each family against SciPy's own fits; the family that made the data is found."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from wattveil.errors import InvalidParameterError
from wattveil.lab.evaluation import slot_distributions as distributions
from wattveil.lab.evaluation.slot_distributions import FAMILIES, bic_table

SCIPY: dict[str, tuple[Any, dict[str, float]]] = {
    "normal": (stats.norm, {}),
    "log-normal": (stats.lognorm, {"floc": 0.0}),
    "gamma": (stats.gamma, {"floc": 0.0}),
    "Weibull": (stats.weibull_min, {"floc": 0.0}),
    "skew-normal": (stats.skewnorm, {}),
    "Student t": (stats.t, {}),
}
SAMPLES: dict[str, Any] = {
    "normal": stats.norm(5.0, 0.7),
    "log-normal": stats.lognorm(0.8, scale=0.4),
    "gamma": stats.gamma(1.7, scale=0.3),
    "Weibull": stats.weibull_min(2.6, scale=900.0),
    "skew-normal": stats.skewnorm(8.0, 1.0, 2.0),
    "Student t": stats.t(3.0, 40.0, 0.5),
}


@pytest.mark.parametrize("made_by", SAMPLES)
@pytest.mark.parametrize("family", SCIPY)
def test_likelihood_is_scipys(family: str, made_by: str) -> None:
    """On data of any family, our largest log-likelihood is at least SciPy's, and never above it
    where SciPy's search is known to arrive.
    """
    x = np.abs(SAMPLES[made_by].rvs(300, random_state=np.random.default_rng(1)))
    law, fixed = SCIPY[family]
    right = made_by == family and not fixed  # from the truth SciPy finds its way
    start = SAMPLES[family].args if right else ()
    arguments = dict(zip(("loc", "scale"), start[-2:], strict=False)) | fixed
    theirs = law.logpdf(x, *law.fit(x, *start[:-2], **arguments)).sum()
    ours = FAMILIES[family][1](x)
    assert ours >= theirs - 0.02
    if right or fixed:
        assert ours <= theirs + 0.02


def test_asinh_normal_is_a_density() -> None:
    """Its likelihood is the normal one of asinh(x / s) times the slope of the transform."""
    x = np.sinh(np.random.default_rng(2).normal(0.5, 0.6, 400))
    found = distributions._bic_of_slot(x, alpha_kw=0.0, scale=1.0)[-1]
    y = np.arcsinh(x)
    logs = stats.norm.logpdf(y, y.mean(), y.std()) - 0.5 * np.log1p(np.square(x))
    assert found == pytest.approx(2.0 * math.log(400) - 2.0 * logs.sum(), rel=1e-9)


@pytest.mark.parametrize("made_by", SAMPLES)
def test_the_right_family_is_found(made_by: str) -> None:
    """With 4,000 customers a slot the family that made them is the best, or within 10 of it."""
    x = SAMPLES[made_by].rvs((4000, 2), random_state=np.random.default_rng(3))
    table = bic_table(np.abs(x), np.zeros(4000, dtype=np.int64), n_clusters=1)
    mine = table.families.index(made_by)
    assert (table.bic[0, :, mine] <= np.nanmin(table.bic[0], axis=1) + 10.0).all()


def test_table_by_cluster() -> None:
    """Clusters are distinguished; small ones, constant slots and values out of range are marked."""
    generator = np.random.default_rng(4)
    load_kw = generator.gamma(2.0, 1.0, (130, 3))
    labels = np.repeat([0, 1, 2, -1], [50, 60, 10, 10])
    load_kw[labels == 1, 0] = 1.0  # one value
    load_kw[labels == 1, 1] -= 3.0  # export
    load_kw[3, 2] = math.nan  # a customer without data
    table = bic_table(load_kw, labels, n_clusters=3)
    assert table.bic.shape == (3, 3, len(FAMILIES))
    assert np.isnan(table.bic[2]).all()
    assert np.isnan(table.bic[1, 0]).all()
    positive = [table.families.index(name) for name in ("log-normal", "gamma", "Weibull")]
    assert np.isinf(table.bic[1, 1, positive]).all()
    assert np.isfinite(np.delete(table.bic[1, 1], positive)).all()
    assert sum(table.best.values()) == 5
    assert str(table).startswith("PRIVATE")
    lifted = bic_table(load_kw, labels, n_clusters=3, alpha_kw=3.5)
    assert np.isfinite(lifted.bic[1, 1]).all()
    alone = bic_table(load_kw[labels == 0], np.zeros(50, dtype=np.int64), n_clusters=1)
    assert np.array_equal(alone.bic[0], table.bic[0])


def test_bad_input_is_named() -> None:
    """Each argument has its rule."""
    rows, labels = np.ones((3, 2)), np.zeros(3, dtype=np.int64)
    with pytest.raises(InvalidParameterError, match="labels"):
        bic_table(rows, labels[:2], n_clusters=1)
    with pytest.raises(InvalidParameterError, match="n_clusters"):
        bic_table(rows, labels, n_clusters=0)
    with pytest.raises(InvalidParameterError, match="alpha_kw"):
        bic_table(rows, labels, n_clusters=1, alpha_kw=-1.0)
    with pytest.raises(InvalidParameterError, match="load_kw"):
        bic_table(rows[0], labels, n_clusters=1)
