"""Profiles from readings on Spark: the rows of a customer go to one partition, and the same code.

What a customer's rows become does not depend on who else is in the file. So profiles are the same
to the bit as those of one machine, and the accounts of the partitions add up to the account of all.
No row comes to the driver; executors write the profiles.
"""

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import category

from pyspark.sql import Column, DataFrame, SparkSession, functions

from wattveil.engines.executor import (
    ACCOUNT,
    METER,
    OWNER,
    PROFILE_COLUMNS,
    Plan,
    find_lengths,
    look,
    make_profiles,
)
from wattveil.engines.sources import SparkSource, open_source, spark_reads
from wattveil.errors import InvalidParameterError, NoUsableReadingError
from wattveil.ingest.layouts import Found, LongTable, MatrixTable, find_layout
from wattveil.ingest.options import Conflicts, Estimated, ReadOptions, Stamp
from wattveil.ingest.read import add_meters, allowed_lengths
from wattveil.ingest.readings import Workshop
from wattveil.ingest.rows import Rows
from wattveil.ingest.sources import Scan
from wattveil.ingest.stamps import StampReader
from wattveil.profiles.account import ProfileAccount, ProfileRules, WrittenProfiles
from wattveil.profiles.build import attribute_table
from wattveil.profiles.table import METADATA, profiles_record

_LOOKED_AT = 20_000  # rows, for what has to be guessed
_SPACES = "".join(sign for sign in map(chr, range(1 << 16)) if category(sign) == "Zs")
"""What DuckDB's trim takes off a name."""


def profiles_on_spark(
    session: SparkSession,
    source: str | Path | DataFrame | Sequence[str | Path],
    options: ReadOptions,
    rules: ProfileRules,
    *,
    out: str | Path,
    attributes: str | Path | None = None,
    memory_mb: int = 600,
) -> WrittenProfiles:
    """Average the readings of each customer into one profile, in executors.

    Parameters
    ----------
    session
        A Spark session; its executors need Wattveil.
    source
        Long or wide tables: files, folders and globs of CSV or Parquet that the driver and every
        executor see, addresses of Parquet that Spark knows (``s3a://…``), or a DataFrame.
    options, rules
        As for `read_readings` and `profiles_from_readings`.
    out
        Folder for the profiles, in Parquet and in order of name; it must not be there yet.
        `Profiles.read_parquet` reads it.
    attributes
        As for `profiles_from_readings`. It passes through the memory of the driver, as does the
        list of meters.
    memory_mb
        What DuckDB may use in each task before it turns to the disk.
    """
    opened = open_source(session, source, options)
    with spark_reads(opened.files[0]):
        plan = _find_plan(opened, options, rules, memory_mb)
        rows = _by_customer(session, opened, plan)
        built = rows.mapInArrow(make_profiles(plan), PROFILE_COLUMNS).persist()
        try:
            account = _add_up(built, opened, plan)
            profiles = built.where(functions.col(_quoted(ACCOUNT)).isNull()).drop(ACCOUNT)
            return _write(profiles, account, plan, out=str(out), attributes=attributes)
        finally:
            built.unpersist()


def _find_plan(
    opened: SparkSource, options: ReadOptions, rules: ProfileRules, memory_mb: int
) -> Plan:
    """Let an executor look at the first rows, and find out what the columns are."""
    name = opened.files[0]
    found = find_layout(list(opened.names), options, path=name)
    if isinstance(found.table, MatrixTable):
        raise InvalidParameterError("layout", "long or wide on Spark", "matrix")
    first = opened.beginning.select(*map(_quoted, opened.names)).limit(_LOOKED_AT)
    looked = first.mapInArrow(look(found, options, memory_mb, name), "seen string").collect()
    if not looked:
        raise NoUsableReadingError(name, "all rows", "a reading", "none")
    rows = _rows(json.loads(looked[0].seen), found, opened, options)
    lengths = _lengths(opened, rows, memory_mb)
    rules.check_lengths(lengths, math.gcd(*lengths))
    return Plan(
        rows=rows,
        unit=found.unit,
        lengths=lengths,
        options=options,
        rules=rules,
        memory_mb=memory_mb,
    )


def _rows(seen: dict[str, Any], found: Found, opened: SparkSource, options: ReadOptions) -> Rows:
    """Put together what the names of the columns and what a look at the rows told."""
    types = seen["types"]
    rows = Rows(
        scan=Scan("", types, is_text=all(kind == "VARCHAR" for kind in types.values())),
        table=found.table,
        stamp=StampReader(**seen["stamp"]),
        end_stamped=found.stamp is Stamp.END,
        minutes=seen["minutes"],
        decimal_comma=seen["decimal_comma"],
        guesses=(*seen["guesses"], *opened.passed_over),
    )
    read = {column: types[column] for column in rows.columns}
    # Only the rows of a clock's repeated hour and of conflicts go by order; it is much to carry.
    by_clock = not rows.stamp.aware and options.timezone not in {None, "UTC"}
    matters = by_clock or options.conflicts in {Conflicts.FIRST, Conflicts.LAST}
    order = opened.order if matters and opened.order else rows.columns
    return replace(rows, scan=replace(rows.scan, types=read, order=order))


