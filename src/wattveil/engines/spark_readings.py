"""Profiles from readings on Spark: the rows of a customer go to one partition, and the same code.

What a customer's rows become does not depend on who else is in the file. So profiles are the same
to the bit as those of one machine, and the accounts of the partitions add up to the account of all.
No row comes to the driver; executors write the profiles.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from wattveil.engines.parcels import PARCELS, pack, partition_numbers, shuffle_partitions
from wattveil.engines.sources import RowsSource, SparkSource, open_source, spark_reads
from wattveil.engines.spark import quoted
from wattveil.engines.spark_profiles import SparkProfiles
from wattveil.errors import InvalidParameterError, NoUsableReadingError
from wattveil.ingest.decimals import Decimals
from wattveil.ingest.layouts import Found, LongTable, MatrixTable, find_layout
from wattveil.ingest.options import Conflicts, DecimalMark, Estimated, ReadOptions, Stamp
from wattveil.ingest.read import add_meters, allowed_lengths
from wattveil.ingest.readings import Workshop
from wattveil.ingest.rows import Rows
from wattveil.ingest.schema import SPACES
from wattveil.ingest.sources import Scan
from wattveil.ingest.stamps import StampReader
from wattveil.profiles.account import ProfileAccount, ProfileRules
from wattveil.profiles.build import attribute_table
from wattveil.profiles.table import profiles_record

_COPIES = 4  # of the rows that are packed at once, while they are sorted


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkBuild:
    """Profiles, with the account of how they came about; counts are exact, so in house only."""

    profiles: SparkProfiles
    account: ProfileAccount
    median_kw: float | None  # of the customers' mean loads; None without profiles
    largest_kw: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkReadings:
    """Readings that executors read when profiles are made of them.

    Long or wide tables: files, folders and globs of CSV or Parquet that the driver and every
    executor see, addresses of Parquet that Spark knows (``s3a://…``), or a DataFrame.
    """

    session: SparkSession
    source: str | Path | DataFrame | Sequence[str | Path]
    options: ReadOptions
    memory_mb: int

    def profiles(
        self, rules: ProfileRules, *, attributes: str | Path | None = None
    ) -> SparkProfiles:
        """Average the readings of each customer into one profile; executors keep them."""
        return self.build(rules, attributes=attributes).profiles

    def build(self, rules: ProfileRules, *, attributes: str | Path | None = None) -> SparkBuild:
        """Do the same, with the account of every row."""
        opened = open_source(self.session, self.source, self.options)
        with spark_reads(opened.files[0]):
            plan = _find_plan(opened, self.options, rules, self.memory_mb)
            rows = _by_customer(self.session, opened, plan)
            built = rows.mapInArrow(make_profiles(plan), PROFILE_COLUMNS).persist()
            try:
                account = _add_up(built, opened, plan)
                rest = built.where(functions.col(quoted(ACCOUNT)).isNull()).drop(ACCOUNT)
                return _with_attributes(rest, account, plan, attributes, kept=built)
            except BaseException:
                built.unpersist()
                raise


def _find_plan(
    opened: SparkSource, options: ReadOptions, rules: ProfileRules, memory_mb: int
) -> Plan:
    """Let an executor look at the first rows, and find out what the columns are."""
    name = opened.files[0]
    found = find_layout(list(opened.names), options, path=name)
    if isinstance(found.table, MatrixTable):
        raise InvalidParameterError("layout", "long or wide on Spark", "matrix")
    looked = opened.look(look(found, options, memory_mb, name), "seen string")
    if not looked:
        raise NoUsableReadingError(name, "all rows", "a reading", "none")
    rows = _rows(json.loads(looked[0].seen), found, opened, options)
    lengths = _lengths(opened, rows, memory_mb)
    rules.check_lengths(lengths)
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
    types, mark = seen["types"], seen["mark"]
    rows = Rows(
        scan=Scan("", types),
        table=found.table,
        stamp=StampReader(**seen["stamp"]),
        end_stamped=found.stamp is Stamp.END,
        minutes=seen["minutes"],
        decimals=Decimals(DecimalMark(mark), options.decimal is not None) if mark else None,
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
    column = str(rows.table.minutes)
    found = opened.each(find_lengths(rows, memory_mb), "minutes smallint", [column])
    return allowed_lengths(found.distinct().sort("minutes").collect(), opened.files[0])


def _by_customer(session: SparkSession, opened: SparkSource, plan: Plan) -> DataFrame:
    """Bring the rows of each customer into one partition; only columns that are read travel."""
    columns = list(dict.fromkeys((*plan.rows.columns, *plan.rows.scan.order)))
    table = plan.rows.table
    if isinstance(table, MatrixTable):
        raise TypeError("a matrix has no column of customers")  # refused before
    customer = table.customer
    if plan.options.meters is not None and isinstance(opened, RowsSource):
        workshop = Workshop(plan.memory_mb)
        add_meters(workshop.connection, plan.options.meters)
        meters = workshop.connection.sql("SELECT meter_id, customer_id FROM meters")
        listed = session.createDataFrame(meters.to_arrow_table().rename_columns([METER, OWNER]))
        meter = table.meter if isinstance(table, LongTable) and table.meter else table.customer
        named = _name(meter) == functions.col(quoted(METER))
        opened = replace(opened, frame=opened.frame.join(listed, named, "left"))
        customer, columns = OWNER, [*columns, METER, OWNER]
    partitions = shuffle_partitions(session)
    packed = pack(
        customer,
        partition_numbers(session, partitions),
        most_bytes=(plan.memory_mb << 20) // _COPIES,
    )
    parcels = opened.each(packed, PARCELS, columns, names=customer)
    return parcels.repartition(partitions, "partition")


def _add_up(built: DataFrame, opened: SparkSource, plan: Plan) -> ProfileAccount:
    """Build all profiles, which executors keep, and add the accounts of their partitions up."""
    found = (
        built.where(functions.col(quoted(ACCOUNT)).isNotNull()).select(quoted(ACCOUNT)).collect()
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


def _with_attributes(
    profiles: DataFrame,
    account: ProfileAccount,
    plan: Plan,
    attributes: str | Path | None,
    *,
    kept: DataFrame,
) -> SparkBuild:
    """Look attributes up, and put down what is said of the profiles."""
    names: list[str] = []
    if attributes is not None:
        workshop = Workshop(plan.memory_mb)
        table = attribute_table(workshop.connection, Path(attributes))
        names = table.column_names[1:]
        if taken := {"load_kw", "estimated_share"} & set(names):
            raise InvalidParameterError("attributes", "without columns of profiles", sorted(taken))
        listed = profiles.sparkSession.createDataFrame(table)
        profiles = profiles.join(listed, "customer_id", "left")
    without = [functions.coalesce(quoted(name), functions.lit("")) == "" for name in names]
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
    columns = ["customer_id", *map(quoted, names), "load_kw"] + ["estimated_share"] * flagged
    return SparkBuild(
        profiles=SparkProfiles.of(profiles.select(*columns), json.loads(record), kept=kept),
        account=account,
        median_kw=median_kw,
        largest_kw=largest_kw,
    )


def _name(column: str) -> Column:
    """Write a name as `Rows` does."""
    return functions.btrim(functions.col(quoted(column)).cast("string"), functions.lit(SPACES))
