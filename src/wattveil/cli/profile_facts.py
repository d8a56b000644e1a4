"""How profiles were made, in words: public choices that a plan shows before a release."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from wattveil.products.plan_calibration import Roughness
from wattveil.products.request import ReleaseRequest

_FACTS = {
    "timezone": "time zone",
    "min_days": "minimum days per customer",
    "max_gap_hours": "longest gap in hours",
    "split": "averaged by",
    "closing_midnight": "first slot repeated at the end",
    "reading_options_inferred": "reading options inferred from the file",
    "unit": "unit of readings",
    "stamp": "a time stamp names the interval's",
    "conflicts": "conflicting readings",
    "estimated": "estimated readings",
    "cumulative": "cumulative register values",
}


def profile_facts(stated: Mapping[str, Any]) -> str:
    """Return how profiles were made, as the manifest will state it; what was not done is left out.

    The hash of the choices covers these facts.
    """
    named = {**stated, **stated["grid"], **stated["reading_rules"]}
    days, grid = named.pop("period"), ("grid", "reading_rules", "minutes")
    read = "days of the readings not stated"
    if days is not None:
        first, end = map(date.fromisoformat, days)
        read = f"readings of {first} to {end - timedelta(days=1)}"
    found = [f"slots of {stated['grid']['minutes']} minutes", read]
    for name, value in named.items():
        if name not in grid and value is not None and value is not False:
            shown = "yes" if value is True else value
            found.append(f"{_FACTS.get(name, name.replace('_', ' '))}: {shown}")
    return "; ".join(found)


def period_warnings(stated: Mapping[str, Any] | None, request: ReleaseRequest) -> Iterator[str]:
    """Yield a warning if the stated period of the profiles is not that of ``--roughness``."""
    period = None if stated is None else stated["profiles"]["reading_rules"]["period"]
    if period is None:
        return
    first, end = map(date.fromisoformat, period)
    if (fits := Roughness.of_days((end - first).days)) is not request.roughness:
        yield (
            f'--roughness is "{request.roughness}", but the profiles average {(end - first).days}'
            f' days (--period), which is "{fits}": expected errors may be wrong'
        )
