"""The released channel of labels: what a published label says about the segment of its customer.

A channel is the public table of the probability of each published label (column) given the true
segment (row). With the released sizes as prior, Bayes' rule gives the probability of each segment
given the published label. All of it follows from released values and costs no privacy budget.

>>> found = label_channel(np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]]), np.array([75.0, 25.0]))
>>> found.posterior.round(2).tolist()
[[0.9, 0.3], [0.1, 0.7]]
>>> found.distinguished, found.named
((0, 1), (0, 1))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattveil.arrays import Floats
from wattveil.products.product import Achievement
from wattveil.products.tables import Table
from wattveil.web.formatting import format_share
from wattveil.web.pages import PageTable
from wattveil.web.results import Result, ResultTable

DISTINGUISHED = "segments that labels distinguish"
"""Expected and achieved number: the same measure, under the same name."""
NAMED = "segments that labels name"
WRONG = "expected wrong labels"
MIN_NAMED = 0.01
"""Probability, in some segment, from which a label counts as published."""
_MAX_TABLE = 12
"""Most segments of which the report shows the channel."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelChannel(Result):
    """Probabilities of published labels given the segment, and of segments given the label."""

    channel: Floats
    """(segments, labels): probability of each published label given the true segment."""
    no_readings: Floats
    """(labels,): the same for a customer of the list without readings."""
    prior: Floats
    """(segments,): released shares of the segments."""

    @property
    def posterior(self) -> Floats:
        """(segments, labels): probability of each segment given the label; NaN for one never drawn.

        By Bayes' rule with the released sizes as prior, for customers with readings.
        """
        joint = self.prior[:, None] * self.channel
        drawn = joint.sum(axis=0)
        found: Floats = np.full(joint.shape, np.nan)
        np.divide(joint, drawn, out=found, where=drawn > 0.0)
        return found

    @property
    def named(self) -> tuple[int, ...]:
        """Labels that are published: in some segment with a probability of at least 1 %."""
        return named_labels(self.channel)

    @property
    def distinguished(self) -> tuple[int, ...]:
        """Segments that are the most probable one given one of the published labels.

        If it is a single one of several, the best guess of a segment ignores the label.
        """
        likely = self.prior[:, None] * self.channel[:, list(self.named)]
        return tuple(sorted({*likely.argmax(axis=0).tolist()}))

    @property
    def label_error(self) -> float:
        """Expected share of customers with readings whose label is wrong."""
        return float(self.prior @ (1.0 - self.channel.diagonal()))

    def __repr__(self) -> str:
        """Return how many segments labels distinguish and name, and the share of wrong labels."""
        n = self.prior.size
        return (
            f"LabelChannel(labels distinguish {len(self.distinguished)} of {n} segments and name"
            f" {len(self.named)}; {format_share(self.label_error)} of labels are wrong)"
        )

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {
            "channel": lambda: _pairs(self.channel, ("segment", "label")),
            "posterior": lambda: _pairs(self.posterior, ("segment", "label")),
            "no_readings": lambda: ResultTable(
                {"label": np.arange(self.prior.size), "probability": self.no_readings}, ("label",)
            ),
        }

    def _statement(self) -> str:
        return (
            "channel: probability of each published label given the segment; posterior: of each"
            " segment given the label, with the released sizes as prior."
        )


def achieved_counts(channel: LabelChannel, customers: int) -> tuple[Achievement, ...]:
    """Return what the labels of a list of so many customers achieve, for the manifest."""
    n = channel.prior.size
    counts = {
        DISTINGUISHED: (len(channel.distinguished), n),
        NAMED: (len(channel.named), n),
        WRONG: (round(customers * channel.label_error), customers),
    }
    return tuple(
        Achievement(quantity=name, group="all", count=count, of=of)
        for name, (count, of) in counts.items()
    )


def channel_page_table(channel: LabelChannel) -> PageTable | None:
    """Return a channel for the report: a row per segment; None with many segments."""
    n = channel.prior.size
    if n > _MAX_TABLE:
        return None
    names = [*map(str, range(n)), "no readings"]
    chances = [*channel.channel, channel.no_readings]
    rows = [
        (name, *(format_share(chance) for chance in row))
        for name, row in zip(names, chances, strict=True)
    ]
    return PageTable("", ("segment", *(f"label {label}" for label in range(n))), rows)


def _pairs(values: Floats, keys: tuple[str, str]) -> ResultTable:
    rows, columns = np.indices(values.shape)
    cells = {keys[0]: rows.ravel(), keys[1]: columns.ravel(), "probability": values.ravel()}
    return ResultTable(cells, keys)


def label_channel(table: Floats, sizes: Floats) -> LabelChannel:
    """Return the channel of a table of probabilities, or of whole parts.

    Parameters
    ----------
    table : (segments + 1, labels)
        The last row is that of a customer without readings.
    sizes : (segments,)
        Released sizes; negative ones count as 0.
    """
    chances = table / table.sum(axis=1, keepdims=True)
    counts = np.maximum(sizes, 0.0)
    counts = counts if counts.any() else np.ones(counts.size)
    return LabelChannel(channel=chances[:-1], no_readings=chances[-1], prior=counts / counts.sum())


def channel_of(record: Mapping[str, Any], tables: Mapping[str, Table]) -> LabelChannel | None:
    """Return the channel that a manifest states of the product `labels`; None if there is none.

    Parameters
    ----------
    record
        The product in the manifest.
    tables
        Released tables; the sizes of the segments are needed.
    """
    if "channel" not in record or "cluster_sizes" not in tables:
        return None
    sizes = tables["cluster_sizes"].column("customers")
    return label_channel(stated_parts(record["channel"]), sizes)


def stated_parts(channel: Sequence[Sequence[str]]) -> Floats:
    """Return the whole parts of a channel of a manifest, as floats."""
    return np.array([[int(parts) for parts in row] for row in channel], dtype=np.float64)


def named_labels(channel: Floats) -> tuple[int, ...]:
    """Return the labels that some segment has with a probability of at least 1 %."""
    return tuple(np.flatnonzero(channel.max(axis=0) >= MIN_NAMED).tolist())
