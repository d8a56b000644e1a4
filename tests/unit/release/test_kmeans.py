"""The global tier: scikit-learn's contract, influence of one customer, independent checks."""

import math
import pickle
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from tests.edge_case_load import CANARIES, every_edge_case
from tests.estimator_checks import every_check
from tests.release_transcripts import Draws, record, replay, squared_signal
from tests.simulated_load import simulated_homes
from wattveil import compiled
from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidParameterError, SimulatedNoiseError
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.cluster_merge import Merge, SelectionQuery, selection_query
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Neighbours, Tier, Unit
from wattveil.privacy.noise import NoiseSource
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.release.randomised_labels import composed_guarantee
from wattveil.release.synthetic import LoadSynthesizer

_PRIVATE = "how many rows there are is private: no number of them may be refused"
_NO_LABELS = "exact labels are private: they are predicted, not kept"


def homes(customers: int, seed: int) -> Floats:
    """Return simulated homes, without empty ones and very large ones."""
    rows = simulated_homes(customers, seed=seed)
    peaks = np.abs(rows).max(axis=1)
    small: Floats = rows[(peaks > 0.0) & (peaks < 3.0)]
    return small


@pytest.fixture(scope="module")
def load_kw() -> Floats:
    """Return a few hundred homes."""
    return homes(400, seed=5)


def accuracy_loss(rows: Floats, centroids: Floats, best: float) -> float:
    """Return (r(private) - r(exact)) / r(exact), by a plain loop."""
    distances = [float(np.square(centroids - row).sum(axis=1).min()) for row in rows]
    return float(np.mean(distances)) / best - 1.0


@every_check(
    [PrivateKMeans(n_clusters=2), LoadSynthesizer(n_clusters=2)],
    fails={"check_clustering": _NO_LABELS, "check_estimators_empty_data_messages": _PRIVATE},
    noisy=["check_fit_idempotent"],
)
@pytest.mark.usefixtures("cached_constants", "few_restarts")
def test_scikit_learn_contract(
    estimator: PrivateKMeans, check: Callable[[PrivateKMeans], None]
) -> None:
    """Every check of scikit-learn holds, but for those that noise or privacy breaks."""
    check(estimator)


def test_sizes_have_an_error_without_noise(load_kw: Floats) -> None:
    """Customers change clusters after the last step, whatever the budget."""
    km = PrivateKMeans(n_clusters=3, epsilon=1000.0).fit(load_kw)
    remains = kmeans_tuning.COUNT_BIAS * km.cluster_sizes_
    assert (km.cluster_sizes_std_ > remains).all()
    assert km.cluster_sizes_std_.max() < 2.0 * remains.max()


def test_released_attributes(load_kw: Floats) -> None:
    """Everything named in the docstring is there, finite and of its shape."""
    km = PrivateKMeans(n_clusters=4).fit(load_kw)
    assert km.cluster_centers_.shape == km.cluster_centers_std_.shape == (4, 24)
    assert np.isfinite(km.cluster_centers_).all()
    assert (km.cluster_centers_std_ > 0.0).all()
    assert (km.cluster_sizes_ >= 0.0).all()
    assert (km.cluster_sizes_std_ > 0.0).all()
    assert 1 <= km.n_distinguishable_ <= 4
    assert km.size_scale_ is not None
    assert km.size_scale_[0] > 0.0
    assert km.guarantee_.tier is Tier.GLOBAL
    assert (km.guarantee_.neighbours, km.guarantee_.unit) == (Neighbours.ZERO_OUT, Unit.CUSTOMER)
    assert km.public_choices_["n_clusters"] == 4
    again = pickle.loads(pickle.dumps(km))  # noqa: S301 - our own bytes
    assert np.array_equal(again.predict(load_kw), km.predict(load_kw))
    assert not hasattr(clone(km), "cluster_centers_")


def test_nothing_private_survives_the_fit(load_kw: Floats) -> None:
    """No attribute has a row, or anything of the length of the data."""
    km = PrivateKMeans().fit(load_kw)
    for name, value in vars(km).items():
        assert len(load_kw) not in np.shape(value), name


