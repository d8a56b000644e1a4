"""The instance tier: scikit-learn's contract, released and kept attributes, independent checks."""

import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tests.estimator_checks import every_check
from wattveil import calibration
from wattveil.arrays import Floats
from wattveil.errors import (
    InvalidDataError,
    InvalidParameterError,
    SimulatedNoiseError,
    WeakGuaranteeWarning,
)
from wattveil.numerics.kmeans.instance_query import merge_small_clusters
from wattveil.numerics.kmeans.lloyd import k_means, lloyd
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.privacy.mechanisms.modulo import modulo_flip
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import Secret
from wattveil.release.instance import InstanceDiagnostics, LeaveOneOutKMeans


def homes(size: int = 60, width: int = 2, seed: int = 0) -> Floats:
    """Return customers without structure: labels flip when one of them goes."""
    return np.random.default_rng(seed).normal(size=(size, width))


def with_outliers() -> Floats:
    """Return thirty customers and two far groups, of three and of two."""
    generator = np.random.default_rng(3)
    groups = [generator.normal(size=(n, 2)) * w + c for n, w, c in ((30, 1, 0), (3, 0.1, 8))]
    return np.concatenate([*groups, generator.normal(size=(2, 2)) * 0.1 - 8.0])


def rings() -> Floats:
    """Return two groups in one dimension with no customer near their centroids."""
    offsets = 1.0 + 0.5 * np.random.default_rng(4).random(10)
    return np.concatenate([offsets, -offsets, 20.0 + offsets, 20.0 - 1.1 * offsets])[:, None]


def model(**fields: object) -> LeaveOneOutKMeans:
    """Return an estimator whose starts repeat."""
    return LeaveOneOutKMeans(**{"n_clusters": 3, "n_init": 2, "random_state": 0, **fields})  # type: ignore[arg-type]  # bad fields on purpose


def inside(fitted: LeaveOneOutKMeans) -> InstanceDiagnostics:
    """Open the private part."""
    secret: Secret[InstanceDiagnostics] = fitted.diagnostics_
    return reveal(secret)


def naive_differences(rows: Floats, *, min_cluster_size: int = 2, n_clusters: int = 3) -> Floats:
    """Return c(X) - c(X minus p) for every p by running the whole query again, (P, K d)."""
    fit = k_means(rows, n_clusters, n_init=2, seed=0)
    answer = merge_small_clusters(rows, fit, min_cluster_size).centroids
    without = [
        merge_small_clusters(others, lloyd(others, fit.centroids), min_cluster_size).centroids
        for others in (np.delete(rows, p, axis=0) for p in range(len(rows)))
    ]
    return np.array([(answer - other).ravel() for other in without])


def losses(fitted: LeaveOneOutKMeans, differences: Floats) -> Floats:
    """Return v' S^-1 v for every difference, on the rows that are released: a merged cluster
    repeats the row of its group.
    """
    exact = inside(fitted)
    released = np.repeat((exact.sizes > 0) | (fitted.min_cluster_size == 0), fitted.n_features_in_)
    inverse = np.linalg.inv(exact.covariance[np.ix_(released, released)])
    moved = differences[:, released]
    return np.asarray(np.einsum("pi,ij,pj->p", moved, inverse, moved))


# --- scikit-learn -----------------------------------------------------------------------------

_ONE_CLUSTER = "the check requests one cluster, which is refused: its labels say nothing"


@every_check(
    [LeaveOneOutKMeans(n_clusters=2, n_init=1)],
    fails={
        "check_dont_overwrite_parameters": _ONE_CLUSTER,
        "check_methods_subset_invariance": _ONE_CLUSTER,
        "check_fit2d_1sample": _ONE_CLUSTER,
        "check_fit2d_1feature": _ONE_CLUSTER,
        "check_fit2d_predict1d": _ONE_CLUSTER,
    },
    noisy=["check_clustering", "check_fit_idempotent"],
)
@pytest.mark.usefixtures("cached_constants")
def test_scikit_learn_contract(
    estimator: LeaveOneOutKMeans, check: Callable[[LeaveOneOutKMeans], None]
) -> None:
    """Every check of scikit-learn holds, but for those that one cluster or the noise breaks."""
    check(estimator)


