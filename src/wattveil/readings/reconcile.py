"""Reconciliation of checked rows with each other: time axis, duplicates, registers, channels.

Four stages: *place* puts stamps on the UTC axis (the repeated hour by order of appearance), *unite*
makes one row of the rows of one interval, *difference* turns register reads into energy, *net*
makes one load of the channels of a customer. Each counts what it takes away. Results go to Parquet
files, so that nothing has to fit in memory.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from wattveil.readings import schema
from wattveil.readings.local_starts import CLOCK_BLOCK_US, make_clock
from wattveil.readings.options import Conflicts
from wattveil.readings.row_checks import Drop, Merge, Note, possible_load
from wattveil.readings.sql_text import literal, literals
from wattveil.readings.timestamps import MINUTE_US

_MAX_FILLED_HOURS = 24
_ROLLOVER_SHARE = 0.1  # a register rolls over from its last tenth to its first


@dataclass(frozen=True, kw_only=True)
class ReconcileRules:
    """Rules of reconciliation, from the options and the source."""

    cumulative: bool
    clock: str | None  # zone of the stamps; None: they are instants
    end_stamped: bool
    period_us: tuple[int, int] | None
    conflicts: Conflicts
    register_rollover: float | None
    has_channels: bool
    has_registers: bool
    fills_gaps: bool
    has_qualities: bool


@dataclass
class Reconciliation:
    """The reconciled table and the account of every row.

    ``sql`` gives the columns of `READINGS_SCHEMA`, in no order. ``by_row`` holds what single rows
    were dropped for, ``dropped`` and ``merged`` what follows from several rows.
    """

    sql: str = ""
    customers: int = 0  # named in the rows, including customers whose rows were all dropped
    rows_in: int = 0
    rows_out: int = 0
    by_row: Counter[Drop] = field(default_factory=Counter)
    dropped: Counter[Drop] = field(default_factory=Counter)
    merged: Counter[Merge] = field(default_factory=Counter)
    notes: Counter[Note] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)  # SELECTs of reason, source_row, written


def reconcile(
    connection: duckdb.DuckDBPyConnection, checked: Path, rules: ReconcileRules, folder: Path
) -> Reconciliation:
    """Reconcile the rows of a Parquet file of checked rows."""
    return _Reconciler(connection, checked, rules, folder).run()


class _Reconciler:
    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        checked: Path,
        rules: ReconcileRules,
        folder: Path,
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._folder = folder
        self._checked = f"read_parquet({literal(str(checked))})"
        self.result = Reconciliation()

    def run(self) -> Reconciliation:
        table = self._place()
        if self._rules.cumulative:
            # Registers belong to meters, so duplicates are looked for in each meter first.
            key = f"customer_id, meter, {self._register}channel, start_us"
            table = self._difference(self._unite(table, key, "by_meter"))
        table = self._unite(table, f"customer_id, {self._register}channel, start_us", "united")
        if self._rules.has_registers:
            table = self._add_registers(table)
        if self._rules.has_channels:
            table = self._net(table)
        self._finish(table)
        return self.result

    def _place(self) -> str:
        """Put every row on the UTC axis, or give the reason why it has no place."""
        shift = f"minutes::BIGINT * {MINUTE_US}" if self._rules.end_stamped else "0"
        placed = (
            self._local(shift)
            if self._rules.clock
            else f"""
            SELECT *, stamp_us - {shift} AS start_us, 1 AS times FROM {self._checked}
        """
        )
        outside = "false"
        if self._rules.period_us is not None:
            first, end = self._rules.period_us
            outside = f"start_us NOT BETWEEN {first} AND {end - 1}"
        table = f"""(
            SELECT * REPLACE (
                CASE WHEN reason <> 0 THEN reason
                     WHEN stamp_us % (gcd(minutes, 15)::BIGINT * {MINUTE_US}) <> 0
                         THEN {Drop.OFF_GRID}
                     WHEN times = 0 THEN {Drop.SPRING_GAP}
                     WHEN {outside} THEN {Drop.OUTSIDE_PERIOD}
                     ELSE 0
                END::TINYINT AS reason
            ) FROM ({placed})
        )"""
        for reason, rows in self._rows(f"SELECT reason, count(*) FROM {table} GROUP BY reason"):
            self.result.rows_in += rows
            if reason:
                self.result.by_row[Drop(reason)] += rows
        self.result.customers = self._rows(f"""
            SELECT count(DISTINCT customer_id) FROM {self._checked} WHERE customer_id <> ''
        """)[0][0]
        self.result.problems.append(f"""
            SELECT {_reason_text("reason")} AS reason, source_row, written FROM {table}
            WHERE reason <> 0
        """)
        return f"(SELECT * FROM {table} WHERE reason = 0)"

    def _local(self, shift: str) -> str:
        """Read the clock of a zone. A time shown twice alternates in order of appearance."""
        self._make_clock()
        ambiguous = "reason = 0 AND times = 2"
        joined = f"{self._checked} LEFT JOIN clock ON block = stamp_us // {CLOCK_BLOCK_US}"
        key = f"customer_id, meter, {self._register}channel, stamp_us"
        twice = self._write(
            "twice",
            f"""
            SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY source_row) AS appearance,
                   count(*) OVER (PARTITION BY {key}) AS appearances
            FROM {joined} WHERE {ambiguous}
        """,
        )
        query = f"SELECT count(*) FILTER (appearances = 1), count(*) FROM {twice}"
        singles, rows = self._rows(query)[0]
        self.result.notes[Note.AMBIGUOUS_SINGLE] += singles
        self.result.notes[Note.AMBIGUOUS_PAIR] += rows - singles
        return f"""
            SELECT * EXCLUDE (block, first_offset_us, second_offset_us),
                   stamp_us - first_offset_us - {shift} AS start_us
            FROM {joined} WHERE ({ambiguous}) IS NOT TRUE
            UNION ALL BY NAME
            SELECT * EXCLUDE (block, first_offset_us, second_offset_us, appearance, appearances),
                   stamp_us - {shift} - CASE WHEN appearance % 2 = 1 THEN first_offset_us
                                             ELSE second_offset_us END AS start_us
            FROM {twice}
        """

    def _make_clock(self) -> None:
        """Make the table of the zone's clock over the stamps of all rows."""
        query = f"SELECT min(stamp_us), max(stamp_us) FROM {self._checked} WHERE reason = 0"
        make_clock(self._connection, str(self._rules.clock), *self._rows(query)[0])

    @property
    def _register(self) -> str:
        """The column of registers for a key, if there is one."""
        return "register, " if self._rules.has_registers else ""

    def _as_text(self, kwh: str = "kwh") -> str:
        """Write a reading as text; readings of one line may differ in channel and register only."""
        told = ["customer_id", "make_timestamptz(start_us)", kwh]
        if self._rules.has_channels:
            told.append(f"({literals(list(schema.CHANNELS))})[channel + 1]")
        if self._rules.has_registers:
            told.append("nullif(trim(register), '')")
        return f"concat_ws(', ', {', '.join(told)})"

    def _add_registers(self, table: str) -> str:
        """Add the registers of each interval, such as two tariffs or a controlled load."""
        path = self._write(
            "added",
            f"""
            SELECT customer_id, channel, start_us, minutes, count(*) AS rows,
                   max(quality) AS quality, sum(kwh ORDER BY kwh) AS kwh
            FROM {table} GROUP BY customer_id, channel, start_us, minutes
        """,
        )
        added = self._rows(f"SELECT coalesce(sum(rows - 1), 0) FROM {path}")[0][0]
        self.result.merged[Merge.ADDED] += int(added)
        return path

    def _unite(self, table: str, key: str, name: str) -> str:
        """Make one row of all rows of an interval, by the rule for conflicts."""
        value = {
            Conflicts.DROP: "min(kwh)",
            Conflicts.FIRST: "arg_min(kwh, source_row)",
            Conflicts.LAST: "arg_max(kwh, source_row)",
            Conflicts.MEAN: "avg(kwh ORDER BY kwh)",  # the same for rows in any order
        }[self._rules.conflicts]
        source, best = table, ""
        if self._rules.has_qualities:
            # A measured read replaces an estimated one of the same interval; then the rule applies.
            source = f"""(
                SELECT *, quality >= {schema.FIRST_ESTIMATED} AS rank,
                       min(rank) OVER (PARTITION BY {key}) AS best_rank
                FROM {table}
            )"""
            best = "FILTER (WHERE rank = best_rank)"
        path = self._write(
            name,
            f"""
            SELECT {key},
                   {"min(source_row) AS source_row," if "meter" in key else ""}
                   min(minutes) AS minutes,
                   count(*) AS rows,
                   count(*) {best} AS best_rows,
                   min(kwh) {best} = max(kwh) {best} AND min(minutes) = max(minutes) AS agree,
                   agree OR min(minutes) = max(minutes)
                       AND {str(self._rules.conflicts is not Conflicts.DROP).lower()} AS stays,
                   min(quality) AS quality,
                   {value} {best} AS kwh
            FROM {source} GROUP BY {key}
        """,
        )
        equal, better, resolved, conflicting = self._rows(f"""
            SELECT coalesce(sum(best_rows - 1) FILTER (stays AND agree), 0),
                   coalesce(sum(rows - best_rows) FILTER (stays), 0),
                   coalesce(sum(best_rows - 1) FILTER (stays AND NOT agree), 0),
                   coalesce(sum(rows) FILTER (NOT stays), 0)
            FROM {path}
        """)[0]
        self.result.merged[Merge.EQUAL] += int(equal)
        self.result.merged[Merge.BETTER] += int(better)
        self.result.merged[Merge.RESOLVED] += int(resolved)
        self.result.dropped[Drop.CONFLICT] += int(conflicting)
        self.result.problems.append(f"""
            SELECT {literal(Drop.CONFLICT.text)} AS reason, source_row, {self._as_text()} AS written
            FROM {table} SEMI JOIN (SELECT {key} FROM {path} WHERE NOT agree) USING ({key})
        """)
        return f"(SELECT * FROM {path} WHERE stays)"

    def _difference(self, table: str) -> str:
        """Turn register reads into the energy between one and the next."""
        rollover = self._rules.register_rollover
        rolled = "false"
        if rollover is not None:
            rolled = (
                f"kwh < before AND before >= {(1 - _ROLLOVER_SHARE) * rollover!r}"
                f" AND kwh <= {_ROLLOVER_SHARE * rollover!r}"
            )
        step = f"(minutes::BIGINT * {MINUTE_US})"
        gap = f"start_us - begin_us <> {step}"
        if self._rules.fills_gaps:
            longest = f"start_us - begin_us > {_MAX_FILLED_HOURS * 60 * MINUTE_US}"
            gap = f"(start_us - begin_us) % {step} <> 0 OR {longest}"
        path = self._write(
            "differenced",
            f"""
            SELECT customer_id, meter, {self._register}channel, minutes, source_row,
                   lag(start_us) OVER series AS begin_us,
                   lag(kwh) OVER series AS before,
                   greatest(quality, lag(quality) OVER series) AS quality,
                   {rolled} AS rolled,
                   start_us, kwh AS register_kwh,
                   kwh - before + CASE WHEN rolled THEN {rollover or 0.0!r} ELSE 0 END AS used,
                   CASE WHEN begin_us IS NULL THEN {Drop.FIRST_REGISTER_READ}
                        WHEN {gap} THEN {Drop.REGISTER_GAP}
                        WHEN used < 0 THEN {Drop.REGISTER_RESET}
                        WHEN NOT {possible_load("used", "minutes")} THEN {Drop.IMPOSSIBLE_LOAD}
                        ELSE 0
                   END AS reason
            FROM {table}
            WINDOW series AS (
                PARTITION BY customer_id, meter, {self._register}channel ORDER BY start_us
            )
        """,
        )
        for reason, rows in self._rows(f"SELECT reason, count(*) FROM {path} GROUP BY reason"):
            if reason:
                self.result.dropped[Drop(reason)] += rows
        self.result.notes[Note.ROLLOVER] += self._rows(
            f"SELECT count(*) FROM {path} WHERE reason = 0 AND rolled"
        )[0][0]
        self.result.problems.append(f"""
            SELECT {_reason_text("reason")} AS reason, source_row,
                   {self._as_text(kwh="register_kwh")} AS written
            FROM {path} WHERE reason <> 0
        """)
        signed = f"CASE WHEN channel = {schema.RECEIVED} THEN -used ELSE used END"
        if not self._rules.fills_gaps:
            return f"""(
                SELECT customer_id, meter, {self._register}channel, begin_us AS start_us, minutes,
                       quality, source_row, {signed} AS kwh
                FROM {path} WHERE reason = 0
            )"""
        steps = f"((start_us - begin_us) // (minutes::BIGINT * {MINUTE_US}))"
        spread = self._rows(f"SELECT coalesce(sum({steps} - 1), 0) FROM {path} WHERE reason = 0")
        self.result.notes[Note.SPREAD] += int(spread[0][0])
        self.result.rows_in += int(spread[0][0])
        estimated = f"greatest(quality, {schema.QUALITIES.index('estimated')})"
        return f"""(
            SELECT customer_id, meter, {self._register}channel, minutes, source_row,
                   begin_us + unnest(range({steps})) * minutes::BIGINT * {MINUTE_US} AS start_us,
                   CASE WHEN {steps} > 1 THEN {estimated} ELSE quality END AS quality,
                   {signed} / {steps} AS kwh
            FROM {path} WHERE reason = 0
        )"""

    def _net(self, table: str) -> str:
        """Net the delivered and received channels; an existing net channel is used unchanged."""
        net = f"FILTER (channel = {schema.NET})"
        path = self._write(
            "netted",
            f"""
            SELECT customer_id, start_us, minutes, count(*) AS rows,
                   count(*) {net} > 0 AS has_net,
                   CASE WHEN has_net THEN sum(kwh) {net} ELSE sum(kwh) END AS kwh,
                   CASE WHEN has_net OR count(*) > 1 THEN {schema.NET} ELSE min(channel) END
                       AS channel,
                   max(quality) AS quality
            FROM {table} GROUP BY customer_id, start_us, minutes
        """,
        )
        superseded, netted = self._rows(f"""
            SELECT coalesce(sum(rows - 1) FILTER (has_net), 0),
                   coalesce(sum(rows - 1) FILTER (NOT has_net), 0)
            FROM {path}
        """)[0]
        self.result.dropped[Drop.SUPERSEDED_BY_NET] += int(superseded)
        self.result.merged[Merge.NETTED] += int(netted)
        self.result.notes[Note.UNPAIRED] += self._rows(f"""
            SELECT count(*) FROM {path}
            WHERE channel <> {schema.NET} AND customer_id IN (
                SELECT customer_id FROM {table} WHERE channel <> {schema.NET}
                GROUP BY customer_id HAVING min(channel) <> max(channel)
            )
        """)[0][0]
        return path

    def _finish(self, table: str) -> None:
        """Name the columns of the table, and count it."""
        self.result.sql = f"""
            SELECT customer_id, make_timestamptz(start_us) AS start_utc,
                   minutes::SMALLINT AS minutes, kwh,
                   {_named("channel", schema.CHANNELS)} AS channel,
                   {_named("quality", schema.QUALITIES)} AS quality
            FROM {table}
        """
        self.result.rows_out, self.result.notes[Note.ESTIMATED] = self._rows(f"""
            SELECT count(*), count(*) FILTER (quality >= {schema.FIRST_ESTIMATED}) FROM {table}
        """)[0]

    def _write(self, name: str, query: str) -> str:
        path = literal(str(self._folder / f"{name}.parquet"))
        self._connection.execute(f"COPY ({query}) TO {path} (FORMAT parquet)")
        return f"read_parquet({path})"

    def _rows(self, query: str) -> list[tuple[int, ...]]:
        return self._connection.execute(query).fetchall()


def _named(code: str, names: tuple[str, ...]) -> str:
    whens = " ".join(f"WHEN {place} THEN {literal(name)}" for place, name in enumerate(names))
    return f"CASE {code} {whens} END"


def _reason_text(code: str) -> str:
    whens = " ".join(f"WHEN {reason} THEN {literal(reason.text)}" for reason in Drop)
    return f"CASE {code} {whens} END"