def _lengths(opened: SparkSource, rows: Rows, memory_mb: int) -> tuple[int, ...]:
    """Return the interval lengths that occur."""
    if rows.minutes is not None or not isinstance(rows.table, LongTable):
        return (int(rows.minutes or 0),)
    distinct = opened.frame.select(_quoted(str(rows.table.minutes))).distinct().repartition(1)
    found = distinct.mapInArrow(find_lengths(rows, memory_mb), "minutes smallint").collect()
    return allowed_lengths(found, opened.files[0])


def _by_customer(session: SparkSession, opened: SparkSource, plan: Plan) -> DataFrame:
    """Bring the rows of each customer into one partition; only columns that are read travel."""
    columns = dict.fromkeys((*plan.rows.columns, *plan.rows.scan.order))
    rows = opened.frame.select(*map(_quoted, columns))
    table = plan.rows.table
    if isinstance(table, MatrixTable):
        raise TypeError("a matrix has no column of customers")  # refused before
    if plan.options.meters is None:
        return rows.repartition(_name(table.customer, plan.rows))
    workshop = Workshop(plan.memory_mb)
    add_meters(workshop.connection, plan.options.meters)
    meters = workshop.connection.sql("SELECT meter_id, customer_id FROM meters").to_arrow_table()
    listed = session.createDataFrame(meters.rename_columns([METER, OWNER]))
    meter = table.meter if isinstance(table, LongTable) and table.meter else table.customer
    joined = rows.join(listed, _name(meter, plan.rows) == functions.col(_quoted(METER)), "left")
    return joined.repartition(functions.col(_quoted(OWNER)))


def _add_up(built: DataFrame, opened: SparkSource, plan: Plan) -> ProfileAccount:
    """Build all profiles, which executors keep, and add the accounts of their partitions up."""
    found = (
        built.where(functions.col(_quoted(ACCOUNT)).isNotNull()).select(_quoted(ACCOUNT)).collect()
    )
    records = [json.loads(row[0]) for row in found]
    accounts = (ProfileAccount.from_json(each["account"], each["profiles"]) for each in records)
    total = functools.reduce(ProfileAccount.plus, accounts)
    if not any(each["usable"] for each in records):
        dropped = dict(total.readings.dropped)
        raise NoUsableReadingError(opened.files[0], "all rows", "a reading that can stay", dropped)
    report = replace(
        total.readings,
        files=opened.files,
        guesses=plan.rows.guesses,
        options=plan.options.to_json(),
    )
    return replace(total, readings=report)


def _write(
    profiles: DataFrame,
    account: ProfileAccount,
    plan: Plan,
    *,
    out: str,
    attributes: str | Path | None,
) -> WrittenProfiles:
    """Let executors write the profiles, each file with the whole record."""
    names: list[str] = []
    if attributes is not None:
        workshop = Workshop(plan.memory_mb)
        table = attribute_table(workshop.connection, Path(attributes))
        names = table.column_names[1:]
        if taken := {"load_kw", "estimated_share"} & set(names):
            raise InvalidParameterError("attributes", "without columns of profiles", sorted(taken))
        listed = profiles.sparkSession.createDataFrame(table)
        profiles = profiles.join(listed, "customer_id", "left")
    without = [functions.coalesce(_quoted(name), functions.lit("")) == "" for name in names]
    total = functions.aggregate("load_kw", functions.lit(0.0), lambda so_far, kw: so_far + kw)
    facts = profiles.select(
        (total / plan.rules.grid.columns).alias("kw"),
        functools.reduce(Column.__and__, without, functions.lit(bool(names))).alias("without"),
    ).agg(
        functions.percentile_approx("kw", 0.5), functions.max("kw"), functions.count_if("without")
    )
    [(median_kw, largest_kw, unmatched)] = facts.collect()
    account = replace(account, without_attributes=unmatched)
    grid, flagged = plan.rules.grid, plan.options.estimated is Estimated.FLAG
    record = profiles_record(
        grid=grid,
        timezone=plan.rules.timezone,
        attributes=names,
        rules=plan.rules.to_json(account.readings),
        account=account.to_json(),
    )
    columns = ["customer_id", *map(_quoted, names), "load_kw"] + ["estimated_share"] * flagged
    ordered = profiles.select(*columns).sort("customer_id")
    ordered.withMetadata("load_kw", {METADATA: record}).write.parquet(out)
    return WrittenProfiles(
        path=out, rules=plan.rules, account=account, median_kw=median_kw, largest_kw=largest_kw
    )


def _name(column: str, rows: Rows) -> Column:
    """Write a name as the rows of the source have it."""
    name = functions.col(_quoted(column)).cast("string")
    return functions.btrim(name, functions.lit(_SPACES)) if rows.scan.is_text else name


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