def test_parameters_are_stored_untouched() -> None:
    """get_params gives back what was set, clone copies it and leaves what was learned behind."""
    fitted = model(clip_kw=2.0).fit(homes())
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "cluster_centers_")
    assert copy.set_params(noise="white", epsilon_c=2.0).get_params()["noise"] == "white"
    assert fitted.noise == "coloured"


def test_no_parameter_is_taken_for_a_method() -> None:
    """No parameter has the name of a scikit-learn method: a string called `transform` would make
    a pipeline believe that the estimator transforms.
    """
    methods = {"fit", "predict", "transform", "score", "decision_function", "fit_transform"}
    assert methods.isdisjoint(LeaveOneOutKMeans().get_params())


def test_works_in_a_pipeline() -> None:
    """As the last step it predicts by the released centroids of what the steps before made."""
    pipeline = make_pipeline(FunctionTransformer(np.abs), model())
    labels = pipeline.fit(homes()).predict(homes())
    assert labels.tolist() == pipeline[-1].predict(np.abs(homes())).tolist()
    assert not hasattr(pipeline, "transform")
    assert pipeline.fit_predict(homes()).shape == (60,)


def test_a_pickle_carries_only_what_was_released() -> None:
    """The diagnostics stay behind, all else arrives, and predict works as before."""
    fitted = model().fit(homes())
    arrived = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - made one line above
    assert set(vars(fitted)) - set(vars(arrived)) == {"diagnostics_"}
    assert arrived.guarantee_ == fitted.guarantee_
    assert arrived.spends_ == fitted.spends_
    np.testing.assert_array_equal(arrived.predict(homes()), fitted.predict(homes()))


def test_predict_is_the_nearest_released_centroid() -> None:
    """In kW, whatever was clustered, and computed a second time here."""
    rows = np.exp(homes())
    fitted = model(load_transform="log").fit(rows)
    distances = np.square(rows[:, None] - fitted.cluster_centers_).sum(axis=2)
    np.testing.assert_array_equal(fitted.predict(rows), distances.argmin(axis=1))


def test_random_state_seeds_the_starts_and_never_the_noise() -> None:
    """Two fits with one random_state have equal exact centroids and different released ones."""
    one, two = (model(random_state=7).fit(homes()) for _ in range(2))
    np.testing.assert_array_equal(inside(one).centroids, inside(two).centroids)
    assert (one.cluster_centers_ != two.cluster_centers_).all()


# --- released and private ---------------------------------------------------------------------


def test_fit_leaves_the_documented_attributes_and_no_other() -> None:
    """Learned attributes are those of the docstring, and scikit-learn's number of columns."""
    fitted = model().fit(homes())
    learned = {name for name in vars(fitted) if name.endswith("_")}
    assert learned == {
        "cluster_centers_",
        "labels_",
        "guarantee_",
        "spends_",
        "public_choices_",
        "diagnostics_",
        "n_features_in_",
    }
    assert set(vars(fitted)) - learned == set(fitted.get_params())
    assert isinstance(fitted.diagnostics_, Secret)
    assert all(
        f"\n    {name} :" in str(LeaveOneOutKMeans.__doc__) for name in learned - {"n_features_in_"}
    )


def test_printing_shows_nothing_private() -> None:
    """Neither repr, str nor the page that a notebook shows holds an exact number."""
    fitted = model().fit(homes())
    exact = inside(fitted)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Unknown section Formal Guarantee")
        shown = repr(fitted) + str(fitted) + fitted._repr_html_() + repr(fitted.diagnostics_)
    assert "InstanceDiagnostics" not in shown
    private = [*exact.centroids.ravel(), *exact.covariance[exact.covariance != 0.0]]
    assert not any(f"{number:.3f}"[1:] in repr(fitted) for number in private)
    assert not any(repr(float(number))[:8] in shown for number in private)


def test_labels_outside_the_set_are_exact_and_inside_move(silent: NoiseSource) -> None:
    """Labels outside L are those of K-means in every fit; in L each moves with chance rho."""
    rows = homes(200, 2, seed=0)
    fits = [model(n_clusters=4, epsilon_l=1.0).fit(rows) for _ in range(20)]
    exact = inside(fits[0])
    unstable = np.isin(np.arange(200), exact.label_set)
    assert 0 < unstable.sum() < 200
    moved = np.array([fit.labels_ != exact.labels for fit in fits])
    assert not moved[:, ~unstable].any()
    draws = moved[:, unstable].size
    sigma = math.sqrt(draws * exact.flip * (1.0 - exact.flip))
    assert abs(moved[:, unstable].sum() - draws * exact.flip) < 6.0 * sigma
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        model().fit(rows)