@pytest.mark.parametrize("normalise", [False, True])
def test_spends_are_the_grant_to_the_last_unit(load_kw: Floats, *, normalise: bool) -> None:
    """What the queries cost adds up to what (epsilon, delta) grants, in whole units."""
    km = PrivateKMeans(normalise=normalise).fit(load_kw)
    granted = Budget(km.guarantee_).rho_units
    assert sum(spend.rho_units for spend in km.spends_) == granted
    bought = [spend for spend in km.spends_ if spend.tag == "number of customers"]
    assert len(bought) == 1
    assert ("sizes" in [spend.tag for spend in km.spends_]) is not normalise


def test_tight_budget_finds_the_clusters() -> None:
    """With next to no noise the loss is that of K-means within two percent."""
    rows = homes(3000, seed=6)
    km = PrivateKMeans(n_clusters=4, epsilon=300.0).fit(rows)
    best = k_means(rows, 4, seed=0, n_init=10).loss
    assert accuracy_loss(rows, km.cluster_centers_, best) < 0.02
    km = PrivateKMeans(n_clusters=4, epsilon=300.0, normalise=True).fit(rows)
    shapes = km.comparable(rows)
    best = k_means(shapes, 4, seed=0, n_init=10).loss
    assert accuracy_loss(shapes, km.cluster_centers_, best) < 0.02
    assert np.array_equal(
        km.predict(rows),
        np.square(shapes[:, None] - km.cluster_centers_).sum(axis=2).argmin(axis=1),
    )


def test_more_budget_is_more_accurate(load_kw: Floats) -> None:
    """The loss at epsilon 10 is far below that at epsilon 0.1."""
    best = k_means(load_kw, 6, seed=0, n_init=3).loss

    def loss(epsilon: float) -> float:
        centroids = PrivateKMeans(epsilon=epsilon).fit(load_kw).cluster_centers_
        return accuracy_loss(load_kw, centroids, best)

    losses = {epsilon: np.median([loss(epsilon) for _ in range(5)]) for epsilon in (0.1, 10.0)}
    assert losses[10.0] < 0.3 * losses[0.1]


# --- what one customer can change -----------------------------------------------------------------


def test_a_fit_that_predicts(load_kw: Floats) -> None:
    """`fit_predict` gives the labels that `predict` gives after it."""
    km = PrivateKMeans(n_clusters=2)
    labels = km.fit_predict(load_kw)
    assert labels.tolist() == km.predict(load_kw).tolist()


def test_a_lone_row_is_no_matrix() -> None:
    """It is refused in words of ours: scikit-learn's would quote it."""
    with pytest.raises(InvalidParameterError, match="X must be a matrix with one row per customer"):
        PrivateKMeans().fit(np.zeros(24))


def test_another_number_of_columns_is_refused_in_the_words_of_scikit_learn() -> None:
    """They quote nothing but the width, which is public."""
    fitted = PrivateKMeans(n_clusters=2).fit(np.ones((9, 24)))
    with pytest.raises(ValueError, match="X has 7 features, but PrivateKMeans is expecting 24"):
        fitted.predict(np.ones((9, 7)))


SETTINGS: dict[str, dict[str, Any]] = {
    "weak": {"n_clusters": 5, "epsilon": 2.0},
    "population mean": {"n_clusters": 5, "epsilon": 0.05},
    "one cluster": {"n_clusters": 1, "epsilon": 0.05},
    "shapes": {"n_clusters": 5, "epsilon": 2.0, "normalise": True},
    "shells and colour": {"n_clusters": 2, "epsilon": 8.0},
    "all coordinates": {"n_clusters": 2, "epsilon": 100.0, "normalise": True},
    "clipped": {"n_clusters": 2, "epsilon": 30.0, "clip_kw": 0.3},
}


@cache
def recorded(name: str) -> tuple[PrivateKMeans, Draws]:
    """Return an estimator of `SETTINGS`, and what it drew for a few hundred homes."""
    km = PrivateKMeans(**SETTINGS[name])
    return km, record(lambda: km.fit(homes(400, seed=5)))


