"""Local time and UTC, for arrays of microseconds since 1970, with every change of the clocks.

Made from the IANA rules of `zoneinfo`. DuckDB's own conversion gives one answer for a local time
that happens twice and invents one for a local time that never was; here both are told apart.
"""

import datetime as dt
import itertools
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US

Micros = NDArray[np.int64]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Offsets:
    """Distance of a zone's clock from UTC over a stretch of time.

    ``offsets_us[i]`` holds from ``changes_us[i - 1]`` on, the first one before all changes.
    """

    changes_us: Micros
    offsets_us: Micros

    def at(self, utc_us: Micros) -> Micros:
        """Return the offset at each instant."""
        found: Micros = self.offsets_us[np.searchsorted(self.changes_us, utc_us, side="right")]
        return found

    def steady_us(self, utc_us: Micros) -> Micros:
        """Return how long the offset stays as it is at each instant; a day if it changes later."""
        changes_us = np.append(self.changes_us, np.iinfo(np.int64).max)
        following = changes_us[np.searchsorted(self.changes_us, utc_us, side="right")]
        steady: Micros = np.minimum(following, utc_us + DAY_US) - utc_us
        return steady


@dataclass(frozen=True)
class Instants:
    """The instants at which a zone's clocks show given local times.

    ``times`` is 1, or 0 for a time that clocks jump over, or 2 for one that they show twice;
    ``first_us`` and ``second_us`` are its instants, the same one unless ``times`` is 2.
    """

    times: NDArray[np.int64]
    first_us: Micros
    second_us: Micros


@lru_cache(maxsize=32)
def offsets(zone: str, first_us: int, last_us: int) -> Offsets:
    """Find every change of the clocks between two instants, a day added on both sides."""
    rules = ZoneInfo(zone)
    probes = np.arange(first_us - DAY_US, last_us + 2 * DAY_US, DAY_US).tolist()
    changes, values = [], [_offset(rules, probes[0])]
    for before, after in itertools.pairwise(probes):
        if _offset(rules, after) != values[-1]:
            changes.append(_change_between(rules, before, after))
            values.append(_offset(rules, after))
    return Offsets(np.array(changes, dtype=np.int64), np.array(values, dtype=np.int64))


def instants(zone: str, local_us: Micros) -> Instants:
    """Find the instants at which the clocks of a zone show each local time."""
    if local_us.size == 0:
        return Instants(np.zeros(0, np.int64), local_us, local_us)
    known = offsets(zone, int(local_us.min()) - DAY_US, int(local_us.max()) + DAY_US)
    times = np.zeros(local_us.shape, dtype=np.int64)
    first = local_us - known.offsets_us[0]
    second = first.copy()
    # The larger offset comes first in time: summer time ends, winter time follows.
    for offset in sorted(set(known.offsets_us.tolist()), reverse=True):
        holds = known.at(local_us - offset) == offset
        first = np.where(holds & (times == 0), local_us - offset, first)
        second = np.where(holds, local_us - offset, second)
        times += holds
    return Instants(times, first, second)


def midnights(zone: str, days: NDArray[np.int64]) -> Micros:
    """Return the instants at which local days (counted from 1970) begin."""
    found = instants(zone, days * DAY_US)
    if (found.times != 0).all():
        return found.first_us
    # Some zones change at midnight: the day then begins when the clocks have jumped.
    jump = offsets(zone, int(found.first_us.min()), int(found.first_us.max()))
    after = np.minimum(np.searchsorted(jump.changes_us, found.first_us), jump.changes_us.size - 1)
    return np.where(found.times == 0, jump.changes_us[after], found.first_us)


def _offset(rules: ZoneInfo, utc_us: int) -> int:
    moment = (_EPOCH + dt.timedelta(microseconds=utc_us)).astimezone(rules)
    ahead = moment.utcoffset() or dt.timedelta()
    return ahead // dt.timedelta(microseconds=1)


def _change_between(rules: ZoneInfo, before: int, after: int) -> int:
    """Find, to the minute, the first instant with the later offset."""
    low, high = before // MINUTE_US, after // MINUTE_US
    later = _offset(rules, after)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(rules, middle * MINUTE_US) == later:
            high = middle
        else:
            low = middle
    return high * MINUTE_US