def test_the_guarantee_names_the_instance_tier_and_adds_up() -> None:
    """epsilon_c + epsilon_l and delta_c + delta_l, tier instance; the spends are the declared."""
    fitted = model(epsilon_c=2.0, delta_c=0.01, epsilon_l=3.0, delta_l=0.005).fit(homes())
    guarantee = fitted.guarantee_
    assert (guarantee.tier, guarantee.neighbours, guarantee.unit) == (
        Tier.INSTANCE,
        Neighbours.ZERO_OUT,
        Unit.CUSTOMER,
    )
    assert (guarantee.epsilon, guarantee.delta) == pytest.approx((5.0, 0.015), rel=1e-12)
    centroids, labels = fitted.spends_
    assert (centroids.tag, centroids.response_epsilon, centroids.response_delta) == (
        "centroids",
        0,
        0,
    )
    spent = accounting.Composition(rho_units=centroids.rho_units, eta=centroids.eta)
    assert spent.delta(2.0) <= 0.01
    assert spent.delta(2.0) == pytest.approx(0.01, rel=1e-4)
    assert (labels.tag, labels.rho_units, labels.response_epsilon, labels.response_delta) == (
        "labels",
        0,
        3.0,
        0.005,
    )


def test_public_choices_are_recorded() -> None:
    """Every parameter that shaped the query stands in public_choices_, as it was at fit."""
    fitted = model(clip_kw=2.0, load_transform="asinh").fit(homes())
    fitted.set_params(clip_kw=9.0)
    assert fitted.public_choices_ == {**fitted.get_params(), "clip_kw": 2.0}


# --- independent checks -----------------------------------------------------------------------


@pytest.mark.parametrize("noise_colour", ["coloured", "white"])
@pytest.mark.parametrize(("rows", "m"), [(homes(), 2), (homes(40, 6), 0), (homes(50, 1), 2)])
def test_the_noise_hides_every_removal(rows: Floats, m: int, noise_colour: str) -> None:
    """V' S^-1 v <= s^2 for every removal by the naive loop, and the worst one is at the limit."""
    fitted = model(noise=noise_colour, min_cluster_size=m).fit(rows)
    worst = losses(fitted, naive_differences(rows, min_cluster_size=m)).max()
    allowed = calibration.gaussian_s(epsilon=5.0, delta=1e-2) ** 2
    assert 0.999 * allowed < worst <= allowed


@pytest.mark.parametrize("noise_colour", ["coloured", "white"])
@pytest.mark.parametrize("m", [2, 3, 4, 6])
def test_the_noise_hides_every_removal_of_merged_clusters(m: int, noise_colour: str) -> None:
    """Also when clusters are merged, or a removal merges them; no cluster is below the size."""
    rows = with_outliers()
    fitted = model(noise=noise_colour, min_cluster_size=m).fit(rows)
    worst = losses(fitted, naive_differences(rows, min_cluster_size=m)).max()
    assert worst <= calibration.gaussian_s(epsilon=5.0, delta=1e-2) ** 2
    sizes = inside(fitted).sizes
    assert sizes[sizes > 0].min() >= m
    assert sizes.sum() == len(rows)
    assert (sizes == 0).any() == (m > 2)


def test_merged_rows_repeat() -> None:
    """Clusters that were merged have one released centroid, as they have one exact one."""
    fitted = model(min_cluster_size=4).fit(with_outliers())
    exact = inside(fitted).centroids
    for same in (exact[:, None] == exact).all(axis=2):
        assert (fitted.cluster_centers_[same] == fitted.cluster_centers_[same][0]).all()
    assert len(np.unique(fitted.cluster_centers_, axis=0)) == len(np.unique(exact, axis=0)) < 3


def test_white_noise_is_the_sensitivity_over_s() -> None:
    """Sigma = Delta / s in every coordinate, with Delta from the naive loop."""
    fitted = model(noise="white").fit(homes())
    largest = np.linalg.norm(naive_differences(homes()), axis=1).max()
    sigma = largest / calibration.gaussian_s(epsilon=5.0, delta=1e-2)
    np.testing.assert_allclose(inside(fitted).covariance, sigma**2 * np.eye(6), rtol=1e-5)
    assert inside(fitted).white_trace_ratio == 1.0
    assert math.isnan(inside(fitted).gap)


