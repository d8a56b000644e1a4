"""Planted faults: each turns a right mechanism into one that breaks its claim.

A fault is a function of pytest's ``monkeypatch``, which takes it back after the test.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.privacy import accounting, noise, sensitivity
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import gaussian, modulo, response
from wattveil.privacy.mechanisms.cells import NO_DATA, check_cells
from wattveil.privacy.mechanisms.gaussian import NoisyVector
from wattveil.privacy.mechanisms.response import Channel
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import (
    Ball,
    Box,
    Ellipsoid,
    FloatArray,
    IntArray,
    OuterProductBall,
    Region,
)
from wattveil.release import asks, shapes

Patch = pytest.MonkeyPatch


def weaker_noise(patch: Patch, factor: float = 0.5) -> None:
    """Noise of half the scale; labels that move half as often."""
    for law in ("discrete_gaussian", "discrete_laplace"):
        patch.setattr(noise, law, _scaled(getattr(noise, law), factor))
    coin = noise.bernoulli

    def rarer(*, probability: Fraction, size: int) -> NDArray[np.bool_]:
        return coin(probability=probability * Fraction(factor), size=size)

    patch.setattr(noise, "bernoulli", rarer)
    drawn = response._draw

    def kept(channel: Channel, labels: Secret[IntArray], words: IntArray) -> IntArray:
        own = labels.reveal()
        stays = coin(probability=1 - Fraction(factor), size=own.size) & (own != NO_DATA)
        return np.where(stays, own, drawn(channel, labels, words))

    patch.setattr(response, "_draw", kept)


def no_clipping(patch: Patch) -> None:
    """Rows go to the grid as they are."""

    def as_it_is(region: Region, rows: FloatArray) -> IntArray:
        return np.trunc(rows / region.step).astype(np.int64)

    patch.setattr(Ball, "to_grid", as_it_is)
    patch.setattr(Box, "to_grid", as_it_is)


def removal_priced_for_replacement(patch: Patch) -> None:
    """The sensitivity of zero-out where the promise is about replace-one."""
    for region in (Ball, Box, OuterProductBall):
        bound = region.squared_sensitivity
        patch.setattr(region, "squared_sensitivity", _for_zero_out(bound))
    patch.setattr(sensitivity, "one_hot_sensitivity", lambda *_: 1)


def removal_labels_for_replacement(patch: Patch) -> None:
    """A channel for zero-out, priced for zero-out, where the promise is about replace-one."""
    price = Channel.epsilon

    def of_zero_out(channel: Channel, neighbours: Neighbours) -> float:
        assert neighbours is Neighbours.REPLACE_ONE
        return price(channel, Neighbours.ZERO_OUT)

    patch.setattr(Channel, "epsilon", of_zero_out)


def absent_is_label_0(patch: Patch) -> None:
    """A customer without data is given label 0 instead of a uniform one."""

    def defaulted(cells: Secret[IntArray], n_cells: int, *, field: str = "cells") -> IntArray:
        values = check_cells(cells, n_cells, field=field)
        return np.where(values == NO_DATA, 0, values)

    patch.setattr(response, "check_cells", defaulted)


def one_changed_label(patch: Patch) -> None:
    """Label noise calibrated for one changed label, whatever a removal changes."""
    flip = modulo.modulo_flip

    def for_one(*, n_labels: int, changed: int, epsilon: float, delta: float) -> float:
        assert changed > 1
        return flip(n_labels=n_labels, changed=1, epsilon=epsilon, delta=delta)

    patch.setattr(modulo, "modulo_flip", for_one)


def shared_noise(patch: Patch) -> None:
    """One draw serves all coordinates of a release."""
    for law in ("discrete_gaussian", "discrete_laplace", "bernoulli", "uniform_below"):
        patch.setattr(noise, law, _repeated(getattr(noise, law)))


def transposed_factor(patch: Patch) -> None:
    """Whiten an answer with W'^-1 instead of W^-1."""

    def transposed(region: Ellipsoid, vector: FloatArray) -> IntArray:
        return np.rint(region.whiten.T @ vector / region.step).astype(np.int64)

    patch.setattr(Ellipsoid, "round_answer", transposed)


def exact_count(patch: Patch) -> None:
    """The number of customers leaves without noise."""
    patch.setattr(asks, "gaussian_cell_sums", _noiseless_counts)


def exchanged_share(patch: Patch) -> None:
    """The count by group draws its noise with the share of the sum, which keeps its own.

    The charges recorded are right: only the noise, or an audit, can tell.
    """
    scale = accounting.noise_scale
    exchange = math.sqrt(shapes.COUNT_SHARE / shapes.SUMS_SHARE)
    share, for_counts = Budget.share, set[int]()

    def noted(budget: Budget, fraction: float) -> int:
        units = share(budget, fraction)
        if fraction == shapes.COUNT_SHARE:
            for_counts.add(units)
        return units

    def of_the_other(*, squared_sensitivity: int, rho_units: int) -> float:
        sigma = scale(squared_sensitivity=squared_sensitivity, rho_units=rho_units)
        return sigma * exchange if rho_units in for_counts else sigma

    patch.setattr(Budget, "share", noted)
    patch.setattr(accounting, "noise_scale", of_the_other)


def _scaled(draw: Callable[..., IntArray], factor: float) -> Callable[..., IntArray]:
    def scaled(*, scale: float, size: int) -> IntArray:
        return draw(scale=scale * factor, size=size)

    return scaled


def _repeated(draw: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    def repeated(*, size: int, **law: object) -> NDArray[Any]:
        return np.repeat(draw(size=1, **law), size)

    return repeated


def _for_zero_out(bound: Callable[..., int]) -> Callable[..., int]:
    def for_zero_out(region: Region, neighbours: Neighbours) -> int:
        del neighbours
        return bound(region, Neighbours.ZERO_OUT)

    return for_zero_out


def _noiseless_counts(
    totals: Callable[[], IntArray],
    spend: Spend,
    budget: Budget,
    **arguments: Any,  # noqa: ANN401
) -> Released[NoisyVector]:
    exact: list[IntArray] = []

    def overheard() -> IntArray:
        exact.append(totals())
        return exact[0]

    released = gaussian.gaussian_cell_sums(overheard, spend, budget, **arguments)
    if spend.mechanism != "gaussian_histogram":
        return released
    return replace(released, value=replace(released.value, steps=exact[0]))
