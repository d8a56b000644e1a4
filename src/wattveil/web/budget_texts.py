"""Sentences about privacy budgets: the same on the pages of a server and in its Python client."""

from typing import NamedTuple

SHARE_OF_BUDGET = (
    "Percentages state the share of the budget that is spent, in rho, which adds up over releases."
    " Epsilon grows more slowly: four times as many releases cost about twice the epsilon."
)
RESERVED = "slightly less than what is left because a part is reserved for rounding"
"""Why the maximum epsilon is below the difference of cap and spent epsilon."""


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

    >>> affordability(paid_dataset=False, paid_own=False, more_dataset=9, more_own=1).text
    'About 1 release of this kind fits into your remaining budget.'
    """
    if not ((paid_dataset or more_dataset) and (paid_own or more_own)):
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


def max_epsilon(largest_epsilon: object) -> str:
    """Return the clause on the maximum epsilon; empty if there is none."""
    if largest_epsilon is None:
        return ""
    return f": the maximum epsilon is {largest_epsilon}, {RESERVED}"


def _number_of(more: int) -> str:
    fit = "release of this kind fits" if more == 1 else "releases of this kind fit"
    return f"About {more:,} {fit} into your remaining budget."