def test_coloured_noise_has_less_power_than_white() -> None:
    """The stated ratio is that of the two covariances, below 1, with a certified gap."""
    rows = homes(100, 4) * [3.0, 1.0, 0.3, 0.1]
    coloured, white = (inside(model(noise=n).fit(rows)) for n in ("coloured", "white"))
    ratio = np.trace(coloured.covariance) / np.trace(white.covariance)
    assert coloured.white_trace_ratio == pytest.approx(ratio, rel=1e-4)
    assert ratio < 0.9
    assert 0.0 <= coloured.gap < 1e-3
    assert coloured.constraint_violation == 1.0


def test_diagnostics_equal_the_naive_loop() -> None:
    """L, Delta_l, rho, sizes and rounds are those of K-means run P more times."""
    rows = homes(80, 2, seed=0)
    exact = inside(model(n_clusters=4).fit(rows))
    fit = k_means(rows, 4, n_init=2, seed=0)
    changed = np.zeros((80, 80), dtype=bool)
    for p in range(80):
        others = np.delete(np.arange(80), p)
        changed[p, others] = lloyd(rows[others], fit.centroids).labels != fit.labels[others]
    assert exact.label_set.tolist() == np.flatnonzero(changed.any(axis=0)).tolist()
    assert exact.labels_changed == changed.sum(axis=1).max() > 0
    assert exact.flip == modulo_flip(
        n_labels=4, changed=exact.labels_changed, epsilon=5.0, delta=0.0
    )
    np.testing.assert_array_equal(exact.labels, fit.labels)
    np.testing.assert_array_equal(exact.sizes, np.bincount(fit.labels))
    assert exact.rounds == fit.rounds


# --- as in the paper --------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.2), (10.0, 0.2), (30.0, 0.01)])
def test_paper_calibration_states_its_true_delta(epsilon: float, delta: float) -> None:
    """The noise is the paper's, whether it is too little or too much; the delta is the true one."""
    weak = model(calibration="paper", epsilon_c=epsilon, delta_c=delta, noise="white")
    with pytest.warns(WeakGuaranteeWarning, match="calibration='paper'") as caught:
        fitted = weak.fit(homes())
    assert caught[0].filename == __file__
    paper = calibration.paper_calibration(epsilon=epsilon, delta=delta)
    assert fitted.guarantee_.epsilon == pytest.approx(epsilon + 5.0, rel=1e-12)
    assert paper.true_delta <= fitted.guarantee_.delta
    assert fitted.guarantee_.delta == pytest.approx(paper.true_delta, rel=1e-2)
    assert fitted.spends_[0].rho_units == pytest.approx(calibration.rho_units(paper.s), rel=1e-4)
    largest = np.linalg.norm(naive_differences(homes()), axis=1).max()
    expected = (largest / paper.s) ** 2 * np.eye(6)
    np.testing.assert_allclose(inside(fitted).covariance, expected, rtol=1e-4)


def test_paper_calibration_states_epsilon_where_delta_is_vacuous() -> None:
    """At the paper's headline (30, 0.2) the true delta is 0.999999, which says nothing: what is
    guaranteed is the epsilon at the claimed delta.
    """
    assert calibration.paper_calibration(epsilon=30.0, delta=0.2).true_delta > 0.999998
    with pytest.warns(WeakGuaranteeWarning):
        fitted = model(calibration="paper", epsilon_c=30.0, delta_c=0.2).fit(homes())
    s = calibration.paper_calibration(epsilon=30.0, delta=0.2).s
    assert fitted.guarantee_.delta == pytest.approx(0.2)
    truth = calibration.gaussian_epsilon(s=s, delta=0.2) + 5.0
    assert truth <= fitted.guarantee_.epsilon <= truth * 1.001


