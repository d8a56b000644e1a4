"""Planted faults: each turns a correct mechanism into one that violates its claim.

A fault is a function of pytest's ``monkeypatch``, which removes it after the test.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints, Texts
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import contributions, gaussian, modulo, period_sums, response
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP, UNIT, Query
from wattveil.privacy.mechanisms.gaussian import Noisy, NoisyTotals
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.privacy.mechanisms.period_sums import CustomerState, Steps
from wattveil.privacy.mechanisms.response import Channel, checked_labels
from wattveil.privacy.noise import NoiseSource
from wattveil.release import group_load
from wattveil.release.queries import GroupLoadQueries

Patch = pytest.MonkeyPatch


def weaker_noise(patch: Patch, factor: float = 0.5) -> None:
    """Noise of half the stated scale; labels that move half as often."""
    draw = NoiseSource.discrete_gaussian

    def scaled(source: NoiseSource, scale: float, size: int) -> Ints:
        return draw(source, scale * factor, size)

    patch.setattr(NoiseSource, "discrete_gaussian", scaled)
    coin = noise.bernoulli

    def rarer(*, probability: Fraction, size: int) -> NDArray[np.bool_]:
        return coin(probability=probability * Fraction(factor), size=size)

    patch.setattr(noise, "bernoulli", rarer)
    responded = response._Response.__call__

    def kept(work: response._Response, *columns: Any) -> tuple[Texts, Ints]:  # noqa: ANN401 - arrays
        names, drawn = responded(work, *columns)
        (own,) = work.label_of(*columns[:-1])
        stays = coin(probability=1 - Fraction(factor), size=own.size) & (own != NO_DATA)
        return names, np.where(stays, own, drawn)

    patch.setattr(response._Response, "__call__", kept)


def no_clipping(patch: Patch, largest: float = math.inf) -> None:
    """Features are rounded to whole steps and not clipped, except entries beyond ``largest``."""

    def unclipped(features: Floats, cells: Ints, totals: Ints) -> bool:
        has_cell = cells != NO_DATA
        bounded = np.clip(features[has_cell], -largest, largest)
        np.add.at(totals, cells[has_cell], np.trunc(bounded / STEP).astype(np.int64))
        return True

    patch.setattr(contributions, "_add_clipped", unclipped)


def fresh_allowances(patch: Patch) -> None:
    """Every period of a series lets each customer use the allowance of all periods again."""
    contribute = period_sums._contribute

    def forgetful(owners: Ints, wanted: Floats, allowance: int, used: Ints, given: Steps) -> None:
        assert allowance <= UNIT**2
        contribute(owners, wanted, UNIT**2, np.zeros_like(used), given)

    patch.setattr(period_sums, "_contribute", forgetful)
    patch.setattr(CustomerState, "check", lambda _state, _query: None)


def removal_priced_for_replacement(patch: Patch) -> None:
    """The sensitivity of zero-out where the claim is for replace-one."""
    bound = Query.squared_sensitivity

    def for_zero_out(query: Query, neighbours: Neighbours) -> int:
        assert neighbours is Neighbours.REPLACE_ONE
        return bound(query, Neighbours.ZERO_OUT)

    patch.setattr(Query, "squared_sensitivity", for_zero_out)


def removal_labels_for_replacement(patch: Patch) -> None:
    """A channel for zero-out, priced for zero-out, where the claim is for replace-one."""
    price = Channel.epsilon

    def of_zero_out(channel: Channel, neighbours: Neighbours) -> float:
        assert neighbours is Neighbours.REPLACE_ONE
        return price(channel, Neighbours.ZERO_OUT)

    patch.setattr(Channel, "epsilon", of_zero_out)


def absent_is_label_0(patch: Patch) -> None:
    """A customer without data is drawn as if it had label 0."""

    def defaulted(labels: Ints, n_labels: int, *, field: str = "labels") -> Ints:
        return np.maximum(checked_labels(labels, n_labels, field=field), 0)

    patch.setattr(response, "checked_labels", defaulted)


def one_changed_label(patch: Patch) -> None:
    """Label noise calibrated for one changed label, however many a removal changes."""
    flip = modulo.modulo_flip

    def for_one(*, n_labels: int, changed: int, epsilon: float, delta: float) -> float:
        assert changed > 1
        return flip(n_labels=n_labels, changed=1, epsilon=epsilon, delta=delta)

    patch.setattr(modulo, "modulo_flip", for_one)


def shared_noise(patch: Patch) -> None:
    """One draw is used for all coordinates of a query."""
    draw = NoiseSource.discrete_gaussian

    def repeated(source: NoiseSource, scale: float, size: int) -> Ints:
        return np.repeat(draw(source, scale, 1), size)

    patch.setattr(NoiseSource, "discrete_gaussian", repeated)
    for law in ("bernoulli", "uniform_below"):
        patch.setattr(noise, law, _repeated(getattr(noise, law)))


def transposed_factor(patch: Patch) -> None:
    """Whiten an answer with W'^-1 instead of W^-1."""

    def transposed(ellipsoid: Ellipsoid, vector: Floats) -> Ints:
        return np.rint(ellipsoid.whiten.T @ vector / STEP).astype(np.int64)

    patch.setattr(Ellipsoid, "round_answer", transposed)


def exact_count(patch: Patch) -> None:
    """Counts are released without noise; sums keep theirs."""
    add_noise, exact = noise.add_discrete_gaussian, list[Ints]()

    def recorded(integers: Ints, *, scale: float) -> Ints:
        exact[:] = [integers]
        return add_noise(integers, scale=scale)

    def noiseless(*, steps: Ints, noise_scale: float, shape: tuple[int, ...]) -> NoisyTotals:
        is_count = len(shape) == 1
        own = exact[0] if is_count else steps
        return NoisyTotals(steps=own, noise_scale=noise_scale, shape=shape)

    patch.setattr(noise, "add_discrete_gaussian", recorded)
    patch.setattr(gaussian, "NoisyTotals", noiseless)


def exchanged_share(patch: Patch) -> None:
    """The count by group draws its noise with the share of the sum, which keeps its own.

    The recorded charges are correct: only the noise, or an audit, shows the fault.
    """
    scale = accounting.noise_scale
    exchange = math.sqrt(group_load.COUNT_SHARE / group_load.SUMS_SHARE)
    counts, for_counts = GroupLoadQueries.counts, set[int]()

    def noted(queries: GroupLoadQueries, *, n_groups: int, rho_units: int) -> Noisy:
        for_counts.add(rho_units)
        return counts(queries, n_groups=n_groups, rho_units=rho_units)

    def of_the_other(*, squared_sensitivity: int, rho_units: int) -> float:
        sigma = scale(squared_sensitivity=squared_sensitivity, rho_units=rho_units)
        return sigma * exchange if rho_units in for_counts else sigma

    patch.setattr(GroupLoadQueries, "counts", noted)
    patch.setattr(accounting, "noise_scale", of_the_other)


def _repeated(draw: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    def repeated(*, size: int, **law: object) -> NDArray[Any]:
        return np.repeat(draw(size=1, **law), size)

    return repeated
