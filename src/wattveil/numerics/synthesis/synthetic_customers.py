"""Synthetic customers, as they are drawn from a released model."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.web.curves import Chart, Curve, slot_labels
from wattveil.web.results import ChartedResult, ResultTable


class _Drawn(NamedTuple):
    load_kw: Floats
    clusters: Ints


class SyntheticCustomers(ChartedResult, _Drawn):
    """Load in kW of synthetic customers, one row each, and the cluster of each.

    It unpacks into both: ``load_kw, clusters = model.sample(1000)``. No row is of a real customer.
    """

    slots_per_day: int

    def __new__(cls, load_kw: Floats, clusters: Ints, *, slots_per_day: int) -> Self:
        """Return the drawn rows; ``slots_per_day`` labels their columns."""
        drawn = super().__new__(cls, load_kw, clusters)
        drawn.slots_per_day = slots_per_day
        return drawn

    def __repr__(self) -> str:
        """Return the numbers of customers, slots and segments, not the rows."""
        (n_customers, n_slots), n_clusters = self.load_kw.shape, len(set(self.clusters.tolist()))
        return (
            f"SyntheticCustomers({n_customers:,} customers, {n_slots} slots,"
            f" {n_clusters} segments; load_kw, clusters)"
        )

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"synthetic": self._long}

    def _long(self) -> ResultTable:
        n_customers, n_slots = self.load_kw.shape
        times = np.array(slot_labels(n_slots, self.slots_per_day))
        columns = {
            "customer": np.repeat(np.arange(n_customers), n_slots),
            "slot": np.tile(np.arange(n_slots), n_customers),
            "time": np.tile(times, n_customers),
            "cluster": np.repeat(self.clusters, n_slots),
            "load_kw": self.load_kw.ravel(),
        }
        return ResultTable(columns, ("customer", "slot"))

    def _statement(self) -> str:
        return "Drawn from a released model, without privacy cost: no row is of a real customer."

    def _chart(self) -> Chart:
        labels = slot_labels(self.load_kw.shape[1], self.slots_per_day)
        curves = [
            Curve(f"segment {number}", number, labels, own.mean(axis=0), None)
            for number in sorted(set(self.clusters.tolist()))
            for own in (self.load_kw[self.clusters == number],)
        ]
        return Chart(curves, "mean of the drawn customers, kW")


def model_tables(
    centroids: Floats, customers: Floats, exports: Ints
) -> dict[str, Callable[[], ResultTable]]:
    """Return the tables of a model: its centroids, and the customers of its clusters."""
    n_clusters, n_slots = centroids.shape
    clusters = np.arange(n_clusters)
    curves = {
        "cluster": np.repeat(clusters, n_slots),
        "slot": np.tile(np.arange(n_slots), n_clusters),
        "load_kw": centroids.ravel(),
    }
    sizes = {"cluster": clusters, "customers": customers, "has_export": exports.astype(bool)}
    return {
        "centroids": lambda: ResultTable(curves, ("cluster", "slot")),
        "cluster_sizes": lambda: ResultTable(sizes, ("cluster",)),
    }


def model_chart(centroids: Floats, slots_per_day: int) -> Chart:
    """Return the centroids of a model; their standard errors are no part of it."""
    labels = slot_labels(centroids.shape[1], slots_per_day)
    curves = [
        Curve(f"segment {number}", number, labels, load, None)
        for number, load in enumerate(centroids)
    ]
    return Chart(curves, "kW per customer")