def test_paper_lemma_states_its_violation() -> None:
    """The noise is Gamma^-1 / s^2 of the lemma, computed here by its own words; the guarantee is
    what the violated constraint leaves.
    """
    rows = rings()
    with pytest.warns(WeakGuaranteeWarning, match="solver='paper-lemma'"):
        fitted = model(solver="paper-lemma", n_clusters=2).fit(rows)
    differences = naive_differences(rows, n_clusters=2)
    # The paper: the Kd independent differences of smallest norm; here one of each cluster.
    order = np.argsort(np.linalg.norm(differences, axis=1))
    first = differences[order[0]]
    second = next(v for v in differences[order] if abs(np.linalg.det([first, v])) > 1e-9)
    c = np.array([first, second]).T
    u = np.linalg.inv(np.real(sqrtm(c.T @ c)) ** 2) @ np.ones(2)
    gamma = np.linalg.inv(np.real(sqrtm((c * u**-2.0) @ c.T)))
    s = calibration.gaussian_s(epsilon=5.0, delta=1e-2)
    exact = inside(fitted)
    np.testing.assert_allclose(exact.covariance, np.linalg.inv(gamma) / s**2, rtol=1e-4, atol=1e-12)

    violation = np.einsum("pi,ij,pj->p", differences, gamma, differences).max()
    assert exact.constraint_violation == pytest.approx(violation, rel=1e-6)
    assert violation > 1.0
    assert losses(fitted, differences).max() == pytest.approx(s**2 * violation, rel=1e-4)
    spent = accounting.Composition(rho_units=fitted.spends_[0].rho_units)
    assert spent.delta(fitted.guarantee_.epsilon - 5.0) <= fitted.guarantee_.delta
    assert math.isnan(exact.gap)


def test_paper_lemma_compares_with_white_noise_of_the_same_guarantee() -> None:
    """white_trace_ratio charges the lemma for its violation: it is no way to save noise."""
    rows = rings()
    with pytest.warns(WeakGuaranteeWarning):
        exact = inside(model(solver="paper-lemma", n_clusters=2).fit(rows))
    white = inside(model(noise="white", n_clusters=2).fit(rows)).covariance
    same_guarantee = np.trace(white) / exact.constraint_violation
    assert exact.white_trace_ratio == pytest.approx(
        np.trace(exact.covariance) / same_guarantee, rel=1e-4
    )


def test_paper_lemma_refuses_a_vacuous_guarantee() -> None:
    """One customer at a centroid makes the lemma's noise vanish; no epsilon covers that."""
    rows = rings()
    rows[0] = rows[1:20].mean() + 1e-7
    with pytest.raises(InvalidParameterError, match="calibration, solver must be such that"):
        model(solver="paper-lemma", n_clusters=2).fit(rows)


def test_paper_lemma_refuses_removals_that_do_not_span() -> None:
    """A column that is constant is a direction without differences."""
    rows = np.column_stack([homes(40, 1), np.ones(40)])
    with pytest.raises(InvalidParameterError, match="span its 4 directions"):
        model(solver="paper-lemma", n_clusters=2).fit(rows)


# --- public choices ---------------------------------------------------------------------------


def test_customer_classes_keep_their_customers_only() -> None:
    """A fit on the kept classes equals a fit on their rows."""
    rows, classes = homes(), np.array(["home", "shop", "farm"] * 20)
    chosen = model(customer_classes=("home", "farm")).fit(rows, customer_class=classes)
    apart = model().fit(rows[classes != "shop"])
    np.testing.assert_array_equal(inside(chosen).centroids, inside(apart).centroids)
    assert chosen.labels_.shape == (40,)


@pytest.mark.parametrize(
    ("customer_class", "field"),
    [(None, "customer_class"), (["home"] * 59, "customer_class"), (["shop"] * 60, "n_clusters")],
)
def test_customer_classes_refuse(customer_class: list[str] | None, field: str) -> None:
    """Without classes, with too few of them, or without customers, fit raises an error."""
    with pytest.raises(InvalidParameterError) as error:
        model(customer_classes=("home",)).fit(homes(), customer_class=customer_class)
    assert error.value.field == field


def test_clip_comes_before_the_transform() -> None:
    """What is clustered is log(clip(x) + 1), and the released centroids come back in kW."""
    rows = np.exp(homes(seed=2))
    exact = model(clip_kw=1.5, load_transform="log").fit(rows)
    rms = np.sqrt(np.square(rows).mean(axis=1, keepdims=True))
    clustered = np.log(rows * np.minimum(1.0, 1.5 / rms) + 1.0)
    expected = k_means(clustered, 3, n_init=2, seed=0).centroids
    np.testing.assert_allclose(inside(exact).centroids, expected, rtol=1e-12)
    sigma = np.sqrt(np.diag(inside(exact).covariance)).reshape(expected.shape)
    assert (np.abs(np.log(exact.cluster_centers_ + 1.0) - expected) < 7.0 * sigma).all()


