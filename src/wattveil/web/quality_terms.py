"""What the expected qualities of a quote mean, for readers of the server's pages."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_OF_EVERY_PLAN: Mapping[str, str] = MappingProxyType(
    {
        "standalone epsilon": "the epsilon of the product if it were released alone. These numbers"
        " add up to more than the epsilon of the release.",
        "(a to b)": "the range in which the result of one release is expected. It was fitted to"
        " measured and simulated customers, and is not a guarantee.",
    }
)
QUALITY_TERMS: Mapping[str, str] = MappingProxyType(
    {
        "standard error of a mean load": "of the mean load in one slot of the day, because of the"
        " noise; with groups, of the group in which it is largest.",
        "error of a load curve": "root-mean-square difference between the released curve of a"
        " segment and its exact one.",
        "loss relative to exact segments": "how much larger the mean squared distance of customers"
        " to the curve of their segment is than with exact K-means: 0 % is as good.",
        "supported segments": "their curves differ from each other, and their sizes from zero, by"
        " more than 2 standard errors.",
        "distinguishable segments": "their curves differ from each other by more than 2 standard"
        " errors.",
        "error of a share": "standard error of the share of a segment in a group.",
        "distance W1 from real customers": "Wasserstein distance between the loads of synthetic and"
        " real customers in one slot, in standard deviations between customers (SD): 0 is equal.",
        "correlation error": "mean absolute difference between the correlations of two slots among"
        " synthetic and among real customers: 0 is equal.",
        "segments that labels distinguish": "those that are the most probable segment of a customer"
        " given some published label.",
        "expected wrong labels": "share of customers whose published label is not their segment.",
        "synthetic minus real coincident peak in simulated releases": "bias of the highest load of"
        " all customers together.",
        "synthetic minus real energy over the released days in simulated releases": "bias of the"
        " energy of all customers together.",
        "error estimate": "it is known only after the release.",
    }
)
"""By the name of the quality, as products state it."""


def explained(quantities: Iterable[str]) -> list[tuple[str, str]]:
    """Return the terms of a plan's table, each with its meaning, in the order of the table."""
    known = {one: QUALITY_TERMS[one] for one in quantities if one in QUALITY_TERMS}
    return [*_OF_EVERY_PLAN.items(), *known.items()]
