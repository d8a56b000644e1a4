"""How a file writes time: told from a sample, then read strictly.

A column is of one kind. A stamp of another kind (one with an offset among stamps without) is
unreadable and counted, because reading it as if it were of the kind would move it by hours.
"""

import re
from dataclasses import dataclass

import duckdb

from wattveil.errors import InvalidFileError
from wattveil.ingest.sql import literal

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
]


@dataclass(frozen=True)
class StampReader:
    """Reads a column of stamps: ``sql`` gives microseconds since 1970, NULL if unreadable.

    ``aware`` says that they are instants; otherwise they are the time on a clock.
    """

    sql: str
    aware: bool
    typed: bool = False  # the column is a time already, and sql grows with it
    writes: str | None = None  # writes stamp_us as the column has it, where that is one way only
    guess: str | None = None


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
    connection: duckdb.DuckDBPyConnection,
    column: str,
    sample: list[str],
    *,
    given: str | None,
    path: object,
    where: str,
) -> StampReader:
    """Read a column of text, by the format given or the one that fits the whole sample best."""
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
        return _formatted(connection, text, sample, path, where)
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
    guess = f"stamp: {'instants, with' if aware else 'time on a clock, without'} an offset from UTC"
    return StampReader(sql, aware=aware, writes=_writes(form), guess=guess)


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
    return StampReader(sql, aware=True, guess="stamp: seconds or milliseconds since 1970")


def _formatted(
    connection: duckdb.DuckDBPyConnection, text: str, sample: list[str], path: object, where: str
) -> StampReader:
    """Find the format that reads most of the sample; refuse to choose between two."""
    # try_strptime wants a constant format, so each format is a column of its own.
    columns = ", ".join(f"count(try_strptime(s, {literal(item)}))" for item in _FORMATS)
    row = connection.execute(f"SELECT {columns} FROM (SELECT unnest(?::VARCHAR[]) AS s)", [sample])
    fits = dict(zip(_FORMATS, row.fetchall()[0], strict=True))
    most = max(fits.values())
    best = [item for item in _FORMATS if fits[item] == most]
    shown = sample[0] if sample else ""
    if 2 * most <= len(sample) or len(best) > 1:
        fitting = f" (it may be any of {best})" if most else ""
        expected = f"time stamps of a known format, or stamp_format=…{fitting}"
        raise InvalidFileError(path, where, expected, shown)
    sql = f"epoch_us(try_strptime({text}, {literal(best[0])}))"
    guess = f"stamp_format: {best[0]}"
    return StampReader(sql, aware=False, writes=_writes(best[0]), guess=guess)
