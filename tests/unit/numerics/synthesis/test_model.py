"""A released model: the requested number of customers, of its own moments, the same for a seed."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.statistical.harness import accepts, covariance_p, refuses
from wattveil import compiled
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError, WattveilError
from wattveil.numerics.synthesis import SyntheticModel, population_model
from wattveil.numerics.synthesis.coordinates import Coordinates, TransformName
from wattveil.numerics.synthesis.noisy_moments import expected_sizes, quantile_maps

ALPHA_KW = 15.0


def make_model(transform: TransformName = "asinh", **changes: Any) -> SyntheticModel:  # noqa: ANN401
    """Return a model of three clusters; the second exports, the third is small and wide."""
    hours = np.arange(24)
    home = 0.5 + 0.3 * np.cos(2.0 * np.pi * (hours - 19) / 24)
    centroids = np.array([home, home - np.exp(-(((hours - 12) / 3.0) ** 2)), 4.0 * home])
    to = Coordinates(centroids=centroids, transform=transform, alpha_kw=ALPHA_KW)
    model = SyntheticModel(
        transform=transform,
        alpha_kw=ALPHA_KW,
        n_days=1,
        centroids=centroids,
        means=to.centres,
        covariances=np.array([0.5, 1.0, 2.0])[:, None, None] * to.prior,
        margins=np.zeros(expected_sizes(24).shape),
        customers=np.array([700.2, 250.5, 49.3]),
        exports=np.array([0, 1, 0]),
        max_kw=40.0,
    )
    return replace(model, **changes)


@pytest.fixture(scope="module")
def skewed() -> Floats:
    """Return margins that are not normal."""
    margins: Floats = 0.4 * expected_sizes(24) * np.random.default_rng(8).normal(size=(8, 5))
    return margins


# --- how many, and of which cluster ---------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000, 65_536, 65_537])
def test_exactly_n_customers(n: int) -> None:
    """The requested number of valid rows is returned, with their clusters."""
    load_kw, clusters = make_model().sample(n, random_state=1)
    assert load_kw.shape == (n, 24)
    assert clusters.shape == (n,)
    assert np.isfinite(load_kw).all()


def largest_remainders(n: int, weights: list[float]) -> list[int]:
    """Return the seats of each weight, in exact fractions."""
    shares = [Fraction(weight) / sum(map(Fraction, weights)) * n for weight in weights]
    seats = [math.floor(share) for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda k: seats[k] - shares[k])
    for k in by_rest[: n - sum(seats)]:
        seats[k] += 1
    return seats


@settings(deadline=None)
@given(n=st.integers(0, 3000), weights=st.tuples(*[st.integers(0, 100)] * 3))
def test_mix_by_largest_remainders(n: int, weights: tuple[int, int, int]) -> None:
    """Each cluster gets its share to within one, and all together n; equal weights if all are 0."""
    model = make_model()
    by = [float(weight) for weight in weights]
    counted = np.bincount(model._cluster_batch(0, n, seed=0, by=by, random_mix=False), minlength=3)
    mix = by if sum(by) > 0.0 else [1.0, 1.0, 1.0]
    exact = np.array([n * weight / sum(mix) for weight in mix])
    assert counted.sum() == n
    assert (np.abs(counted - exact) < 1.0).all()
    rests = exact - np.floor(exact)
    if np.unique(rests.round(9)).size == 3:  # ties may fall either way
        assert counted.tolist() == largest_remainders(n, mix)


def test_released_mix_is_the_default() -> None:
    """Clusters come in their released numbers, and not one after the other."""
    _, clusters = make_model().sample(1000, random_state=3)
    assert np.bincount(clusters).tolist() == [700, 251, 49]
    firsts = np.bincount(clusters[:500], minlength=3)
    assert np.abs(firsts - np.array([350, 125, 25])).max() < 15


def test_a_random_mix_differs_as_groups_of_homes_do() -> None:
    """Numbers of a cluster are binomial, in a whole sample and in neighbouring customers of it."""
    model, n_samples = make_model(), 400
    for own in (60, 6):
        counts = {
            random_mix: np.array(
                [
                    model.sample(60, random_state=seed, random_mix=random_mix)[1][:own] == 1
                    for seed in range(n_samples)
                ]
            ).sum(axis=1)
            for random_mix in (True, False)
        }
        share = 250.5 / 1000.0
        expected = own * share * (1.0 - share)
        ratio = counts[True].var(ddof=1) / expected
        low, high = (
            float(stats.chi2.ppf(chance, n_samples - 1)) / (n_samples - 1)
            for chance in (5e-7, 1.0 - 5e-7)
        )
        assert low < ratio < high
        assert abs(counts[True].mean() - own * share) < 5.0 * math.sqrt(expected / n_samples)
        assert counts[False].var(ddof=1) < 0.5 * expected


def test_a_random_mix_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has the customers of the whole sample; a cluster of weight 0 never occurs."""
    monkeypatch.setattr(population_model, "BATCH", 500)
    model = make_model()
    load_kw, clusters = model.sample(1200, random_state=2, by=[1, 3, 0], random_mix=True)
    parts = [
        model.batch(number, 1200, random_state=2, by=[1, 3, 0], random_mix=True)
        for number in range(3)
    ]
    assert np.array_equal(np.vstack([part for part, _ in parts]), load_kw)
    assert np.array_equal(np.concatenate([part for _, part in parts]), clusters)
    assert np.bincount(clusters, minlength=3)[2] == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"n_customers": -1}, "n_customers"),
        ({"n_customers": 2.5}, "n_customers"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": "many"}, "random_state"),
        ({"by": [1.0]}, "by"),
        ({"by": [1.0, -1.0, 1.0]}, "by"),
        ({"by": [1.0, math.nan, 1.0]}, "by"),
        ({"by": ["many", 1, 1]}, "by"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], field: str) -> None:
    """The error names the field."""
    with pytest.raises(WattveilError, match=field):
        make_model().sample(**{"n_customers": 3, "random_state": 1, **arguments})


