"""Released synthetic customers: guarantee, influence of one customer, properties of the sample."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tests.edge_case_load import CANARIES, every_edge_case
from tests.release_transcripts import record, replay, squared_signal
from wattveil import LoadSynthesizer, compiled
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError, SimulatedNoiseError, WattveilError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Neighbours, Tier, Unit
from wattveil.privacy.noise import NoiseSource
from wattveil.simulate import simulate_load_kw

_NEVER_MIND = 1e5
"""An epsilon that hides nothing."""


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return a few hundred homes, some of whom export."""
    return simulate_load_kw(customers=400, seed=5)


def grant_of(synthesizer: LoadSynthesizer) -> float:
    """Return mu^2, the largest squared signal of a fit."""
    return 2.0 * Budget(synthesizer.guarantee()).rho_units / accounting.RHO_UNITS


def test_released_attributes(load_kw: Floats) -> None:
    """Everything named in the docstring is there, finite and of its shape."""
    synthesizer = LoadSynthesizer(n_clusters=4).fit(load_kw)
    model = synthesizer.model_
    assert model.means.shape == model.centroids.shape == (4, 24)
    assert model.covariances.shape == (4, 24, 24)
    assert np.array_equal(model.centroids, synthesizer.cluster_centers_)
    assert np.array_equal(model.customers, synthesizer.cluster_sizes_)
    assert (synthesizer.cluster_sizes_std_ > 0.0).all()
    assert synthesizer.guarantee_.tier is Tier.GLOBAL
    assert synthesizer.guarantee_.neighbours is Neighbours.ZERO_OUT
    assert synthesizer.guarantee_.unit is Unit.CUSTOMER
    assert synthesizer.public_choices_["load_transform"] == "asinh"
    again = pickle.loads(pickle.dumps(synthesizer))  # noqa: S301 - our own bytes
    rows, clusters = synthesizer.sample(500, random_state=1)
    assert np.array_equal(again.sample(500, random_state=1)[0], rows)
    assert np.array_equal(model.sample(500, random_state=1)[1], clusters)
    assert not hasattr(clone(synthesizer), "model_")


def test_sizes_have_their_errors() -> None:
    """The released numbers of customers differ from the true ones as much as they say."""
    rows = np.repeat([[1.0, 2.0], [9.0, 5.0]], 500, axis=0)
    scores: list[float] = []
    for _ in range(20):
        fitted = LoadSynthesizer(n_clusters=2, centroids=[[1.0, 2.0], [9.0, 5.0]]).fit(rows)
        scores.extend((fitted.cluster_sizes_ - 500.0) / fitted.cluster_sizes_std_)
    assert 0.4 < float(np.std(scores)) < 1.9  # 40 numbers: 1 +- 0.11
    assert abs(float(np.mean(scores))) < 1.0


@pytest.mark.usefixtures("cached_constants", "few_restarts")
@pytest.mark.parametrize("with_panels", [0, 60])
def test_as_many_synthetic_customers_export_as_real_ones(with_panels: int) -> None:
    """Also where their number alone is within the noise: the released curve is far below 0.

    1,000 homes at epsilon 1, of which 6 % or none have panels; medians of 41 releases, whose
    standard deviation is 0.005 (of seven: 0.014).
    """
    generator = np.random.default_rng(1)
    day = 0.3 + 0.3 * np.exp(-(((np.arange(24) - 18.0) / 3.0) ** 2))
    rows = day * np.exp(0.3 * generator.normal(size=(1000, 1)) + 0.1 * generator.normal(size=24))
    rows[:with_panels] -= 2.0 * np.exp(-(((np.arange(24) - 12.0) / 2.5) ** 2))
    found, counts = [], []
    for seed in range(41):
        fitted = LoadSynthesizer(n_clusters=3, epsilon=1.0).fit(rows)
        found.append((fitted.sample(4000, random_state=seed)[0] < 0.0).any(axis=1).mean())
        counts.append(fitted.cluster_sizes_std_.mean())
    assert float(np.median(counts)) > 15.0
    assert float(np.median(found)) == pytest.approx(with_panels / 1000, abs=0.025)