def test_the_logarithm_names_rows_as_they_were_given() -> None:
    """Rows are counted before customers of other classes are left out."""
    rows, classes = np.abs(homes()), np.array(["shop", "home"] * 30)
    rows[[0, 7]] = -2.0
    with pytest.raises(InvalidDataError) as error:
        model(load_transform="log", customer_classes=("home",)).fit(rows, customer_class=classes)
    assert error.value.row_ids == (7,)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_clusters", 1),
        ("n_clusters", 61),
        ("n_clusters", 2.0),
        ("n_init", 0),
        ("min_cluster_size", -1),
        ("epsilon_c", -1.0),
        ("epsilon_c", math.nan),
        ("epsilon_l", 0.0),
        ("delta_c", 0.0),
        ("delta_c", 1.0),
        ("delta_l", 1.0),
        ("delta_l", -1e-9),
        ("noise", "colored"),
        ("calibration", "Exact"),
        ("solver", "lemma"),
        ("load_transform", "sqrt"),
        ("transform_kw", 0.0),
        ("clip_kw", -1.0),
    ],
)
def test_bad_parameters_are_named(field: str, value: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """The error holds the field and the value, and states the rule."""
    with pytest.raises(InvalidParameterError) as error:
        model(**{field: value}).fit(homes())
    assert error.value.field == field
    assert error.value.value is value
    assert error.value.rule


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused_with_their_rows(bad: float) -> None:
    """NaN and infinity never reach K-means."""
    rows = homes()
    rows[[4, 11], [0, 1]] = bad
    with pytest.raises(InvalidDataError) as error:
        model().fit(rows)
    assert error.value.row_ids == (4, 11)


def test_fewer_customers_than_clusters_are_refused_without_their_number() -> None:
    """Three customers have no six clusters; the error does not contain their number."""
    with pytest.raises(InvalidParameterError, match="at most n_samples, the number of") as error:
        model(n_clusters=6).fit(homes()[:3])
    assert "3" not in str(error.value)
    with pytest.raises(InvalidParameterError, match="one value for each customer") as error:
        model(customer_classes=("home",)).fit(homes(), customer_class=["home"] * 59)
    assert "59" not in str(error.value)


@pytest.mark.parametrize("noise_colour", ["coloured", "white"])
@pytest.mark.parametrize("m", [0, 2])
def test_equal_customers_need_no_noise(m: int, noise_colour: str) -> None:
    """If all are alike, leaving one out changes nothing: little noise, no label in L."""
    rows = np.full((30, 2), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model(noise=noise_colour, min_cluster_size=m).fit(rows)
    np.testing.assert_allclose(fitted.cluster_centers_, 0.1, rtol=1e-5)
    assert inside(fitted).label_set.size == 0
    assert inside(fitted).flip == 0.0


@pytest.mark.parametrize("noise_colour", ["white", "coloured"])
def test_as_many_clusters_as_customers(noise_colour: str) -> None:
    """K = P: every cluster is a customer, so with the smallest size of 2 some are merged."""
    rows = homes(6)
    fitted = model(n_clusters=6, noise=noise_colour).fit(rows)
    sizes = inside(fitted).sizes
    assert sizes[sizes > 0].min() >= 2
    worst = losses(fitted, naive_differences(rows, n_clusters=6)).max()
    assert worst <= calibration.gaussian_s(epsilon=5.0, delta=1e-2) ** 2


def test_nearly_equal_customers_keep_their_centroids() -> None:
    """Differences a billion times smaller than the load: the integers still hold the answer."""
    rows = 1000.0 + 1e-7 * homes(30)
    fitted = model(n_clusters=2).fit(rows)
    np.testing.assert_allclose(fitted.cluster_centers_, 1000.0, rtol=1e-5)


def test_a_constant_column_keeps_its_value_to_the_floor() -> None:
    """A column that no removal moves has the floor's noise only: a thousandth of the largest."""
    rows = np.column_stack([homes(40, 1), np.full(40, 0.5)])
    fitted = model(n_clusters=2).fit(rows)
    sigma = np.sqrt(np.diag(inside(fitted).covariance))
    assert sigma[1::2] == pytest.approx(sigma.max() * 1e-3, rel=1e-3)
    np.testing.assert_allclose(fitted.cluster_centers_[:, 1], 0.5, atol=8.0 * sigma[1])
