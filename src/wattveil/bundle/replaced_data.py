"""What a guarantee bounds for inferences about the value of data: the replace-one relation.

Epsilon alone does not state it: delta grows as well. Report, card, dossier and the command `total`
state both numbers.
"""

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.web.formatting import format_upper_bound


def replace_one(stated: Guarantee) -> Guarantee | None:
    """Return the replace-one guarantee of the global tier; None if there is none.

    There is none if (1 + e^epsilon) delta is 1 or more, which bounds nothing.
    """
    if stated.tier is not Tier.GLOBAL:
        return None
    try:
        return stated.as_replace_one()
    except InvalidParameterError:
        return None


def bound_text(guarantee: Guarantee) -> str:
    """Return epsilon and delta, each rounded up."""
    epsilon = format_upper_bound(guarantee.epsilon, 4)
    delta = float(format_upper_bound(guarantee.delta))  # below 1, so without separators
    return f"epsilon {epsilon} at delta {delta:g}"


def inference_sentence(stated: Guarantee) -> str:
    """Return the bound on inferences about the value of data; empty for the instance tier."""
    if stated.tier is not Tier.GLOBAL:
        return ""
    other = replace_one(stated)
    if other is None:
        return "For inferences about the value of these data, no bound follows."
    return f"For inferences about the value of these data, the bound is {bound_text(other)}."