def test_sizes_that_are_known_count() -> None:
    """Exact sizes given with the centroids are kept; those of a wrong form are refused."""
    rows = np.repeat([[1.0, 2.0], [9.0, 5.0]], 500, axis=0)
    given: dict[str, Any] = {"n_clusters": 2, "centroids": [[1.0, 2.0], [9.0, 5.0]], "epsilon": 0.1}
    fitted = LoadSynthesizer(**given, sizes=[[500.0, 500.0], [1e-6, 1e-6]]).fit(rows)
    assert fitted.cluster_sizes_ == pytest.approx([500.0, 500.0], abs=1e-3)
    assert fitted.cluster_sizes_std_ == pytest.approx([1e-6, 1e-6])
    for wrong in ([500.0, 500.0], [[500.0, 500.0], [1.0, 0.0]]):
        with pytest.raises(InvalidParameterError, match="sizes"):
            LoadSynthesizer(**given, sizes=wrong).fit(rows)


def test_nothing_private_survives_the_fit(load_kw: Floats) -> None:
    """No attribute, nor anything in the model, has the length of the data."""
    synthesizer = LoadSynthesizer().fit(load_kw)
    kept = {**vars(synthesizer), **vars(synthesizer.model_)}
    for name, value in kept.items():
        assert len(load_kw) not in np.shape(value), name


@pytest.mark.parametrize("centroids", [None, np.ones((6, 24)) * np.arange(1, 7)[:, None]])
def test_spends_are_the_grant_to_the_last_unit(load_kw: Floats, centroids: Floats | None) -> None:
    """What the queries cost adds up to what (epsilon, delta) grants, in whole units."""
    synthesizer = LoadSynthesizer(centroids=centroids).fit(load_kw)
    granted = Budget(synthesizer.guarantee_).rho_units
    assert sum(spend.rho_units for spend in synthesizer.spends_) == granted
    tags = [spend.tag for spend in synthesizer.spends_]
    assert tags[-4:] == ["customers by cluster and export", "lengths", "moments", "margins"]
    model = sum(spend.rho_units for spend in synthesizer.spends_[-4:])
    assert model == pytest.approx(granted * (0.5 if centroids is None else 1.0), rel=1e-6)


# --- what one customer can change -----------------------------------------------------------------

