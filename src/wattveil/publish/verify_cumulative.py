"""Check what a statement says of the sum with other releases."""

from collections.abc import Iterator
from typing import Any

from wattveil.privacy.accounting import Composition
from wattveil.publish.cumulative import ALONE, Cumulative
from wattveil.publish.findings import Finding, gathered

_LEAST_OTHER_ENTRIES = 3
"""Before the first charge of a book: a data set is opened, and has a cap, and so has who asks."""


def cumulative_finding(manifest: dict[str, Any], own: Composition) -> Finding:
    """Recompute the epsilons of the sum, and compare it with what the release itself was granted.

    ``own`` is the sum of the grants of the release.
    """
    stated = manifest["cumulative"]
    if isinstance(stated, str):
        return Finding("the sum with other releases", stated == ALONE, "none is stated")
    return gathered(
        "the sum with other releases",
        _problems(stated, manifest["public_inputs"], own),
        f"epsilon {stated['epsilon_spent']} of {stated['epsilon_cap']},"
        f" entry {stated['ledger_seq']} of the ledger",
    )


def _problems(stated: dict[str, Any], public: dict[str, Any], own: Composition) -> Iterator[str]:
    for field in ("tier", "delta"):
        if stated[field] != public[field]:
            yield f"its {field} is {stated[field]}, that of the release {public[field]}"
            return
    sum_ = Cumulative.from_json(stated)
    for field, due in sum_.to_json().items():
        if stated[field] != due:
            yield f"{field} is {stated[field]}, the amounts give {due}"
    if not _fits(sum_.spent, sum_.caps):
        yield "more is spent than may be"
    if not _fits(own, sum_.spent):
        yield "the release costs more than all releases together"
    if stated["ledger_seq"] < stated["releases"] + _LEAST_OTHER_ENTRIES:
        yield "a ledger with so few entries has not counted so many releases"


def _fits(part: Composition, whole: Composition) -> bool:
    """Whether no measure is larger than that of the whole."""
    return all(value <= vars(whole)[name] for name, value in vars(part).items())
