"""Sentences about privacy budgets: the same on the pages of a server and in its Python client."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from wattveil.web.formatting import format_lower_bound, format_number, format_share

SHARE_OF_BUDGET = (
    "Percentages are the shares of the budget that are spent. These add up over releases; epsilon"
    " grows more slowly: four releases at the same epsilon cost about twice that epsilon together."
    " Where labels have a budget of their own, the percentage is that of the budget used more."
)
RESERVED = "a small reserve is kept for rounding"
"""Why the maximum epsilon is below the difference of cap and spent epsilon."""
LABEL_UNITS = 10**12
"""Units of the epsilon of labels that are 1, in the amounts that a server sends."""


class Affordability(NamedTuple):
    """Whether the accounts that would be charged cover a release."""

    is_covered: bool
    text: str


def affordability(
    *,
    paid_dataset: bool,
    paid_own: bool,
    more_dataset: int,
    more_own: int,
    largest_epsilon: object = None,
    price: Mapping[str, str] = MappingProxyType({}),
    left: Mapping[str, str] | None = None,
) -> Affordability:
    """Return whether a release can be ordered, and the sentence that says so.

    Parameters
    ----------
    paid_dataset, paid_own
        Whether the same request was charged before: by anyone, and by this principal.
    more_dataset, more_own
        How often each account covers the price.
    largest_epsilon
        Maximum epsilon that both accounts cover; None if there is none.
    price, left
        Amounts as the server sends them: what would be charged, and what the accounts that would be
        charged have left; None if that is not known.

    >>> affordability(paid_dataset=False, paid_own=False, more_dataset=9, more_own=1).text
    'About 1 release of this kind fits into your remaining budget.'
    """
    if not ((paid_dataset or more_dataset) and (paid_own or more_own)):
        text = _too_small_labels(price, left or {})
        if not text:
            text = f"The remaining budget is too small{max_epsilon(largest_epsilon)}."
        return Affordability(is_covered=False, text=text)
    if paid_own:
        text = (
            "You have already ordered this release: repeating the request is free and returns the"
            " stored release."
        )
    elif paid_dataset:
        text = (
            "This release already exists: only your own budget is charged, not that of the data"
            f" set. {_number_of(more_own)}"
        )
    else:
        text = _number_of(min(more_dataset, more_own))
    return Affordability(is_covered=True, text=text)


def spent_afterwards(now: float, then: float) -> str:
    """Return the share of a budget that is spent after a release, and before it.

    >>> spent_afterwards(0.0, 0.0775)
    'Afterwards 8 % of your budget is spent (now 0 %).'
    """
    after, before = (format_share(share, 0) for share in (then, now))
    return f"Afterwards {after} of your budget is spent (now {before})."


def max_epsilon(largest_epsilon: object) -> str:
    """Return the clause on the maximum epsilon; empty if there is none."""
    if largest_epsilon is None:
        return ""
    shown = format_lower_bound(float(str(largest_epsilon)), 4)
    return f": the largest epsilon you can order is {shown} ({RESERVED})"


def label_epsilon(amounts: Mapping[str, str]) -> float:
    """Return the epsilon of labels in amounts that a server sends."""
    return int(amounts.get("epsilon", "0")) / LABEL_UNITS


def label_budget(account: Mapping[str, Any]) -> str:
    """Return what an account has spent on labels, as text; empty if it has no budget for them.

    Parameters
    ----------
    account
        As the server sends it.
    """
    cap, spent = (label_epsilon(account.get(name) or {}) for name in ("caps", "spent"))
    if not cap:
        return ""
    return f"labels: epsilon {format_number(spent)} of {format_number(cap)} spent"


def _too_small_labels(price: Mapping[str, str], left: Mapping[str, str]) -> str:
    """Return that the budget for labels does not cover a price; empty if it does."""
    needed, have = label_epsilon(price), label_epsilon(left)
    if "epsilon" not in left or needed <= have:
        return ""
    return (
        "The remaining budget for labels is too small: this release needs a label epsilon of"
        f" {format_number(needed)}, and {format_lower_bound(have)} is left."
    )


def _number_of(more: int) -> str:
    fit = "release of this kind fits" if more == 1 else "releases of this kind fit"
    return f"About {more:,} {fit} into your remaining budget."


def erasure_text(*, excluded: bool) -> str:
    """Return the answer to an erasure from a series: who was a customer is private."""
    if excluded:
        return "Erased, where they were customers. Later periods exclude them."
    return (
        "The series has no private state yet, so there was nothing to erase, and its first period"
        " will not exclude them: remove them from its profiles."
    )