@pytest.mark.untraced
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
def test_no_customer_moves_a_transcript_by_more_than_the_grant(
    load_kw: Floats, canary: Floats, name: str
) -> None:
    """Each query, after the same released numbers, differs by s^2 <= mu^2 with and without one."""
    km, draws = recorded(name)
    with_canary = replay(lambda: km.fit(np.vstack([load_kw[:7], canary, load_kw[7:]])), draws)
    far_outside = np.abs(canary).max() > 1e4 and len(SETTINGS[name]) == 2
    for one, other, spend in zip(draws, with_canary, km.spends_, strict=True):
        apart = sum(int(step) ** 2 for step in (one.exact - other.exact).ravel())
        moved = apart / Fraction(one.scale) ** 2  # to the last bit
        granted = Fraction(2 * spend.rho_units, accounting.RHO_UNITS)
        assert moved <= granted
        # Clipped, it uses all it may; but if all merges have the centroid next to it.
        assert moved > 0.999 * granted or not far_outside or spend.tag == "merge selection"


def test_choice_of_merge_is_queried_and_charged_where_it_is_open(
    monkeypatch: pytest.MonkeyPatch, load_kw: Floats
) -> None:
    """Whether it is open depends on released numbers; the expected noise is the noise drawn."""
    foreseen: list[float] = []

    def watched(merges: Sequence[Merge], *, std: float) -> SelectionQuery | None:
        foreseen.append(std)
        return selection_query(merges, std=std) if len(foreseen) < 3 else None

    monkeypatch.setattr("wattveil.numerics.kmeans.cluster_merge.selection_query", watched)
    settings: dict[str, Any] = {"n_clusters": 5, "epsilon": 2.0}
    budget = Budget(PrivateKMeans(**settings).guarantee())
    for model, share in (
        (PrivateKMeans(**settings), 1.0),
        (LoadSynthesizer(**settings), 0.5),
        (PrivateKMeans(**settings), None),
    ):
        queried = [one for one in model.fit(load_kw).spends_ if one.tag == "merge selection"]
        assert len(queried) == (share is not None)
        if share is not None:
            rest = share * (1.0 - kmeans_tuning.LOAD_MEAN_SHARE)
            assert queried[0].rho_units == budget.share(rest * kmeans_tuning.SELECTION_SHARE)
            rho = queried[0].rho_units / accounting.RHO_UNITS
            assert 1.0 / (2.0 * foreseen[-1] ** 2) == pytest.approx(rho)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.untraced
def test_all_that_is_kept_is_a_function_of_what_was_released(
    load_kw: Floats, setting: dict[str, Any]
) -> None:
    """Quite other data, handed the same noisy numbers, give the same estimator to the last bit."""
    km = PrivateKMeans(**setting)
    draws = record(lambda: km.fit(load_kw))
    first = dict(vars(km))
    for other in (3.0 * load_kw[:47], np.zeros((1001, 24)), np.full((1, 24), 1e9), load_kw[:0]):
        replay(lambda rows=other: km.fit(rows), draws)  # type: ignore[misc]  # bound at once
        for name, value in first.items():
            assert np.array_equal(vars(km)[name], value), name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_that_are_no_numbers_contribute_nothing(load_kw: Floats, value: float) -> None:
    """A row with one bad value changes no exact number of any query."""
    bad = load_kw[0].copy()
    bad[3] = value
    km = PrivateKMeans(n_clusters=3)
    draws = record(lambda: km.fit(load_kw))
    with_bad = replay(lambda: km.fit(np.vstack([bad, load_kw])), draws)
    assert squared_signal(draws, with_bad) == 0.0


def test_customer_alone_in_a_cluster(load_kw: Floats) -> None:
    """Neighbours that differ in whether a cluster is empty stay within the grant."""
    large = np.full(24, 35.0)
    crowd = 0.01 * load_kw
    km = PrivateKMeans(n_clusters=2, epsilon=5.0)
    draws = record(lambda: km.fit(np.vstack([crowd, large])))
    without = replay(lambda: km.fit(crowd), draws)
    grant = 2.0 * Budget(km.guarantee()).rho_units / accounting.RHO_UNITS
    assert 0.0 < squared_signal(draws, without) <= grant


