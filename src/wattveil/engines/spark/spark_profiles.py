"""Profiles in a DataFrame, and profiles from readings on Spark.

The rows of a customer go to one partition, and the code is that of one machine. The result for a
customer does not depend on other customers in the file, so profiles are the same to the bit as
those of one machine, and the accounts of the partitions add up to the account of all. No row comes
to the driver; executors write the profiles.
"""

import functools
import json
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql import functions as sql

from wattveil.engines.local import DistributedProfiles
from wattveil.engines.spark.executor import (
    ACCOUNT,
    METER,
    OWNER,
    PROFILE_COLUMNS,
    SHUFFLE_COLUMNS,
    ReadingPlan,
    find_lengths,
    inspect_rows,
    make_profiles,
    pack,
    partition_numbers,
    shuffle_partitions,
)
from wattveil.engines.spark.spark_rows import SparkRows, quoted, unpersist
from wattveil.engines.spark.spark_session import write_folder
from wattveil.engines.spark.spark_sources import RowsSource, SparkSource, open_source, spark_reads
from wattveil.errors import (
    InvalidParameterError,
    NoUsableReadingError,
    UnmatchedAttributesWarning,
)
from wattveil.profiles import TimeGrid
from wattveil.profiles.attributes import attribute_table, unmatched_warning
from wattveil.profiles.build import EXTREME
from wattveil.profiles.profile_account import ProfileAccount, no_customer_left
from wattveil.profiles.profiles import METADATA, ProfileRules, profiles_record
from wattveil.readings.formats.decimals import Decimals
from wattveil.readings.formats.table import TableRows
from wattveil.readings.formats.table_columns import FoundLayout, LongTable, MatrixTable, find_layout
from wattveil.readings.options import (
    Conflicts,
    DecimalMark,
    Estimated,
    MeasuredIn,
    ReadOptions,
)
from wattveil.readings.readings import allowed_lengths
from wattveil.readings.recognition import direct_columns
from wattveil.readings.schema import SPACES
from wattveil.readings.sources import Scan, ScratchDatabase, add_meters
from wattveil.readings.timestamps import StampReader

ID, LOAD = "customer_id", "load_kw"
DAYS = "days_kw"


def record_of(frame: DataFrame) -> str | None:
    """Return the metadata of profiles that Spark wrote; None for other tables."""
    metadata = frame.schema[LOAD].metadata if LOAD in frame.columns else {}
    found: str | None = metadata.get(METADATA)
    return found


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SparkProfiles(DistributedProfiles):
    """Profiles in a DataFrame."""

    frame: DataFrame
    record: Mapping[str, Any]

    @classmethod
    def of(
        cls, frame: DataFrame, record: Mapping[str, Any], *, kept: DataFrame | None = None
    ) -> "SparkProfiles":
        """Return the profiles of a table, one row per customer, with their metadata.

        ``kept`` is the persisted table, released with the last column of it.
        """
        grid = TimeGrid.from_json(record["grid"])
        texts = dict.fromkeys((ID, *record["attributes"]), np.zeros(0, dtype=np.object_))
        widths = {LOAD: grid.columns, **({DAYS: grid.n_days * grid.slots} if grid.n_days else {})}
        loads = {name: np.zeros((0, width)) for name, width in widths.items()}
        columns = SparkRows.columns_of(frame, {**texts, **loads})
        if kept is not None:
            table = columns[LOAD]._table  # noqa: SLF001 - kept as long as a column of it
            weakref.finalize(table, unpersist, kept).atexit = False
        return cls(
            frame=frame,
            record=record,
            customer_ids=columns[ID],
            load_kw=columns[LOAD],
            attributes={name: columns[name] for name in record["attributes"]},
            grid=grid,
            timezone=record["timezone"],
            rules=record["rules"],
            days_kw=columns.get(DAYS),
        )

    def listed(self, customer_list: Sequence[str]) -> "SparkProfiles":
        """Return one profile for each customer on a public list: NaN for one without a profile."""
        names = pa.table({ID: pa.array(customer_list, pa.string())})
        listed = self.frame.sparkSession.createDataFrame(names)
        nothing = sql.array_repeat(sql.lit(float("nan")), self.grid.columns)
        joined = listed.join(self.frame, ID, "left")
        table = joined.withColumn(LOAD, sql.coalesce(LOAD, nothing))
        texts, load_kw = np.zeros(0, dtype=np.object_), np.zeros((0, self.grid.columns))
        columns = SparkRows.columns_of(table, {ID: texts, LOAD: load_kw})
        return replace(self, frame=table, customer_ids=columns[ID], load_kw=columns[LOAD])

    def write_parquet(self, path: str | Path) -> None:
        """Let executors write a new folder, in order of name, each file with the whole record."""
        metadata = {METADATA: json.dumps(self.record)}
        write_folder(self.frame.sort(ID).withMetadata(LOAD, metadata), path)