SETTINGS: dict[str, dict[str, Any]] = {
    "weak": {"n_clusters": 5, "epsilon": 2.0},
    "log": {"n_clusters": 2, "epsilon": 8.0, "load_transform": "log"},
    "two days": {"n_clusters": 2, "epsilon": 30.0, "slots_per_day": 12, "clip_kw": 0.3},
    "centroids": {"n_clusters": 1, "epsilon": 2.0, "centroids": np.full((1, 24), 0.4)},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


@every_setting
@pytest.mark.untraced
def test_no_customer_moves_a_transcript_by_more_than_the_grant(
    load_kw: Floats, setting: dict[str, Any]
) -> None:
    """Given the same noisy numbers, queries with and without a customer differ by s^2 <= mu^2."""
    synthesizer = LoadSynthesizer(**setting)
    draws = record(lambda: synthesizer.fit(load_kw))
    grant = grant_of(synthesizer)
    moved = {}
    for name, canary in CANARIES.items():
        rows = np.vstack([load_kw[:7], canary, load_kw[7:]])
        with_canary = replay(lambda rows=rows: synthesizer.fit(rows), draws)  # type: ignore[misc]
        moved[name] = squared_signal(draws, with_canary)
    assert max(moved.values()) <= grant
    if synthesizer.clip_kw is None:  # all but the margins is used to the full
        assert moved["far above"] > 0.8 * grant


@every_setting
@pytest.mark.untraced
def test_all_that_is_kept_is_a_function_of_what_was_released(
    load_kw: Floats, setting: dict[str, Any]
) -> None:
    """Quite other data, handed the same noisy numbers, give the same model to the last bit."""
    synthesizer = LoadSynthesizer(**setting)
    draws = record(lambda: synthesizer.fit(load_kw))
    first = synthesizer.model_.to_dict(), synthesizer.cluster_sizes_std_
    for other in (3.0 * load_kw[:47], np.zeros((1001, 24)), np.full((1, 24), 1e9), load_kw[:0]):
        replay(lambda rows=other: synthesizer.fit(rows), draws)  # type: ignore[misc]  # bound at once
        assert synthesizer.model_.to_dict() == first[0]
        assert np.array_equal(synthesizer.cluster_sizes_std_, first[1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_that_are_no_numbers_contribute_nothing(load_kw: Floats, value: float) -> None:
    """A row with one bad value changes no exact number of any query."""
    bad = load_kw[0].copy()
    bad[3] = value
    synthesizer = LoadSynthesizer(n_clusters=3)
    draws = record(lambda: synthesizer.fit(load_kw))
    with_bad = replay(lambda: synthesizer.fit(np.vstack([bad, load_kw])), draws)
    assert squared_signal(draws, with_bad) == 0.0


def test_order_and_threads_change_no_exact_number(
    load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in another order, and one thread instead of two: the same integers in every query."""
    rows = np.vstack([load_kw, 0.7 * load_kw])
    synthesizer = LoadSynthesizer(n_clusters=3, clip_kw=0.3)
    draws = record(lambda: synthesizer.fit(rows))
    shuffled = np.random.default_rng(0).permutation(rows)
    assert squared_signal(draws, replay(lambda: synthesizer.fit(shuffled), draws)) == 0.0
    monkeypatch.setattr(compiled, "THREADS", 1)
    monkeypatch.setattr(compiled, "_SPANS", 1)
    assert squared_signal(draws, replay(lambda: synthesizer.fit(rows), draws)) == 0.0


def test_customers_add_up(load_kw: Floats) -> None:
    """The contributions of two groups add up: no customer changes the part of another."""
    synthesizer = LoadSynthesizer(n_clusters=3)
    draws = record(lambda: synthesizer.fit(load_kw))
    halves = [replay(lambda r=r: synthesizer.fit(r), draws) for r in (load_kw[:150], load_kw[150:])]  # type: ignore[misc]
    for whole, first, second in zip(draws, *halves, strict=True):
        assert np.array_equal(whole.exact, first.exact + second.exact)


def test_fit_rejects_injected_noise(load_kw: Floats, silent: NoiseSource) -> None:
    """Noise from an injected source never becomes a release."""
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        LoadSynthesizer().fit(load_kw)


# --- odd data and bad input -----------------------------------------------------------------------


@pytest.mark.parametrize("load_transform", ["asinh", "log"])
@every_edge_case
def test_any_data_gets_valid_customers(rows: Floats, load_transform: str) -> None:
    """No data set crashes the release or shows itself by an invalid customer."""
    for n_clusters in (1, 3):
        synthesizer = LoadSynthesizer(n_clusters=n_clusters, load_transform=load_transform)  # type: ignore[arg-type]
        made, clusters = synthesizer.fit(rows).sample(50, random_state=1)
        assert made.shape == (50, rows.shape[1])
        assert np.isfinite(made).all()
        assert np.sqrt(np.square(made).mean(axis=1)).max() <= 40.0 * (1.0 + 1e-12)
        assert 0 <= clusters.min() <= clusters.max() < n_clusters


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("load_transform", "sqrt"),
        ("load_transform", None),
        ("alpha_kw", 0.0),
        ("alpha_kw", -1.0),
        ("alpha_kw", math.nan),
        ("slots_per_day", 7),
        ("slots_per_day", -1),
        ("centroids", np.ones((5, 24))),
        ("centroids", np.ones((6, 23))),
        ("centroids", np.ones(24)),
        ("centroids", np.full((6, 24), math.nan)),
        ("centroids", [["a"]]),
        ("n_clusters", 0),
        ("epsilon", 0.0),
        ("clip_kw", -1.0),
        ("plausible_kw", (2.0, 1.0)),
    ],
)
def test_bad_parameters_are_named(field: str, value: object) -> None:
    """The error names the field; nothing is charged and nothing is set."""
    synthesizer = LoadSynthesizer(**{field: value})  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WattveilError, match=field):
        synthesizer.fit(np.ones((3, 24)))
    assert not hasattr(synthesizer, "spends_")
    assert not hasattr(synthesizer, "model_")


def test_bad_mix_is_named(load_kw: Floats) -> None:
    """Weights must fit the clusters."""
    synthesizer = LoadSynthesizer(n_clusters=2).fit(load_kw)
    with pytest.raises(InvalidParameterError, match="by must be 2 weights"):
        synthesizer.sample(5, random_state=1, by=[1.0])


# --- what comes out -------------------------------------------------------------------------------


def quantile_distance(first: Floats, second: Floats) -> float:
    """Return the mean W1 of the columns over their standard deviation, by sorted quantiles."""
    chances = (np.arange(200) + 0.5) / 200
    apart = np.abs(np.quantile(first, chances, axis=0) - np.quantile(second, chances, axis=0))
    return float((apart.mean(axis=0) / first.std(axis=0)).mean())


@pytest.mark.untraced
def test_customers_look_like_the_real_ones() -> None:
    """Without noise to speak of, slots, energy and correlations of homes come back."""
    rows = simulate_load_kw(customers=3000, seed=2)
    made, _ = LoadSynthesizer(epsilon=_NEVER_MIND).fit(rows).sample(20_000, random_state=1)
    assert quantile_distance(rows, made) < 0.12
    assert quantile_distance(rows.mean(axis=1)[:, None], made.mean(axis=1)[:, None]) < 0.12
    apart = np.subtract(np.corrcoef(rows.T), np.corrcoef(made.T))
    assert np.abs(apart).mean() < 0.12
    assert quantile_distance(rows, 1.3 * made) > 0.2  # thirty percent more load would be seen


@pytest.mark.untraced
def test_more_budget_is_closer() -> None:
    """At epsilon 0.1 customers are further from the real ones than at epsilon 10."""
    rows = simulate_load_kw(customers=800, seed=2)

    def distance(epsilon: float) -> float:
        found = LoadSynthesizer(epsilon=epsilon).fit(rows).sample(8000, random_state=1)[0]
        return quantile_distance(rows, found)

    at = {epsilon: np.median([distance(epsilon) for _ in range(3)]) for epsilon in (0.1, 10.0)}
    assert at[10.0] < 0.6 * at[0.1]


@pytest.mark.parametrize(("n_days", "load_transform"), [(2, "log"), (7, "asinh")])
@pytest.mark.untraced
def test_days_of_a_row_keep_their_differences(n_days: int, load_transform: str) -> None:
    """Weekends with twice the load come out with twice the load."""
    day = simulate_load_kw(customers=1500, seed=3)
    weekly = np.array([1.0] * (n_days - 1) + [2.0])
    rows = np.hstack([factor * day for factor in weekly])
    synthesizer = LoadSynthesizer(
        n_clusters=3,
        epsilon=_NEVER_MIND,
        slots_per_day=24,
        load_transform=load_transform,  # type: ignore[arg-type]
    )
    made, _ = synthesizer.fit(rows).sample(5000, random_state=1)
    assert made.shape == (5000, 24 * n_days)
    means = made.mean(axis=0).reshape(n_days, 24).mean(axis=1)
    np.testing.assert_allclose(means / means[0], weekly, rtol=0.2)
    assert means[-1] / means[0] > 1.6


def test_export_comes_out_as_export() -> None:
    """The share of negative hours and the depth of the midday export of homes with panels."""
    day = simulate_load_kw(customers=2000, seed=4)
    sun = 2.5 * np.exp(-(((np.arange(24) - 12.5) / 2.5) ** 2))
    rows = np.maximum(day, 0.05) - np.where(np.arange(2000) % 3 == 0, 1.0, 0.0)[:, None] * sun
    made, clusters = LoadSynthesizer(epsilon=_NEVER_MIND).fit(rows).sample(20_000, random_state=1)
    assert (made < 0.0).mean() == pytest.approx((rows < 0.0).mean(), rel=0.25)
    assert made[:, 12].mean() == pytest.approx(rows[:, 12].mean(), abs=0.1)
    depth = np.quantile(rows.min(axis=1), 0.1)
    assert np.quantile(made.min(axis=1), 0.1) == pytest.approx(depth, rel=0.3)
    assert np.unique(clusters).size == 6


def test_given_centroids_cost_nothing(load_kw: Floats) -> None:
    """They are used as they are, and the whole budget is for the model."""
    centroids = np.array([np.full(24, 0.3), np.full(24, 1.5)])
    synthesizer = LoadSynthesizer(n_clusters=2, centroids=centroids, epsilon=3.0)
    sizes = []
    for _ in range(4):  # the error of one is above the bound in one of 500 fits
        synthesizer.fit(load_kw)
        assert np.array_equal(synthesizer.cluster_centers_, centroids)
        assert len(synthesizer.spends_) == 4
        sizes.append(synthesizer.cluster_sizes_)
    labels = synthesizer.predict(load_kw)
    np.testing.assert_allclose(np.mean(sizes, axis=0), np.bincount(labels), atol=30.0)


def test_nothing_of_an_earlier_fit_remains(load_kw: Floats) -> None:
    """Errors of clusters that were looked for do not stand beside clusters that were given."""
    synthesizer = LoadSynthesizer(n_clusters=2).fit(load_kw)
    found = synthesizer.cluster_centers_
    assert hasattr(synthesizer, "cluster_centers_std_")
    synthesizer.set_params(centroids=found + 1.0).fit(load_kw)
    assert np.array_equal(synthesizer.cluster_centers_, found + 1.0)
    for name in ("cluster_centers_std_", "supported_", "n_distinguishable_", "size_scale_"):
        assert not hasattr(synthesizer, name)