# --- the same again -------------------------------------------------------------------------------


def test_same_seed_same_customers(monkeypatch: pytest.MonkeyPatch, skewed: Floats) -> None:
    """However it is taken: whole, in batches, in one thread, from the saved model."""
    model = make_model(margins=skewed)
    load_kw, clusters = model.sample(70_000, random_state=5)
    parts = list(model.batches(70_000, random_state=5))
    assert len(parts) == 2
    assert np.array_equal(np.concatenate([load for load, _ in parts]), load_kw)
    assert np.array_equal(np.concatenate([own for _, own in parts]), clusters)
    again = SyntheticModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert np.array_equal(again.sample(70_000, random_state=5)[0], load_kw)
    monkeypatch.setattr(compiled, "THREADS", 1)
    assert np.array_equal(model.sample(70_000, random_state=5)[0], load_kw)


def test_other_seed_other_customers() -> None:
    """No customer of one seed comes back with another, and none is drawn twice."""
    model = make_model()
    first, second = (model.sample(3000, random_state=seed)[0] for seed in (1, 2))
    assert len(np.unique(np.vstack([first, second]).round(12), axis=0)) == 6000


# --- valid customers ------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["asinh", "log"])
def test_no_customer_is_outside_the_public_range(transform: TransformName, skewed: Floats) -> None:
    """Finite, root-mean-square load within the bound, no export where none was found."""
    model = make_model(transform, max_kw=2.5, margins=skewed)
    load_kw, clusters = model.sample(30_000, random_state=6)
    assert np.isfinite(load_kw).all()
    rms = np.sqrt(np.square(load_kw).mean(axis=1))
    assert rms.max() <= 2.5 * (1.0 + 1e-12)
    assert (rms > 2.4999).any()  # some were clipped: the bound is active
    assert load_kw[clusters != 1].min() >= 0.0
    assert load_kw[clusters == 1].min() < -0.3


def test_extreme_models_give_valid_customers(skewed: Floats) -> None:
    """Numbers that noise may have made absurd do not reach the customers."""
    wild = make_model(
        means=np.full((3, 24), 30.0), covariances=1e6 * make_model().covariances, margins=9 * skewed
    )
    load_kw, _ = wild.sample(2000, random_state=1)
    assert np.isfinite(load_kw).all()
    assert np.sqrt(np.square(load_kw).mean(axis=1)).max() <= 40.0 * (1.0 + 1e-12)


def forward(x: Floats) -> Floats:
    """Return asinh above 0, a straight line below."""
    return np.where(x > 0.0, np.arcsinh(x), x)


def backward(y: Floats) -> Floats:
    """Return what `forward` came from."""
    return np.where(y > 0.0, np.sinh(y), y)