def test_order_and_threads_change_no_exact_number(
    load_kw: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in another order, and one thread instead of two: the same integers in every query."""
    km = PrivateKMeans(n_clusters=3, clip_kw=0.3)  # some rows are clipped, some are not
    draws = record(lambda: km.fit(load_kw))
    shuffled = np.random.default_rng(0).permutation(load_kw)
    assert squared_signal(draws, replay(lambda: km.fit(shuffled), draws)) == 0.0
    monkeypatch.setattr(compiled, "THREADS", 1)
    monkeypatch.setattr(compiled, "_SPANS", 1)
    assert squared_signal(draws, replay(lambda: km.fit(load_kw), draws)) == 0.0


def test_fit_rejects_injected_noise(load_kw: Floats, silent: NoiseSource) -> None:
    """Noise from an injected source never becomes a release."""
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        PrivateKMeans().fit(load_kw)


# --- odd data and bad input -----------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [False, True])
@every_edge_case
def test_any_data_gets_a_valid_answer(rows: Floats, *, normalise: bool) -> None:
    """No data set crashes the release or shows itself by an infinite number."""
    for n_clusters in (1, 3):
        km = PrivateKMeans(n_clusters=n_clusters, normalise=normalise).fit(rows)
        assert km.cluster_centers_.shape == (n_clusters, rows.shape[1])
        assert np.isfinite(km.cluster_centers_).all()
        assert np.isfinite(km.cluster_centers_std_).all()
        assert np.isfinite(km.cluster_sizes_).all()


def test_many_clusters(load_kw: Floats) -> None:
    """More clusters than customers are accepted."""
    assert PrivateKMeans(n_clusters=60).fit(load_kw[:50]).cluster_centers_.shape == (60, 24)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", 1001),
        ("n_clusters", 2.5),
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", math.nan),
        ("delta", 0.0),
        ("delta", 1.0),
        ("clip_kw", 0.0),
        ("plausible_kw", (1.0, 2.0)),
        ("plausible_kw", (-1.0, 2.0)),
        ("plausible_kw", (1.0,)),
        ("plausible_kw", (1e-300, 1e300)),
        ("public_library", np.ones((3, 5))),
        ("public_library", np.zeros((1, 24))),
        ("public_library", np.full((1, 24), math.nan)),
        ("public_library", np.ones(24)),
    ],
)
def test_bad_parameters_are_named(field: str, value: object) -> None:
    """The error names the field; nothing is charged and nothing is set."""
    km = PrivateKMeans(**{field: value})  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidParameterError, match=field):
        km.fit(np.ones((3, 24)))
    assert not hasattr(km, "spends_")


def test_public_inputs_are_used(load_kw: Floats) -> None:
    """An own library and a clip change the queries; the guarantee stays."""
    library = np.vstack([np.ones(24), np.eye(24)[18] + 0.2])
    km = PrivateKMeans(n_clusters=2, public_library=library, epsilon=50.0).fit(load_kw)
    assert km.guarantee_.epsilon == 50.0
    clipped = PrivateKMeans(n_clusters=1, clip_kw=0.01, epsilon=50.0).fit(load_kw)
    # All rows are scaled to a root mean square of 0.01 kW: so is their mean, at most.
    assert np.sqrt(np.mean(np.square(clipped.cluster_centers_))) < 0.03


# --- by class -------------------------------------------------------------------------------------


def test_each_class_has_its_own_release(load_kw: Floats) -> None:
    """Levels without customers are released too; unlisted customers are in no release."""
    classes = np.where(np.arange(len(load_kw)) % 2, "home", "shop")
    classes[:3] = "unlisted"
    by_class = private_kmeans_by_class(
        PrivateKMeans(n_clusters=2), load_kw, classes, ["home", "shop", "farm"]
    )
    assert list(by_class) == ["home", "shop", "farm"]
    assert all(km.cluster_centers_.shape == (2, 24) for km in by_class.values())


def test_classes_must_fit() -> None:
    """One class a row, each level once."""
    with pytest.raises(InvalidParameterError, match="classes"):
        private_kmeans_by_class(PrivateKMeans(), np.ones((3, 24)), ["a"], ["a"])
    with pytest.raises(InvalidParameterError, match="levels"):
        private_kmeans_by_class(PrivateKMeans(), np.ones((1, 24)), ["a"], ["a", "a"])


def test_a_class_is_fitted_on_its_own_customers_alone(load_kw: Floats) -> None:
    """The release of a level has the exact sums of a release of its rows alone."""
    classes = np.arange(len(load_kw)) % 3
    estimator = PrivateKMeans(n_clusters=2)
    alone = record(lambda: estimator.fit(load_kw[classes == 1]))
    by_class = replay(lambda: private_kmeans_by_class(estimator, load_kw, classes, [1]), alone)
    assert squared_signal(alone, by_class) == 0.0


@pytest.mark.parametrize(
    ("classes", "levels"),
    [
        (np.full(60, 2.0**53), [2**53, 2**53 + 1]),
        (np.full(60, 0.1, dtype=np.float32), [0.1, float(np.float32(0.1))]),
        (np.full(60, "a"), ["a", "a\0"]),
        (np.full(60, math.nan), [math.nan, 1.0]),
    ],
)
def test_no_customer_is_in_two_levels(
    load_kw: Floats, classes: NDArray[np.generic], levels: list[Hashable]
) -> None:
    """Levels that NumPy takes for equal are still different levels."""
    by_class = private_kmeans_by_class(
        PrivateKMeans(n_clusters=1, epsilon=300.0), load_kw[:60], classes, levels
    )
    sizes = [float(km.cluster_sizes_.sum()) for km in by_class.values()]
    assert sum(sizes) < 75.0


# --- labels ---------------------------------------------------------------------------------------


def test_labels_follow_the_rule_of_the_fit(load_kw: Floats) -> None:
    """Without data, and with `normalise` of zeros, there is no label; sizes are clipped."""
    rows = np.vstack([load_kw[:5], np.zeros((1, 24)), np.full((1, 24), math.nan)])
    shapes = PrivateKMeans(n_clusters=2, normalise=True).fit(load_kw)
    assert (shapes.predict(rows) >= 0).tolist() == [True] * 5 + [False] * 2
    scaled = PrivateKMeans(n_clusters=2, clip_kw=0.2).fit(load_kw)
    assert (scaled.predict(rows) >= 0).tolist() == [True] * 6 + [False]
    assert np.array_equal(scaled.predict(rows), scaled.predict(scaled.comparable(rows)))
    assert scaled.predict(rows[:0]).shape == (0,)


def test_total_of_centroids_and_labels(load_kw: Floats) -> None:
    """The exact composition of the two budgets; labels of other centroids are refused."""
    km = PrivateKMeans(n_clusters=2, normalise=True).fit(load_kw)
    names = [str(i) for i in range(len(load_kw))]
    labels = km.release_labels(load_kw, epsilon=2.0, customer_ids=names)
    assert labels.labels.shape == (len(load_kw),)
    of_labels = Budget(labels.guarantee, response_epsilon=2.0)
    total = km.guarantee_with(labels)
    assert total == composed_guarantee(Budget(km.guarantee_), of_labels, delta=1e-6)
    assert 2.0 < total.epsilon < 3.0
    assert km.guarantee_with(labels, labels).epsilon > total.epsilon
    assert km.guarantee_with().epsilon == pytest.approx(1.0, rel=1e-5)
    km.fit(load_kw)
    with pytest.raises(InvalidParameterError, match="labels must be labels of these centroids"):
        km.guarantee_with(labels)


def test_cells_that_are_no_numbers_are_refused_unseen() -> None:
    """The error quotes nothing of the data."""
    with pytest.raises(InvalidDataError) as caught:
        PrivateKMeans().fit([["SECRET", "1.0"]])
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