_COPIES = 4  # of the rows that are packed at once, while they are sorted


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkBuild:
    """Profiles, with the account of how they came about; counts are exact, so internal only."""

    profiles: SparkProfiles
    account: ProfileAccount
    median_kw: float | None  # of the customers' mean loads; None without profiles
    largest_kw: float | None
    n_extreme: int = 0
    """Customers whose mean load is more than `EXTREME` times the median, in either direction."""
    extreme_ids: tuple[str, ...] = ()
    """Empty: ids stay with the executors."""
    warnings: tuple[str, ...] = ()
    """About ids that the table of attributes lacks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkReadings:
    """Readings that executors read when profiles are made of them.

    Long or wide tables: files, folders and globs of CSV or Parquet that the driver and every
    executor see, addresses of Parquet that Spark resolves (``s3a://…``), or a DataFrame.
    """

    session: SparkSession
    source: str | Path | DataFrame | Sequence[str | Path]
    options: ReadOptions
    memory_mb: int

    def profiles(
        self, rules: ProfileRules, *, attributes: str | Path | None = None
    ) -> SparkProfiles:
        """Average the readings of each customer into one profile; executors store them."""
        build = self.build(rules, attributes=attributes)
        if not build.account.profiles:
            raise no_customer_left(build.account, build.account.readings.files[0])
        return build.profiles

    def build(self, rules: ProfileRules, *, attributes: str | Path | None = None) -> SparkBuild:
        """Return the profiles with the account of every row."""
        rules = rules.for_readings(self.options)
        if rules.grid.n_days:
            rule = "omitted with Spark: days are kept by the local engine"
            raise InvalidParameterError("grid.n_days", rule, rules.grid.n_days)
        opened = open_source(self.session, self.source, self.options)
        with spark_reads(opened.files[0]):
            plan = _find_plan(opened, self.options, rules, self.memory_mb)
            rows = _by_customer(self.session, opened, plan)
            built = rows.mapInArrow(make_profiles(plan), PROFILE_COLUMNS).persist()
            try:
                account = _total_account(built, opened, plan)
                rest = built.where(functions.col(quoted(ACCOUNT)).isNull()).drop(ACCOUNT)
                made = _with_attributes(rest, account, plan, attributes, kept=built)
                made.account.check_median(made.median_kw)
            except BaseException:
                built.unpersist()
                raise
            return made


def _find_plan(
    opened: SparkSource, options: ReadOptions, rules: ProfileRules, memory_mb: int
) -> ReadingPlan:
    """Let an executor inspect the first rows, and find the columns."""
    name = opened.files[0]
    found = direct_columns(opened.names, options)
    if found is None:
        found = find_layout(list(opened.names), options, path=name)
    if isinstance(found.table, MatrixTable):
        raise InvalidParameterError("layout", "long or wide on Spark", "matrix")
    inspected = opened.inspect(inspect_rows(found, options, memory_mb, name), "seen string")
    if not inspected:
        raise NoUsableReadingError(name, "all rows", "a reading", None)
    rows = _rows(json.loads(inspected[0].seen), found, opened, options)
    lengths = _lengths(opened, rows, memory_mb)
    rules.check_lengths(lengths)
    return ReadingPlan(
        rows=rows,
        unit=rows.unit,
        lengths=lengths,
        options=options,
        rules=rules,
        memory_mb=memory_mb,
    )


def _rows(
    seen: dict[str, Any], found: FoundLayout, opened: SparkSource, options: ReadOptions
) -> TableRows:
    """Combine the layout of the header with the result of inspecting the rows."""
    types, mark = seen["types"], seen["mark"]
    rows = TableRows(
        scan=Scan("", types),
        table=found.table,
        stamp=StampReader(**seen["stamp"]),
        end_stamped=seen["end_stamped"],
        minutes=seen["minutes"],
        infers_minutes=seen["infers_minutes"],
        unit=MeasuredIn(seen["unit"]),
        cumulative=options.cumulative,
        decimals=Decimals(DecimalMark(mark), options.decimal is not None) if mark else None,
        assumptions=(*seen["assumptions"], *opened.passed_over),
        qualities=seen["qualities"],
        words=options.words,
    )
    read = {column: types[column] for column in rows.columns}
    # Order matters for the repeated hour of a clock and for conflicts; it is costly to send.
    by_clock = not rows.stamp.aware and options.timezone not in {None, "UTC"}
    matters = by_clock or options.conflicts in {Conflicts.FIRST, Conflicts.LAST}
    order = opened.order if matters and opened.order else rows.columns
    return replace(rows, scan=replace(rows.scan, types=read, order=order))


def _lengths(opened: SparkSource, rows: TableRows, memory_mb: int) -> tuple[int, ...]:
    """Return the interval lengths that occur."""
    if rows.minutes is not None or not isinstance(rows.table, LongTable):
        return (int(rows.minutes or 0),)
    column = str(rows.table.minutes)
    found = opened.map_rows(find_lengths(rows, memory_mb), "minutes smallint", [column])
    return allowed_lengths(found.distinct().sort("minutes").collect(), opened.files[0])


def _by_customer(session: SparkSession, opened: SparkSource, plan: ReadingPlan) -> DataFrame:
    """Bring the rows of each customer into one partition; only columns that are read travel."""
    columns = list(dict.fromkeys((*plan.rows.columns, *plan.rows.scan.order)))
    table = plan.rows.table
    if isinstance(table, MatrixTable):
        raise TypeError("a matrix has no column of customers")  # refused before
    customer = table.customer
    if plan.options.meters is not None and isinstance(opened, RowsSource):
        database = ScratchDatabase(plan.memory_mb)
        add_meters(database.connection, plan.options.meters)
        meters = database.connection.sql("SELECT meter_id, customer_id FROM meters")
        listed = session.createDataFrame(meters.to_arrow_table().rename_columns([METER, OWNER]))
        meter = table.meter if isinstance(table, LongTable) and table.meter else table.customer
        named = _name(meter) == functions.col(quoted(METER))
        opened = replace(opened, frame=opened.frame.join(listed, named, "left"))
        customer, columns = OWNER, [*columns, METER, OWNER]
    partitions = shuffle_partitions(session)
    packed = pack(
        customer,
        partition_numbers(session, partitions),
        max_bytes=(plan.memory_mb << 20) // _COPIES,
    )
    blocks = opened.map_rows(packed, SHUFFLE_COLUMNS, columns, names=customer)
    return blocks.repartition(partitions, "partition")


def _total_account(built: DataFrame, opened: SparkSource, plan: ReadingPlan) -> ProfileAccount:
    """Build all profiles, which executors store, and add up the accounts of their partitions."""
    found = (
        built.where(functions.col(quoted(ACCOUNT)).isNotNull()).select(quoted(ACCOUNT)).collect()
    )
    records = [json.loads(row[0]) for row in found]
    accounts = (ProfileAccount.from_json(each["account"], each["profiles"]) for each in records)
    total = functools.reduce(ProfileAccount.plus, accounts)
    if not any(each["usable"] for each in records):
        dropped = dict(total.readings.dropped)
        raise NoUsableReadingError(opened.files[0], "all rows", "a usable reading", dropped)
    report = replace(
        total.readings,
        files=opened.files,
        assumptions=plan.rows.assumptions,
        options=plan.options.model_dump(mode="json"),
    )
    return replace(total, readings=report)


def _with_attributes(
    profiles: DataFrame,
    account: ProfileAccount,
    plan: ReadingPlan,
    attributes: str | Path | None,
    *,
    kept: DataFrame,
) -> SparkBuild:
    """Join attributes, and add the metadata of the profiles."""
    names: list[str] = []
    if attributes is not None:
        table = attribute_table(Path(attributes))
        names = table.column_names[1:]
        if taken := {"load_kw", "estimated_share", "days_kw"} & set(names):
            raise InvalidParameterError("attributes", "without columns of profiles", sorted(taken))
        listed = profiles.sparkSession.createDataFrame(table)
        profiles = profiles.join(listed, "customer_id", "left")
    without = [functions.coalesce(quoted(name), functions.lit("")) == "" for name in names]
    total = functions.aggregate("load_kw", functions.lit(0.0), lambda so_far, kw: so_far + kw)
    facts = profiles.select(
        (total / plan.rules.grid.columns).alias("kw"),
        functools.reduce(Column.__and__, without, functions.lit(bool(names))).alias("without"),
    )
    [(median_kw, largest_kw, unmatched)] = facts.agg(
        functions.percentile_approx("kw", 0.5), functions.max("kw"), functions.count_if("without")
    ).collect()
    bound = EXTREME * abs(median_kw or 0.0)
    n_extreme = facts.where(functions.abs("kw") > bound).count() if bound else 0
    account = replace(account, without_attributes=unmatched)
    found = ""
    if attributes is not None and names:
        found = unmatched_warning(unmatched, account.profiles, Path(attributes))
    if found:
        warnings.warn(found, UnmatchedAttributesWarning, stacklevel=4)
    grid, flagged = plan.rules.grid, plan.options.estimated is Estimated.FLAG
    record = profiles_record(
        grid=grid,
        timezone=plan.rules.zone,
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
        n_extreme=n_extreme,
        warnings=(found,) * bool(found),
    )


def _name(column: str) -> Column:
    """Write a name as `TableRows` does."""
    return functions.btrim(functions.col(quoted(column)).cast("string"), functions.lit(SPACES))