# --- the law of a sample --------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["asinh", "log"])
def test_sample_has_the_moments_of_the_model(transform: TransformName) -> None:
    """After the transform a cluster is N(mean, covariance); a covariance 3 % off is refused."""
    model = make_model(transform, exports=np.ones(3, dtype=np.int64), max_kw=1e6)
    to = Coordinates(centroids=model.centroids, transform=transform, alpha_kw=ALPHA_KW)
    for k in range(3):
        load_kw, clusters = model.sample(
            60_000, random_state=10 + k, by=[float(j == k) for j in range(3)]
        )
        scale = to.scales[k]
        y = forward(load_kw / scale) if transform == "asinh" else (
            np.log(load_kw + ALPHA_KW) / scale
        )  # fmt: skip
        centred = y - model.means[k]
        assert (clusters == k).all()
        accepts(covariance_p(centred, model.covariances[k]))
        refuses(covariance_p(centred, 1.03 * model.covariances[k]))
        z = centred.mean(axis=0) / np.sqrt(np.diag(model.covariances[k]) / len(y))
        assert np.abs(z).max() < 5.5


def test_slots_have_the_margin_of_the_model(skewed: Floats) -> None:
    """The quantiles of each slot are g(m + sigma u(z)) computed without a table."""
    model = make_model(margins=skewed)
    load_kw, _ = model.sample(60_000, random_state=4, by=[0.0, 1.0, 0.0])
    scale = 0.7 * math.sqrt(np.square(model.centroids[1]).mean())
    chances = np.array([0.02, 0.1, 0.5, 0.9, 0.98])
    u = quantile_maps(skewed, 24, stats.norm.ppf(chances))
    std = np.sqrt(np.diag(model.covariances[1]))[:, None]
    expected = scale * backward(model.means[1][:, None] + std * u)
    below = np.array([(load_kw[:, [h]] < expected[h]).mean(axis=0) for h in range(24)])
    error = np.sqrt(chances * (1.0 - chances) / len(load_kw))
    assert (np.abs(below - chances) / error).max() < 5.5
    normal = scale * backward(model.means[1][:, None] + std * stats.norm.ppf(chances))
    below = np.array([(load_kw[:, [h]] < normal[h]).mean(axis=0) for h in range(24)])
    assert (np.abs(below - chances) / error).max() > 20.0  # normal margins would be refused


def test_tables_are_fine_enough(skewed: Floats) -> None:
    """A straight line between two entries is off by less than 1e-4 of the cluster's load."""
    model = make_model(margins=skewed)
    between = np.linspace(-3.0, 3.0, 7001)
    table_z = np.linspace(-6.0, 6.0, model._tables.shape[2])
    to = Coordinates(centroids=model.centroids, transform="asinh", alpha_kw=ALPHA_KW)
    u = quantile_maps(skewed, 24, between)
    for k in range(3):
        std = np.sqrt(np.diag(model.covariances[k]))[:, None]
        exact = to.backward(model.means[k][:, None] + std * u, k)
        exact = exact if model.exports[k] else np.maximum(exact, 0.0)
        lines = np.array([np.interp(between, table_z, table) for table in model._tables[k]])
        rms = math.sqrt(np.square(model.centroids[k]).mean())
        # The margins themselves are lines on a grid of 400 chances, with corners.
        assert np.abs(lines - exact).mean() < 1e-4 * rms
        assert np.abs(lines - exact).max() < 1e-2 * np.abs(exact).max()


# --- saved and read -------------------------------------------------------------------------------


def test_round_trip() -> None:
    """JSON keeps every bit."""
    model = make_model("log")
    again = SyntheticModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again.to_dict() == model.to_dict()
    assert again.exports.dtype == np.int64


BROKEN: dict[str, Any] = {
    "transform": "sqrt",
    "alpha_kw": 0.0,
    "n_days": 7,
    "max_kw": math.inf,
    "means": [1.0, 2.0],
    "centroids": [[1.0]],
    "covariances": np.zeros((3, 24, 24)).tolist(),
    "margins": [[0.0]],
    "customers": [1.0, -1.0, 1.0],
    "exports": [0],
}


@pytest.mark.parametrize("field", BROKEN)
def test_what_is_no_model_is_refused(field: str) -> None:
    """Each field that is broken is named."""
    saved = make_model().to_dict()
    with pytest.raises(InvalidParameterError, match=field):
        SyntheticModel.from_dict({**saved, field: BROKEN[field]})


def test_numbers_that_are_none_are_refused() -> None:
    """NaN, words, and missing or unknown fields."""
    saved = make_model().to_dict()
    for field, broken in (("customers", math.nan), ("customers", "many"), ("exports", math.nan)):
        with pytest.raises(WattveilError, match=field):
            SyntheticModel.from_dict({**saved, field: [1.0, broken, 1.0]})
    with pytest.raises(InvalidParameterError, match="secret"):
        SyntheticModel.from_dict({**saved, "secret": 1})
    del saved["means"]
    with pytest.raises(InvalidParameterError, match="means"):
        SyntheticModel.from_dict(saved)
