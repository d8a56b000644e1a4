"""Channels have the laws they state; released labels keep their claim, planted faults do not."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.statistical import faults
from tests.statistical.auditing import exceeds_claim, keeps_claim
from tests.statistical.harness import (
    MARGIN,
    accepts,
    counts_p,
    draws,
    guarantee,
    one_hot,
    refuses,
    table_p,
)
from tests.statistical.releases import label_budget, labels_through
from wattveil.arrays import Floats, Ints
from wattveil.lab.audit.epsilon_bounds import PairedRelease
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.mechanisms.response import PARTS, Channel
from wattveil.privacy.private_data import row_function
from wattveil.release import randomised_labels as module
from wattveil.release.cluster_shares import cluster_shares
from wattveil.release.randomised_labels import label_design, release_labels
from wattveil.release.rows.load_features import nearest_centroid

CENTROIDS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 6.0]])
WEIGHTS = np.array([0.3, 0.4, 0.3])
NO_DATA_ROW = np.full(2, math.nan)


# --- the law of a draw --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_labels_follow_the_channel(epsilon: float) -> None:
    """For every true label, and for none, the stated row: a tenth more of a label is refused."""
    channel = label_design(CENTROIDS, WEIGHTS, epsilon=epsilon, design="cheapest")
    size = draws(1_600_000)
    labels = np.arange(size) % 4 - 1  # NO_DATA, 0, 1, 2
    budget = label_budget(guarantee(epsilon=epsilon, delta=0.0))
    released = labels_through(channel, labels, budget).here()[1]
    for label in (NO_DATA, 0, 1, 2):
        counts = np.bincount(released[labels == label], minlength=3)
        law = channel.parts[label] / PARTS
        accepts(counts_p(counts, law.tolist()))
        for other in np.flatnonzero((law > 0.05) & (law < 0.95)):
            tilted = law.copy()
            tilted[other] *= 1.0 + 2.0 * MARGIN
            refuses(counts_p(counts, (tilted / tilted.sum()).tolist()))
    for label in (NO_DATA, 1):  # customers are drawn independently of each other
        own = released[labels == label]
        accepts(table_p(own[1:], own[:-1]))


# --- audits of the whole release ------------------------------------------------------------------


def of_labels(row: Floats, other: Floats = NO_DATA_ROW) -> PairedRelease:
    """Customer 0 with ``row`` or ``other``, and two known customers; all labels are observed."""
    claim = guarantee(epsilon=1.0, delta=0.0)
    beside = CENTROIDS[[0, 1]]
    loads = (np.vstack((row, beside)), np.vstack((other, beside)))

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        released = release_labels(
            loads[neighbour],
            centroids=CENTROIDS,
            sizes=WEIGHTS,
            epsilon=claim.epsilon,
            customer_ids="abc",
            real_ids=True,
        )
        return one_hot(released.labels, 3)

    # The faults below need 250 to 750 decisions to be seen for sure; half of the runs decide.
    return PairedRelease(name="labels", claim=claim, run=run, runs=2_000)


@pytest.fixture
def design_once(monkeypatch: pytest.MonkeyPatch, repeated_runs: None) -> None:  # noqa: ARG001 - used
    """Choose the channel once: it is the same in every run. Sizes are not used."""
    monkeypatch.setattr(module, "debiased_counts", lambda observed, *_, **__: (observed, observed))
    known = cache(
        lambda epsilon: label_design(CENTROIDS, WEIGHTS, epsilon=epsilon, design="cheapest")
    )
    monkeypatch.setattr(module, "label_design", lambda *_, epsilon, design: known(epsilon))  # noqa: ARG005


@pytest.mark.usefixtures("design_once")
@pytest.mark.parametrize("label", [0, 1, 2])
def test_an_audit_does_not_refute_released_labels(label: int) -> None:
    """Data against no data, for every centroid: nothing beyond epsilon is shown."""
    keeps_claim(of_labels(CENTROIDS[label]))


@pytest.mark.usefixtures("design_once")
def test_an_audit_catches_a_channel_that_claims_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel of epsilon 2.5 that says 1."""
    price = Channel.epsilon
    strong = label_design(CENTROIDS, WEIGHTS, epsilon=2.5, design="cheapest")
    monkeypatch.setattr(module, "label_design", lambda *_, **__: strong)
    monkeypatch.setattr(
        Channel, "epsilon", lambda channel, relation: price(channel, relation) / 2.5
    )
    exceeds_claim(of_labels(CENTROIDS[2]))


@pytest.mark.usefixtures("design_once")
def test_an_audit_catches_another_law_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Customers without data drawn as if they had label 0: the last row does not match."""
    faults.absent_is_label_0(monkeypatch)
    exceeds_claim(of_labels(CENTROIDS[2]))


@pytest.mark.usefixtures("design_once")
def test_an_audit_catches_a_label_possible_in_one_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column that `Channel` refuses: with the check removed, the audit detects it."""
    half = PARTS // 2
    leaky = np.array(
        [[half, half, 0], [half, half, 0], [half, half // 2, half // 2], [half, half, 0]]
    )
    monkeypatch.setattr(Channel, "__post_init__", lambda _: None)
    channel = Channel(leaky)
    monkeypatch.setattr(module, "label_design", lambda *_, **__: channel)
    monkeypatch.setattr(Channel, "epsilon", lambda *_: 1.0)
    exceeds_claim(of_labels(CENTROIDS[2]), runs=2_000)


@pytest.mark.usefixtures("design_once")
def test_an_audit_catches_a_label_that_depends_on_another_customer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Customers 1 and 2 take the label of customer 0: three draws reveal more than one."""

    @row_function
    def of_the_first(load_kw: Floats, *, centroids: Floats) -> tuple[Ints]:
        (labels,) = nearest_centroid(load_kw, centroids=centroids)
        return (np.full(labels.size, labels[0]),)

    monkeypatch.setattr(module, "nearest_centroid", of_the_first)
    exceeds_claim(of_labels(CENTROIDS[2]))


# --- clusters by group ----------------------------------------------------------------------------


def of_shares(levels: list[str], prepare: Callable[[Floats], Floats]) -> PairedRelease:
    """One customer of area "a" and twenty known ones, against the twenty alone."""
    claim = guarantee()
    beside = np.repeat(CENTROIDS, [10, 5, 5], axis=0)
    loads = (np.vstack((CENTROIDS[1], beside)), np.vstack((NO_DATA_ROW, beside)))

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        released = cluster_shares(
            prepare(loads[neighbour]),
            centroids=CENTROIDS,
            groups={"area": ["a"] * 21},
            levels={"area": levels},
            epsilon=claim.epsilon,
            delta=claim.delta,
        )
        return released.counts.ravel()

    return PairedRelease(name="shares", claim=claim, run=run)


@pytest.mark.usefixtures("repeated_runs")
def test_an_audit_does_not_refute_cluster_shares() -> None:
    """A customer is counted once, in one cell."""
    keeps_claim(of_shares(["a", "b"], lambda rows: rows))


@pytest.mark.usefixtures("repeated_runs")
def test_an_audit_catches_a_customer_who_moves_others() -> None:
    """Customer 0's data also decide in which cells five others are counted: beyond the claim."""

    def dragging(rows: Floats) -> Floats:
        moved = rows.copy()
        if np.isfinite(rows[0]).all():
            moved[1:6] = CENTROIDS[1]
        return moved

    exceeds_claim(of_shares(["a", "b"], dragging), runs=1_000)
