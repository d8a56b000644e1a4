"""Time stamps: the format of a column, and local time versus UTC with every change of the clocks.

The format of a column is found from a sample, then applied strictly. A column has one kind of
stamp: one of another kind (with an offset among stamps without) is unreadable and counted, because
reading it as the usual kind would shift it by hours.

Local time follows the IANA rules of `zoneinfo`, for arrays of microseconds since 1970. DuckDB's own
conversion returns one instant for a local time that occurs twice and invents one for a local time
that never occurs; here both cases are distinguished.
"""

import datetime as dt
import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings.sql_text import literal

if TYPE_CHECKING:  # comes with an extra, and `verify` needs this module
    import duckdb

_CLOCK = r"[ T]\d{1,2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_NAIVE = rf"\d{{4}}-\d{{1,2}}-\d{{1,2}}({_CLOCK})?"
_AWARE = rf"\d{{4}}-\d{{1,2}}-\d{{1,2}}{_CLOCK} ?(Z|UTC|[+-]\d{{2}}(:?\d{{2}})?)"
_EPOCH = r"\d{9,10}|\d{12,13}"

_FORMATS = [
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %I:%M %p",
    "%m/%d/%Y %I:%M %p",
    "%d/%m/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d-%b-%Y %H:%M",
    "%d%b%Y:%H:%M:%S",
    "%d%b%y:%H:%M:%S",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%Y%m%d",
    "%d-%m-%Y %H:%M:%S",
    "%d-%m-%Y %H:%M",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%Y-%m-%d %H.%M",
    "%Y-%m-%d %H.%M.%S",
    "%d.%m.%Y %H.%M",
    "%d-%m-%Y %H.%M",
    "%Y-%m-%d %I:%M %p",
    "%Y-%m-%d %I:%M:%S %p",
    "%Y%m%d %H:%M",
    "%Y%m%d%H%M",
    "%Y%m%d%H%M%S",
    "%d %b %Y %H:%M",
    "%b %d, %Y %I:%M %p",
]
_NEARLY = 0.98  # a format that reads so much of what the best one reads may be the right one
_SHORT_YEARS = [
    item.replace("%Y", "%y") for item in _FORMATS if re.match(r"%[dm][-/.]%[dm][-/.]%Y", item)
]


def known_zone(name: str, zone: object) -> ZoneInfo:
    """Accept an IANA time zone."""
    try:
        return ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidParameterError(
            name, "an IANA time zone such as Europe/London", zone
        ) from error


def _zone(value: str) -> str:
    known_zone("timezone", value)
    return value


TimeZone = Annotated[str, AfterValidator(_zone)]


@dataclass(frozen=True)
class StampReader:
    """Reads a column of stamps: ``sql`` gives microseconds since 1970, NULL if unreadable.

    ``aware`` marks instants; otherwise they are local time.
    """

    sql: str
    aware: bool
    typed: bool = False  # the column is a time already, and sql grows with it
    writes: str | None = None  # writes stamp_us as the column has it, where that is one way only
    inferred: str | None = None


