"""The days of one NEM12 meter, and how its registers add up to rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from numpy.typing import NDArray

from wattveil.ingest.batches import BatchBuilder, ProblemSink

QUALITIES = ("valid", "estimated", "missing")  # from best to worst
MISSING = QUALITIES.index("missing")

_EPOCH = date(1970, 1, 1)
_MARKET_AHEAD_SECONDS = 10 * 3600


@dataclass(kw_only=True, slots=True)
class Day:
    """One day of one register; a missing value is NaN."""

    line: int
    date: date
    updated: str
    variable: bool
    kwh: NDArray[np.float64]
    qualities: NDArray[np.uint8]  # positions in QUALITIES
    covered: int = 0  # intervals up to here have their quality from a 400 record


@dataclass(kw_only=True, slots=True)
class Meter:
    """The days of one NMI, by channel and date, then by register."""

    nmi: str
    days: dict[tuple[str, date], dict[str, Day]] = field(default_factory=dict)

    def add_to(self, rows: BatchBuilder, problems: ProblemSink) -> Iterator[None]:
        """Add each day to the rows, its registers added up, and pause after it."""
        for (channel, _), registers in self.days.items():
            first, *others = registers.values()
            if any(len(other.kwh) != len(first.kwh) for other in others):
                reason = "registers of one day differ in interval length"
                for suffix, day in registers.items():
                    count_day(problems, reason, day, nmi=self.nmi, suffix=suffix)
                continue
            rows.add_run(
                customer_id=self.nmi,
                first_start_us=_start_us(first.date),
                minutes=1440 // len(first.kwh),
                kwh=_sums(registers.values(), negative=channel == "received"),
                channel=channel,
                qualities=_worst(registers.values()),
            )
            for suffix, day in list(registers.items())[1:]:
                reason = "merged: added to another register of the same direction"
                count_day(problems, reason, day, nmi=self.nmi, suffix=suffix)
            yield


@dataclass(kw_only=True, slots=True)
class Given:
    """What was already handed over of one NMI and channel."""

    first: date
    last: date
    suffixes: set[str] = field(default_factory=set)

    def cannot_be_added_to(self, day: date, suffix: str) -> bool:
        """Tell whether the day may miss registers that were handed over before, or they it."""
        return self.first <= day <= self.last and self.suffixes != {suffix}


def _sums(days: Iterable[Day], *, negative: bool) -> list[float | None]:
    total = np.sum([day.kwh for day in days], axis=0)
    signed: list[float] = (0.0 - total if negative else total).tolist()
    if not np.isnan(total).any():
        return [*signed]
    return [None if np.isnan(kwh) else kwh for kwh in signed]


def _worst(days: Iterable[Day]) -> list[str]:
    worst: list[int] = np.max([day.qualities for day in days], axis=0).tolist()
    return [QUALITIES[quality] for quality in worst]


def _start_us(day: date) -> int:
    return ((day - _EPOCH).days * 86_400 - _MARKET_AHEAD_SECONDS) * 1_000_000


def count_day(problems: ProblemSink, reason: str, day: Day, *, nmi: str, suffix: str) -> None:
    """Count each reading of a day."""
    minutes = 1440 // len(day.kwh)
    where, date_text = f"line {day.line}", day.date.isoformat()
    for i, kwh in enumerate(_sums([day], negative=False)):
        row: dict[str, object] = {
            "customer_id": nmi,
            "suffix": suffix,
            "date": date_text,
            "minute": i * minutes,
            "kwh": kwh,
        }
        problems.count(reason, where, row)
