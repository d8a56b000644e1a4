"""One-call versions of the mechanisms, built on row functions that only tests use."""

from fractions import Fraction
from typing import Any

import numpy as np

from wattveil.arrays import Floats, Ints, Texts
from wattveil.engines.local import LocalRows
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import BlockSums, Query
from wattveil.privacy.mechanisms.gaussian import NoisyTotals, release_sums
from wattveil.privacy.mechanisms.response import PARTS, Channel, respond, response_channel
from wattveil.privacy.private_data import BoundRowFunction, Released, row_function


@row_function
def given_cells(cells: Ints) -> tuple[Ints]:
    """Return the column as the cell, or the label, of each customer."""
    return (cells,)


@row_function
def given_features(features: Floats, cells: Ints) -> tuple[Ints, Floats]:
    """Return the columns as cell and features of each customer."""
    return cells, features


def gaussian_histogram(
    cells: Ints, *, n_cells: int, rho_units: int, budget: Budget, tag: str = "counts"
) -> Released[NoisyTotals]:
    """Release how many customers are in each cell; `NO_DATA` is in none."""
    query = Query(tag=tag, rho_units=rho_units, n_cells=n_cells)
    (released,) = release_sums(LocalRows(cells), given_cells.bind(), [query], budget)
    return released


def sum_of(
    features: Floats,
    *,
    rho_units: int,
    budget: Budget,
    tag: str = "sums",
    cells: Ints | None = None,
    n_cells: int = 1,
) -> Released[NoisyTotals]:
    """Release the sum of clipped features in each cell; all customers are in cell 0 by default."""
    own = np.zeros(len(features), dtype=np.int64) if cells is None else cells
    width = features.shape[1]
    query = Query(tag=tag, rho_units=rho_units, n_cells=n_cells, n_features=width)
    (released,) = release_sums(LocalRows(features, own), given_features.bind(), [query], budget)
    return released


def exact_cell_sums(features: Floats, cells: Ints | None = None, *, n_cells: int = 1) -> Ints:
    """Return the exact integer sums of clipped features, one row per cell: no noise, no charge."""
    own = np.zeros(len(features), dtype=np.int64) if cells is None else cells
    query = Query(tag="t", rho_units=1, n_cells=n_cells, n_features=features.shape[1])
    (found,) = exact_integers([query], given_features.bind(), features, own)
    return found.reshape(query.shape)


def exact_integers(
    queries: list[Query],
    work: BoundRowFunction[Any],
    *columns: Any,  # noqa: ANN401 - arrays of any type
) -> list[Ints]:
    """Return the exact integers of queries over one block of customers: no noise, no charge."""
    sums = BlockSums(queries, work)
    return sums.split(sums(*columns))


def public_names(thing: object) -> set[str]:
    """Return the public attributes of an object, without those that mutation testing adds."""
    return {name for name in dir(thing) if not name.startswith("_") and "mutmut" not in name}


def customer_ids(n_customers: int) -> Texts:
    """Return ids in ascending order, so that released rows keep the order of the customers."""
    return np.array([f"{i:09d}" for i in range(n_customers)], dtype=np.object_)


def respond_to_labels(
    labels: Ints, *, n_labels: int, epsilon: float, budget: Budget, tag: str = "labels"
) -> Ints:
    """Release labels through K-ary randomised response; return them in the order of customers."""
    channel = response_channel(
        n_labels=n_labels, epsilon=epsilon, neighbours=budget.guarantee.neighbours
    )
    rows: Any = LocalRows(labels)
    released = respond(
        rows,
        LocalRows(customer_ids(len(labels))),
        given_cells.bind(),
        channel=channel,
        budget=budget,
        tag=tag,
        real_ids=True,
    )
    return released.here()[1]


def channel_of(*rows: list[int]) -> Channel:
    """Return a channel from small whole numbers of one sum, a power of two."""
    return Channel(np.array(rows) * (PARTS // sum(rows[0])))


def keep_probability(*, n_labels: int, epsilon: float, neighbours: Neighbours) -> Fraction:
    """Return the probability that K-ary randomised response keeps a label."""
    channel = response_channel(n_labels=n_labels, epsilon=epsilon, neighbours=neighbours)
    return Fraction(int(channel.parts[0, 0]), PARTS)