def typed_stamp(column: str, kind: str) -> StampReader | None:
    """Read a column that is a time already, or seconds since 1970."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        writes = "make_timestamptz(stamp_us)"
        return StampReader(f"epoch_us({column})", aware=True, typed=True, writes=writes)
    if kind.startswith("TIMESTAMP") or kind == "DATE":
        writes = f"make_timestamp(stamp_us)::{kind}"
        sql = f"epoch_us({column}::TIMESTAMP)"
        return StampReader(sql, aware=False, typed=True, writes=writes)
    if kind.endswith(("INT", "INTEGER", "HUGEINT")):
        return _epoch(f"{column}::BIGINT")
    return None


def text_stamp(
    connection: "duckdb.DuckDBPyConnection",
    column: str,
    sample: list[str],
    *,
    given: str | None,
    path: object,
    where: str,
    dates: str = "",
) -> StampReader:
    """Read a column of text, by the format given or the one that fits the whole sample best.

    ``dates`` is dmy or mdy if the source is known to write 01/02 in that order.
    """
    text = f"trim({column})"
    if given is not None:
        has_offset = "%z" in given
        kind = "TIMESTAMPTZ" if has_offset else "TIMESTAMP"
        sql = f"epoch_us(try_strptime({text}, {literal(given)})::{kind})"
        aware = has_offset or re.search(r"[^%]Z$", given) is not None
        return StampReader(sql, aware=aware, writes=None if has_offset else _writes(given))
    counts = {
        pattern: sum(re.fullmatch(pattern, stamp) is not None for stamp in sample)
        for pattern in (_NAIVE, _AWARE, _EPOCH)
    }
    best = max(counts, key=lambda pattern: counts[pattern])
    if 2 * counts[best] <= len(sample):
        return _formatted(connection, text, sample, path, where, dates)
    if best == _EPOCH:
        return _epoch(f"CASE WHEN regexp_full_match({text}, '{_EPOCH}') THEN {text}::BIGINT END")
    form = _usual_format(sample)
    usual = _usual(column, [stamp for stamp in sample if re.fullmatch(best, stamp)])
    fast = f"WHEN {usual} THEN epoch_us(try_cast({column} AS TIMESTAMP))"
    if best == _NAIVE:
        slow = f"epoch_us(try_cast({text} AS TIMESTAMP))"
    else:
        # The cast to TIMESTAMP overlooks the Z, which is what it should do, and is much faster.
        fast = fast if form is not None and form.endswith("%SZ") else ""
        # DuckDB wants seconds before an offset, and no blank.
        whole = f"regexp_replace({text}, ' ([-+Z])', '\\1')"
        whole = f"regexp_replace({whole}, '^(.{{8,10}}[ T][0-9]+:[0-9]+)( ?[-+ZU])', '\\1:00\\2')"
        slow = f"epoch_us(try_cast({whole} AS TIMESTAMPTZ))"
    sql = f"CASE {fast} WHEN regexp_full_match({text}, '{best}') THEN {slow} END"
    aware = best == _AWARE
    inferred = f"stamp: {'instants, with' if aware else 'local time, without'} an offset from UTC"
    return StampReader(sql, aware=aware, writes=_writes(form), inferred=inferred)


def check_format(  # noqa: PLR0917 - what its callers have
    connection: "duckdb.DuckDBPyConnection",
    source: str,
    reader: StampReader,
    given: str | None,
    first: str,
    path: object,
    where: str,
) -> None:
    """Reject a given format that fits no stamp of the source; the error shows the first stamp."""
    if given is None:
        return
    fitting = f"SELECT 1 FROM {source} WHERE ({reader.sql}) IS NOT NULL LIMIT 1"
    if connection.execute(fitting).fetchone() is None:
        raise InvalidFileError(path, where, f"a time stamp that fits {given!r}", first)


def _writes(form: str | None) -> str | None:
    return None if form is None else f"strftime(make_timestamp(stamp_us), {literal(form)})"


def _usual_format(sample: list[str]) -> str | None:
    """Find the format of a sample in which all stamps look alike, with Z the only offset."""
    shapes = {re.sub(r"\d", "0", stamp) for stamp in sample}
    known = {
        f"0000-00-00{sign}00:00{seconds}{zone}": f"%Y-%m-%d{sign}%H:%M{read}{zone}"
        for sign in " T"
        for seconds, read in (("", ""), (":00", ":%S"))
        for zone in ("", "Z")
    }
    return known.get(shapes.pop()) if len(shapes) == 1 else None


def _usual(column: str, stamps: list[str]) -> str:
    """Write a cheap test for stamps of the usual form; all others meet the regular expression.

    The length with the last characters leaves no room for another form that a cast would accept.
    """
    lengths = [len(stamp) for stamp in stamps]
    length = max(set(lengths), key=lengths.count)
    ends = [stamp[-3:] for stamp in stamps if len(stamp) == length]
    end = max(set(ends), key=ends.count)
    return f"strlen({column}) = {length} AND ends_with({column}, {literal(end)})"


def _epoch(number: str) -> StampReader:
    """Read seconds or milliseconds since 1970."""
    sql = (
        f"CASE WHEN {number} BETWEEN 1 AND 99999999999 THEN {number} * 1000000"
        f" WHEN {number} BETWEEN 100000000000 AND 99999999999999 THEN {number} * 1000 END"
    )
    return StampReader(sql, aware=True, inferred="stamp: seconds or milliseconds since 1970")


def _formatted(  # noqa: PLR0917 - what its one caller has
    connection: "duckdb.DuckDBPyConnection",
    text: str,
    sample: list[str],
    path: object,
    where: str,
    dates: str,
) -> StampReader:
    """Find the format that parses the largest part of the sample; reject an ambiguous one.

    A few stamps that only one order of day and month can read decide nothing: they may be damaged.
    """
    # try_strptime wants a constant format, so each format is a column of its own.
    short = not any(re.search(r"\d{4}", stamp) for stamp in sample)
    formats = _SHORT_YEARS if short else _FORMATS
    columns = ", ".join(f"count(try_strptime(s, {literal(item)}))" for item in formats)
    row = connection.execute(f"SELECT {columns} FROM (SELECT unnest(?::VARCHAR[]) AS s)", [sample])
    fits = dict(zip(formats, row.fetchall()[0], strict=True))
    max_fits = max(fits.values())
    best = [item for item in formats if fits[item] >= _NEARLY * max_fits]
    first = {"dmy": "%d", "mdy": "%m"}.get(dates, "")
    best = [item for item in best if first and item.startswith(first)] or best
    shown = sample[0] if sample else ""
    if 2 * max_fits <= len(sample) or len(best) > 1:
        fitting = f" (it may be {' or '.join(best)})" if max_fits else ""
        expected = f"time stamps of a known format, or stamp_format=…{fitting}"
        raise InvalidFileError(path, where, expected, shown)
    sql = f"epoch_us(try_strptime({text}, {literal(best[0])}))"
    inferred = f"stamp_format: {best[0]}"
    return StampReader(sql, aware=False, writes=_writes(best[0]), inferred=inferred)


MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US

Micros = NDArray[np.int64]

_FIRST_INSTANT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


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
    moment = (_FIRST_INSTANT + dt.timedelta(microseconds=utc_us)).astimezone(rules)
    ahead = moment.utcoffset() or dt.timedelta()
    return ahead // dt.timedelta(microseconds=1)


def _change_between(rules: ZoneInfo, before: int, after: int) -> int:
    """Find, to the minute, the first instant with the later offset."""
    low, high = before // MINUTE_US, after // MINUTE_US
    later = _offset(rules, after)
    while high - low > 1:
        midpoint = (low + high) // 2
        if _offset(rules, midpoint * MINUTE_US) == later:
            high = midpoint
        else:
            low = midpoint
    return high * MINUTE_US
