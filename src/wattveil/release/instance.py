"""The paper's mechanism: K-means with leave-one-out noise and randomised labels (instance tier).

The noise is calibrated to hide, in *this* data set, whether any one customer was in it. Its scale
is computed from the data, so what is guaranteed is weaker than differential privacy:
docs/instance-tier.md shows how much weaker, with measurements.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from wattveil import calibration, checks
from wattveil.arrays import Floats, Ints
from wattveil.engines.local import estimator_rows
from wattveil.errors import InvalidDataError, InvalidParameterError, WeakGuaranteeWarning
from wattveil.numerics.kmeans.instance_query import Transform, clip_rms, merge_small_clusters
from wattveil.numerics.kmeans.lloyd import assign, k_means
from wattveil.numerics.leave_one_out.ellipsoid import leave_one_out_ellipsoid, paper_lemma
from wattveil.numerics.leave_one_out.leave_one_out_runs import Columns, LeaveOneOut, leave_one_out
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, gaussian_answer
from wattveil.privacy.mechanisms.modulo import modulo_flip, modulo_labels
from wattveil.privacy.private_data import Secret
from wattveil.release.estimator import PrivateEstimator
from wattveil.release.pipeline_check import check_caller
from wattveil.sklearn_base import BaseEstimator, ClusterMixin, check_is_fitted
from wattveil.web.results import ResultTable

_LARGEST_DELTA = 0.9999999
"""Beyond it a guarantee at the claimed epsilon is no guarantee, and the true epsilon is stated."""

_MIN_KW = 1e-12
_MIN_SHARE = 1e-7
"""Minimum noise, as a share of the centroids, which then fit into 2^61 grid steps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InstanceDiagnostics:
    """Exact diagnostics for the data holder, not for publication."""

    centroids: Floats
    """Exact centroids, in the coordinates that were clustered."""
    labels: Ints
    sizes: Ints
    covariance: Floats
    """Of the noise on the centroids, row after row, in the coordinates that were clustered."""
    white_trace_ratio: float
    """Noise power over that of white noise of the same guarantee."""
    constraint_violation: float
    """Largest v' S^-1 v over what the calibration allows; above 1 only with the paper's lemma."""
    gap: float
    """Certified distance of the noise power from the minimum; NaN without a certificate."""
    label_set: Ints
    """The paper's L: customers whose label some other customer's removal changes."""
    labels_changed: int
    """The paper's Delta_l: the maximum number of labels that one removal changes."""
    flip: float
    """The probability rho that a label in L moves; |L| rho wrong labels are expected."""
    rounds: int
    """Rounds of Lloyd until no label changed."""


