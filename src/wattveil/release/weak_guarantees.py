"""Warnings about weak guarantees, declared once: for plans, quotes, reports, dossiers and `fit`.

They depend on public and released numbers alone.

>>> delta_warning(1e-6, 1000) is None
True
>>> choice_warnings(is_instance=False, real_ids=False)
()
"""

import sys
import warnings
from typing import TYPE_CHECKING

from wattveil.errors import WeakGuaranteeWarning
from wattveil.web.formatting import format_factor

if TYPE_CHECKING:
    from types import FrameType

MAX_USUAL_EPSILON = 10.0
"""Above it a factor of e^epsilon bounds hardly anything: warnings begin here."""

NOT_PRIVATE = (
    "This is not differential privacy: the guarantee is that of the instance tier, whose noise"
    " scale is computed from the data. No bound holds for the release as a whole."
)
"""Stated wherever a release of the instance tier is described."""
REAL_IDS = (
    "This release contains real customer ids: each row of the table labels is about an identified"
    " customer. Treat it as personal data."
)
"""Stated wherever a release with real ids is described."""


def choice_warnings(*, is_instance: bool, real_ids: bool) -> tuple[str, ...]:
    """Return what the choice of the instance tier and of real ids means; often nothing."""
    return (*((NOT_PRIVATE,) if is_instance else ()), *((REAL_IDS,) if real_ids else ()))


def guarantee_warnings(*, epsilon: float, delta: float, customers: int) -> tuple[str, ...]:
    """Return what weakens a guarantee, from public numbers alone; often nothing."""
    found = (epsilon_warning(epsilon), delta_warning(delta, customers))
    return tuple(text for text in found if text is not None)


def epsilon_warning(epsilon: float) -> str | None:
    """Return a warning if epsilon is above 10; None up to it."""
    if epsilon <= MAX_USUAL_EPSILON:
        return None
    power, factor = f"e^{epsilon:g}", format_factor(epsilon)
    factor = power if factor.startswith("e") else f"{factor} ({power})"
    return (
        f"epsilon = {epsilon:g} is above {MAX_USUAL_EPSILON:g}: the data of one customer may change"
        f" the probability of a result by a factor of {factor}, so the guarantee alone"
        " offers little protection. Values of 1 or less are considered strong; above a few units"
        " the guarantee must be justified."
    )


def delta_warning(
    delta: float, customers: int, *, known_from: str = "public estimate"
) -> str | None:
    """Return a warning if delta is at or above 1/customers; None below it.

    A mechanism that publishes the whole record of each customer with probability delta satisfies
    (0, delta)-differential privacy; at delta = 1/customers it exposes one customer on average. Both
    numbers are public, or released (``known_from``).
    """
    if delta < 1.0 / customers:
        return None
    return (
        f"delta = {delta:g} is not below 1/customers = {1.0 / customers:g}, for the {known_from}"
        f" of {customers:,} customers: such a guarantee permits the exposure of whole customers."
        " Rule of thumb: choose delta well below 1/customers."
    )


def warn_of_delta(delta: float, released_customers: float) -> None:
    """Warn the caller of ``fit`` if delta is at or above one over the *released* count.

    The exact number of rows is private: a warning that depends on it would reveal it. A bundle is
    not warned of here, because its plan, manifest and report state the same.
    """
    customers = max(round(released_customers), 1)  # a noisy count may be negative
    text = delta_warning(delta, customers, known_from="released, noisy number")
    if text is None:
        return
    level = 1
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - `inspect.stack` reads source files
    while frame is not None and _module(frame).startswith(_ESTIMATORS):
        frame, level = frame.f_back, level + 1
    if frame is None or not _module(frame).startswith("wattveil."):
        warnings.warn(text, WeakGuaranteeWarning, stacklevel=level)


_ESTIMATORS = ("wattveil.release.", "sklearn.")
"""Modules between the caller of ``fit`` and the warning."""


def _module(frame: "FrameType") -> str:
    return str(frame.f_globals.get("__name__"))