class LeaveOneOutKMeans(PrivateEstimator, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """K-means released under the instance guarantee.

    Parameters
    ----------
    n_clusters : int
        K.
    epsilon_c, delta_c : float
        For the centroids.
    epsilon_l, delta_l : float
        For the labels.
    noise : {"coloured", "white"}
        Noise of minimum power that hides every removal, or isotropic noise.
    calibration : {"exact", "paper"}
        "paper" uses the paper's formula, warns, and guarantees the delta that it truly gives.
    solver : {"certified", "paper-lemma"}
        "paper-lemma" uses the paper's closed form for the colour, which violates the constraint it
        is meant to meet; it warns, and the guarantee states what the noise provides.
    customer_classes : tuple of str or None
        Public choice: keep customers of these classes only.
    clip_kw : float or None
        Public choice: clip customers to this root-mean-square load.
    load_transform, transform_kw : {"none", "asinh", "log"}, float
        Public choice: cluster asinh(x / transform_kw) or log(x + transform_kw) instead of x; the
        released centroids are transformed back.
    min_cluster_size : int
        Public choice: clusters with fewer customers join the nearest; part of the query, and so of
        every leave-one-out run. A cluster of one would publish its customer.
    n_init, random_state : int, int or None
        Number of initialisations of K-means, and their seed. The noise has no seed.

    Attributes
    ----------
    cluster_centers_ : (K, d)
        Released, in kW. Rows of clusters that were merged repeat.
    labels_ : (P,)
        Released, of the customers that ``customer_classes`` keeps.
    guarantee_ : Guarantee
        Tier "instance".
    spends_ : tuple of Spend
        What each part cost.
    public_choices_ : dict
        Every parameter that shaped the query.
    diagnostics_ : Secret[InstanceDiagnostics]
        **Private**; dropped when the estimator is pickled.

    Notes
    -----
    **Formal guarantee.** For the data at hand X and each X minus one customer, with the noise
    covariance, the merged clusters, the set L and the labels outside L treated as known:
    (epsilon_c + epsilon_l, delta_c + delta_l)-indistinguishable. One `gaussian_answer` and one
    `modulo_labels`.
    """

    def __init__(
        self,
        *,
        n_clusters: int = 6,
        epsilon_c: float = 5.0,
        delta_c: float = 1e-2,
        epsilon_l: float = 5.0,
        delta_l: float = 0.0,
        noise: Literal["coloured", "white"] = "coloured",
        calibration: Literal["exact", "paper"] = "exact",
        solver: Literal["certified", "paper-lemma"] = "certified",
        customer_classes: tuple[str, ...] | None = None,
        clip_kw: float | None = None,
        load_transform: Literal["none", "asinh", "log"] = "none",
        transform_kw: float = 1.0,
        min_cluster_size: int = 2,
        n_init: int = 10,
        random_state: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon_c = epsilon_c
        self.delta_c = delta_c
        self.epsilon_l = epsilon_l
        self.delta_l = delta_l
        self.noise = noise
        self.calibration = calibration
        self.solver = solver
        self.customer_classes = customer_classes
        self.clip_kw = clip_kw
        self.load_transform = load_transform  # "transform" would look like a method
        self.transform_kw = transform_kw
        self.min_cluster_size = min_cluster_size
        self.n_init = n_init
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,  # noqa: N803 - scikit-learn's name
        y: object = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        customer_class: ArrayLike | None = None,
    ) -> Self:
        """Cluster the customers and release centroids and labels.

        Parameters
        ----------
        X : (P, d)
            Load in kW, one row per customer; NaN and infinity are refused.
        y : None
            Ignored.
        customer_class : (P,) or None
            The class of each customer, for ``customer_classes``.
        """
        check_caller()
        transform = self._checked()
        rows = _finite(estimator_rows(self, X, ensure_all_finite=False))
        kept = self._kept(rows.shape[0], customer_class)
        rows = rows[kept] if self.clip_kw is None else clip_rms(rows[kept], self.clip_kw)
        rows = transform.forward(rows, row_ids=kept)

        fit = k_means(rows, self.n_clusters, n_init=self.n_init, seed=self.random_state)
        runs = leave_one_out(rows, fit, min_cluster_size=self.min_cluster_size)
        answer = merge_small_clusters(rows, fit, self.min_cluster_size)
        # A merged cluster repeats the row of its group, also its noise: only groups are released.
        merges = self.min_cluster_size > 0
        groups = np.flatnonzero(answer.counts) if merges else np.arange(self.n_clusters)
        group_of = assign(answer.centroids, answer.centroids[groups])
        min_noise = _MIN_KW + _MIN_SHARE * float(np.linalg.norm(answer.centroids[groups]))
        colour = self._colour(Columns(runs, groups.tolist()), runs, min_noise)
        centroids = gaussian_answer(
            Secret(answer.centroids[groups].ravel()),
            differences=Ellipsoid(shape=colour.shape),
            rho_units=colour.rho_units,
            budget=colour.budget,
            tag="centroids",
        )
        guarantee = _guarantee(self.epsilon_l, self.delta_l)
        budget = Budget(guarantee, response_epsilon=self.epsilon_l, response_delta=self.delta_l)
        labels = modulo_labels(
            Secret(answer.labels.astype(np.int64)),
            unstable=Secret(runs.label_set),
            changed=runs.max_labels_changed,
            n_labels=self.n_clusters,
            epsilon=self.epsilon_l,
            delta=self.delta_l,
            budget=budget,
            tag="labels",
        )

        released = centroids.publish().value.reshape(groups.size, -1)[group_of]
        repeat = np.kron(np.eye(groups.size)[group_of], np.eye(rows.shape[1]))
        self.cluster_centers_ = transform.backward(released)
        self.labels_ = labels.publish()
        self.guarantee_ = colour.budget.guarantee.compose(guarantee)
        self.spends_ = (*centroids.spends, *labels.spends)
        self.public_choices_ = self.get_params()
        self.diagnostics_ = Secret(
            InstanceDiagnostics(
                centroids=answer.centroids,
                labels=answer.labels.astype(np.int64),
                sizes=answer.counts,
                covariance=repeat @ centroids.value.covariance @ repeat.T,
                white_trace_ratio=colour.white_trace_ratio,
                constraint_violation=colour.violation,
                gap=colour.gap,
                label_set=runs.label_set,
                labels_changed=runs.max_labels_changed,
                flip=modulo_flip(
                    n_labels=self.n_clusters,
                    changed=runs.max_labels_changed,
                    epsilon=self.epsilon_l,
                    delta=self.delta_l,
                ),
                rounds=fit.rounds,
            )
        )
        return self

    def predict(self, X: ArrayLike) -> Ints:  # noqa: N803 - scikit-learn's name
        """Return the nearest released centroid of each row, in kW: private to the caller."""
        check_is_fitted(self)
        rows = estimator_rows(self, X, reset=False)
        return assign(rows, self.cluster_centers_).astype(np.int64)

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"centroids": super()._result_tables()["centroids"], "labels": self._labels}

    def _labels(self) -> ResultTable:
        rows = np.arange(self.labels_.size)
        return ResultTable({"row": rows, "label": self.labels_}, ("row",))

    def __getstate__(self) -> dict[str, Any]:
        """Drop the private diagnostics: a pickle may be stored or sent."""
        state = dict(super().__getstate__())
        state.pop("diagnostics_", None)
        return state

    def _checked(self) -> Transform:
        """Check what scikit-learn wants unchecked in ``__init__``."""
        checks.integer("n_clusters", self.n_clusters, minimum=2)
        checks.integer("n_init", self.n_init, minimum=1)
        checks.integer("min_cluster_size", self.min_cluster_size, minimum=0)
        checks.positive_epsilon("epsilon_c", self.epsilon_c)
        checks.positive_epsilon("epsilon_l", self.epsilon_l)
        checks.probability("delta_c", self.delta_c)
        checks.probability_or_zero("delta_l", self.delta_l)
        for field, value, allowed in (
            ("noise", self.noise, ("coloured", "white")),
            ("calibration", self.calibration, ("exact", "paper")),
            ("solver", self.solver, ("certified", "paper-lemma")),
        ):
            if value not in allowed:
                raise InvalidParameterError(field, f"one of {allowed}", value)
        return Transform(name=self.load_transform, scale_kw=self.transform_kw)

    def _kept(self, n_rows: int, customer_class: ArrayLike | None) -> Ints:
        """Return the rows of the customers in ``customer_classes``."""
        kept = np.arange(n_rows)
        if self.customer_classes is not None:
            if customer_class is None:
                raise InvalidParameterError(
                    "customer_class", "given to fit when customer_classes is set", None
                )
            classes = np.asarray(customer_class)
            if classes.shape != (n_rows,):
                rule = "one value for each customer"
                raise InvalidParameterError("customer_class", rule, "another number of them")
            kept = np.flatnonzero(np.isin(classes, self.customer_classes))
        if kept.size < self.n_clusters:
            rule = "at most n_samples, the number of customers kept"  # which is private
            raise InvalidParameterError("n_clusters", rule, self.n_clusters)
        return kept

    def _colour(self, columns: Columns, runs: LeaveOneOut, min_noise: float) -> "_Colour":
        """Find an ellipsoid that contains every difference, and the guarantee of its noise."""
        budget = Budget(_guarantee(self.epsilon_c, self.delta_c))
        units, gap, violation = budget.rho_units, math.nan, 1.0
        if self.calibration == "paper":
            paper = calibration.paper_calibration(epsilon=self.epsilon_c, delta=self.delta_c)
            units = calibration.rho_units(paper.s)
        # With identical customers no removal changes the answer: minimum white noise suffices.
        white = max(columns.largest_norm, min_noise) * (1.0 + 1e-12) * np.eye(columns.dimension)
        shape = white
        if self.noise == "coloured" and columns.largest_norm > min_noise:
            if self.solver == "certified":
                found = leave_one_out_ellipsoid(runs, gamma_c=1.0)
                # No removal moves the other rows: the region is the product of both.
                shape = found.factor[np.ix_(columns.coordinates, columns.coordinates)]
                gap = found.gap
            else:
                shape, violation = paper_lemma(columns)
                units = math.ceil(units * violation)  # the noise stays; what it guarantees shrinks
        if units != budget.rho_units:
            budget = Budget(_true_guarantee(budget.guarantee, units))
            warnings.warn(
                f"calibration={self.calibration!r}, solver={self.solver!r} do not give"
                f" ({self.epsilon_c}, {self.delta_c}): the guarantee is"
                f" ({budget.guarantee.epsilon:.6g}, {budget.guarantee.delta:.6g}), and the"
                f" constraint is exceeded {violation:.6g} times",
                WeakGuaranteeWarning,
                stacklevel=3,
            )
        return _Colour(
            shape=shape,
            rho_units=min(units, budget.rho_units),
            budget=budget,
            gap=gap,
            violation=violation,
            white_trace_ratio=float(np.square(shape).sum() / np.square(white).sum()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Colour:
    """Ellipsoid of the differences, and the budget of the noise."""

    shape: Floats
    rho_units: int
    budget: Budget
    gap: float
    violation: float
    white_trace_ratio: float


def _finite(rows: Floats) -> Floats:
    """Refuse NaN and infinity; the error names the rows, for the data holder alone."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise InvalidDataError("every value is finite (no NaN, no infinity)", bad.tolist())
    return rows


def _guarantee(epsilon: float, delta: float) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.INSTANCE,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )


def _true_guarantee(claimed: Guarantee, rho_units: int) -> Guarantee:
    """Return the true guarantee of this rho, at the claimed epsilon or else the claimed delta.

    A delta near 1 protects nothing; then the epsilon at the claimed delta is stated.
    """
    spent = accounting.Composition(rho_units=rho_units)
    # Slightly above the true value, for the discretisation that a budget reserves.
    delta = spent.delta(claimed.epsilon * (1.0 - 1e-5)) * (1.0 + 1e-5)
    if delta <= _LARGEST_DELTA:
        return _guarantee(claimed.epsilon, delta)
    epsilon = spent.epsilon(claimed.delta) * (1.0 + 1e-5)
    if epsilon > checks.MAX_EPSILON:
        rule = f"such that the noise guarantees an epsilon of at most {checks.MAX_EPSILON:g}"
        raise InvalidParameterError("calibration, solver", rule, epsilon)
    return _guarantee(epsilon, claimed.delta)
