"""`Profiles`: one load profile per customer, the rules they follow, and the account of readings."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray
from pydantic import Field

from wattveil import checks
from wattveil.declaration import Declaration
from wattveil.errors import (
    InvalidDataError,
    InvalidFileError,
    InvalidParameterError,
    one_of,
)
from wattveil.profiles.time_grid import TimeGrid
from wattveil.readings.options import ReadOptions, inferred_options
from wattveil.readings.row_checks import ReadingReport
from wattveil.readings.timestamps import TimeZone, known_zone
from wattveil.web.results import PrivateResult, ResultTable

METADATA = "wattveil.profiles"
SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
COMPLETE = "_SUCCESS"
"""The file that Spark puts into a folder when all others are there."""
_VERSION = 2
"""Version of the file format. Version 1 (Wattveil 0.1) has other names for rules."""
_Distributed = TypeVar("_Distributed")
_Distributed_co = TypeVar("_Distributed_co", covariant=True)
_ID, _LOAD, _SHARE, _DAYS = "customer_id", "load_kw", "estimated_share", "days_kw"
_OTHER_FOLDER = "a Parquet file of `wattveil profiles`; this is a folder of other files"


class ProfilesEngine(Protocol[_Distributed_co]):
    """Engine that stores customers outside the memory of this process."""

    def read_profiles(self, path: str | Path) -> _Distributed_co:
        """Return the profiles of a file or folder, stored by the engine."""


class StatedPeriod:
    """Profiles whose public rules may state the days of the readings."""

    rules: Mapping[str, object]

    @property
    def period(self) -> tuple[dt.date, dt.date] | None:
        """First day of the readings, and the day after the last, as the rules state; None if not.

        It is the public option `ReadOptions.period`, never taken from the readings.
        """
        readings = self.rules.get("readings")
        stated = readings.get("period") if isinstance(readings, Mapping) else None
        if not stated:
            return None
        first, end = (dt.date.fromisoformat(day) for day in stated)
        return first, end


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Profiles(StatedPeriod, PrivateResult):
    """Load profiles of customers: private, one row per customer.

    `to_pandas` and `to_arrow` return the table "wide" unless another is named: one row per
    customer, its attributes, and one column per slot, such as "load_kw 07:30". The table
    "profiles" is that of `write_parquet`, with all slots in one column of lists.

    Parameters
    ----------
    customer_ids
        One name per row, no name twice.
    load_kw
        Average load in kW, P × d, finite.
    grid
        Meaning of the d columns.
    timezone
        Zone of the grid's hours.
    attributes
        Columns of one value per customer (class, ZIP, feeder) for releases by group.
    estimated_share
        Share of estimated reads behind each profile, if they were flagged.
    rules
        Public parameters that decided which readings and customers are included; a manifest states
        them.
    account
        Readings and customers that were dropped, by reason: exact counts, internal only.
    days_kw
        If the grid keeps days: load in kW of every slot of them, one row per customer; NaN where a
        slot is not wholly covered by readings.
    """

    customer_ids: tuple[str, ...]
    load_kw: NDArray[np.float64]
    grid: TimeGrid
    timezone: str
    attributes: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    estimated_share: NDArray[np.float64] | None = None
    rules: Mapping[str, object] = field(default_factory=dict)
    account: Mapping[str, object] = field(default_factory=dict)
    days_kw: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check that there is one finite row per customer."""
        customers = len(self.customer_ids)
        checks.unmasked("load_kw", self.load_kw)
        if self.load_kw.shape != (customers, self.grid.columns):
            rule = f"one row of {self.grid.columns} numbers per customer"
            raise InvalidParameterError("load_kw", rule, "another shape")  # the number is private
        if len(set(self.customer_ids)) < customers:
            twice = [name for name, times in Counter(self.customer_ids).items() if times > 1]
            raise InvalidDataError("one profile per customer", twice)
        bad = np.flatnonzero(~np.isfinite(self.load_kw).all(axis=1))
        if bad.size:
            raise InvalidDataError("finite load", [self.customer_ids[row] for row in bad])
        for name, values in self.attributes.items():
            if len(values) != customers or name in {_ID, _LOAD, _SHARE, _DAYS}:
                raise InvalidParameterError("attributes", "one value per customer", name)
        known_zone("timezone", self.timezone)
        self._check_days()
        self.load_kw.setflags(write=False)

    def _check_days(self) -> None:
        """Check that there is one row of days per customer, or no days at all."""
        columns = self.grid.n_days * self.grid.slots
        if self.days_kw is None:
            if columns:
                raise InvalidParameterError("days_kw", "given: the grid keeps days", None)
            return
        checks.unmasked("days_kw", self.days_kw)
        if not columns or self.days_kw.shape != (len(self.customer_ids), columns):
            rule = f"one row of {columns} numbers per customer, or omitted if the grid has no days"
            raise InvalidParameterError("days_kw", rule, "another shape")  # the number is private
        self.days_kw.setflags(write=False)

    def __repr__(self) -> str:
        """Show the public facts, grid and time zone; no id, load, attribute value or count."""
        return f"Profiles(grid={self.grid!r}, timezone={self.timezone!r}, private rows not shown)"

    def __len__(self) -> int:
        """Count the customers."""
        return len(self.customer_ids)

    def __array__(
        self, dtype: DTypeLike | None = None, *, copy: bool | None = None
    ) -> NDArray[Any]:
        """Return the load in kW: NumPy calls this where profiles are given as an array.

        Refused if a row has several days, such as weekday and weekend: ``slots_per_day`` must then
        be stated with ``load_kw``.
        """
        if self.grid.cells > self.grid.slots:
            rule = "of one average day; otherwise pass profiles.load_kw, and slots_per_day"
            raise InvalidParameterError("profiles", rule, self.grid.split.value)
        return np.array(self.load_kw, dtype=dtype, copy=copy)

    def selected(self, rows: Sequence[int]) -> "Profiles":
        """Return the customers of these rows."""
        share, days_kw = self.estimated_share, self.days_kw
        return replace(
            self,
            customer_ids=tuple(self.customer_ids[row] for row in rows),
            load_kw=self.load_kw[rows],
            attributes={
                name: tuple(values[row] for row in rows) for name, values in self.attributes.items()
            },
            estimated_share=None if share is None else share[rows],
            days_kw=None if days_kw is None else days_kw[rows],
        )

    def where(self, attribute: str, values: Sequence[str]) -> "Profiles":
        """Return the customers with one of these values of an attribute, such as homes alone.

        The selection must follow from public facts. A manifest does not state it: describe it in
        the title of the release.

        Parameters
        ----------
        attribute
            Name of one of ``attributes``.
        values
            Public list of its values.
        """
        if attribute not in self.attributes:
            raise InvalidParameterError("attribute", one_of(self.attributes), attribute)
        chosen = {values} if isinstance(values, str) else set(values)
        kept = [row for row, value in enumerate(self.attributes[attribute]) if value in chosen]
        if not kept:
            raise InvalidParameterError("values", f"values of {attribute} that occur", values)
        return self.selected(kept)

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        keys = (_ID,)
        return {
            "wide": lambda: ResultTable(self._wide(), keys),
            "profiles": lambda: ResultTable(self._file(), keys),
        }

    def _columns(self) -> Sequence[str]:
        return (_ID, *self.attributes, _LOAD)

    def _public_facts(self) -> Mapping[str, object]:
        grid = self.grid
        facts = {
            "slots": f"{grid.columns} columns of {grid.minutes} minutes, split: {grid.split.value}",
            "time zone": self.timezone,
        }
        if grid.n_days:
            facts["days"] = f"{grid.n_days} from {grid.first_day}"
        return facts

    def _wide(self) -> dict[str, object]:
        slots = zip(self.grid.labels, self.load_kw.T, strict=True)
        own = {_ID: self.customer_ids, **self.attributes}
        return {**own, **{f"{_LOAD} {label}": column for label, column in slots}}

    def _file(self) -> pa.Table:
        """Return the table that `write_parquet` writes, with its metadata."""
        flat = pa.array(np.ascontiguousarray(self.load_kw).ravel())
        columns = {
            _ID: pa.array(self.customer_ids, pa.string()),
            **{name: pa.array(values, pa.string()) for name, values in self.attributes.items()},
            _LOAD: pa.FixedSizeListArray.from_arrays(flat, self.grid.columns),
        }
        if self.estimated_share is not None:
            columns[_SHARE] = pa.array(self.estimated_share)
        if self.days_kw is not None:
            flat = pa.array(np.ascontiguousarray(self.days_kw).ravel())
            columns[_DAYS] = pa.FixedSizeListArray.from_arrays(flat, self.days_kw.shape[1])
        record = profiles_record(
            grid=self.grid,
            timezone=self.timezone,
            attributes=list(self.attributes),
            rules=self.rules,
            account=self.account,
        )
        return pa.table(columns).replace_schema_metadata({METADATA: record})

    def write_parquet(self, path: str | Path) -> None:
        """Write the profiles to a Parquet file."""
        pq.write_table(self._file(), path)

    @overload
    @classmethod
    def read_parquet(cls, path: str | Path, *, engine: None = None) -> "Profiles": ...

    @overload
    @classmethod
    def read_parquet(
        cls, path: str | Path, *, engine: "ProfilesEngine[_Distributed]"
    ) -> _Distributed: ...

    @classmethod
    def read_parquet(
        cls, path: str | Path, *, engine: "ProfilesEngine[_Distributed] | None" = None
    ) -> "Profiles | _Distributed":
        """Read profiles from a Parquet file that `write_parquet` wrote, or from Spark's folder.

        With an engine, such as `SparkEngine(session)`, customers stay where it stores them; the
        result can be released as these profiles can.
        """
        if engine is not None:
            return engine.read_profiles(path)
        try:
            table = pq.read_table(path)
        except FileNotFoundError as error:
            raise InvalidFileError(
                path, "file", "an existing file; check the path", None
            ) from error
        except pa.ArrowException as error:
            if Path(path).is_dir():
                raise InvalidFileError(path, "content", _OTHER_FOLDER, "a folder") from error
            raise InvalidFileError(
                path,
                "content",
                "a Parquet file of `wattveil profiles`",
                None,
                problem="is not a Parquet file of `wattveil profiles`, or is truncated",
                remedy="For readings, run `wattveil profiles` first",
            ) from error
        # Folders of other writers, such as pyarrow, have no file that marks them as complete.
        by_spark = SPARK_METADATA in (table.schema.metadata or {})
        if by_spark and Path(path).is_dir() and not (Path(path) / COMPLETE).exists():
            raise incomplete(path)
        record = _record_in(table.schema)
        if record is None:
            of_a_file = "a file made by `wattveil profiles`, which averages readings"
            expected = _OTHER_FOLDER if Path(path).is_dir() else of_a_file
            raise InvalidFileError(path, "schema metadata", expected, None)
        try:
            return cls._from_arrow(table, json.loads(record))
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise InvalidFileError(path, "content", "profiles", str(error)) from error

    @staticmethod
    def are_in(path: str | Path) -> bool:
        """Whether `write_parquet` wrote the file."""
        try:
            return read_record(path) is not None
        except (OSError, pa.ArrowException):
            return False

    @classmethod
    def _from_arrow(cls, table: pa.Table, record: dict[str, object]) -> "Profiles":
        if record["version"] != _VERSION:
            raise ValueError(f"version {record['version']!r}, this is version {_VERSION}")
        grid_record, names, rules, account = (
            record[name] for name in ("grid", "attributes", "rules", "account")
        )
        if not (isinstance(grid_record, dict) and isinstance(names, list)):
            raise TypeError("grid and attributes must be an object and a list")
        if not (isinstance(rules, dict) and isinstance(account, dict)):
            raise TypeError("rules and account must be objects")
        grid = TimeGrid.from_json(grid_record)
        days_kw = _matrix(table, _DAYS, grid.n_days * grid.slots) if grid.n_days else None
        share = table[_SHARE].to_numpy() if _SHARE in table.column_names else None
        return cls(
            customer_ids=tuple(table[_ID].to_pylist()),
            load_kw=_matrix(table, _LOAD, grid.columns),
            grid=grid,
            timezone=str(record["timezone"]),
            attributes={str(name): tuple(table[str(name)].to_pylist()) for name in names},
            estimated_share=share,
            rules=rules,
            account=account,
            days_kw=days_kw,
        )


def _matrix(table: pa.Table, name: str, columns: int) -> NDArray[np.float64]:
    """Return a column of lists as a matrix."""
    flat = table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat.astype(np.float64).reshape(table.num_rows, columns))


def profiles_record(
    *,
    grid: TimeGrid,
    timezone: str,
    attributes: Sequence[str],
    rules: Mapping[str, object],
    account: Mapping[str, object],
) -> str:
    """Return the metadata of a file of profiles, stored under the name `METADATA`."""
    return json.dumps(
        {
            "version": _VERSION,
            "grid": grid.to_json(),
            "labels": grid.labels,
            "timezone": timezone,
            "attributes": list(attributes),
            "rules": dict(rules),
            "account": dict(account),
        }
    )


def incomplete(path: str | Path) -> InvalidFileError:
    """Return the error about a folder that Spark may not have finished."""
    expected = "the file that Spark writes last; without it customers may be missing"
    return InvalidFileError(path, COMPLETE, expected, None)


def read_record(path: str | Path) -> str | None:
    """Return the metadata of a file or folder of profiles; None if it has none."""
    return _record_in(_schema_of(Path(path)))


def _record_in(schema: pa.Schema) -> str | None:
    """Find the metadata; Spark stores it with a column."""
    metadata = schema.metadata or {}
    if METADATA.encode() in metadata:
        return str(metadata[METADATA.encode()].decode())
    if SPARK_METADATA not in metadata:
        return None
    fields = {field["name"]: field for field in json.loads(metadata[SPARK_METADATA])["fields"]}
    found: str | None = fields.get(_LOAD, {}).get("metadata", {}).get(METADATA)
    return found


def _schema_of(path: Path) -> pa.Schema:
    """Read the schema of a file, or of the first file in a folder."""
    first = min(path.glob("*.parquet"), default=path) if path.is_dir() else path
    return pq.read_schema(first)


class ProfileRules(Declaration):
    """Rules by which profiles are made from readings.

    They decide which customers stay. They are public parameters, recorded with the profiles and in
    the manifest of a release; do not tune them by inspecting the result.
    """

    grid: TimeGrid = Field(default_factory=TimeGrid)
    """Columns of the profile; an average day of 24 hours if omitted."""
    timezone: TimeZone | None = None
    """IANA time zone of the profile's hours, and of stamps without offset; UTC if omitted, with a
    warning."""
    min_days: Annotated[int, Field(strict=True, ge=1)] = 14
    """Minimum number of local days with readings per customer. A customer also needs a reading in
    every column of the profile."""
    max_gap_hours: Annotated[float, Field(strict=True, gt=0)] | None = None
    """Maximum time without readings, in hours, between the first and the last of a customer."""

    @property
    def zone(self) -> str:
        """Time zone of the hours, UTC by default."""
        return self.timezone or "UTC"

    def assumes_utc(self, options: ReadOptions) -> bool:
        """Whether no time zone is given, neither of the profiles nor of the readings."""
        return self.timezone is None and options.timezone is None

    def for_readings(self, options: ReadOptions) -> Self:
        """Return the rules with the time zone of the readings where none is given."""
        return self if self.timezone else self.replace(timezone=options.timezone or "UTC")

    def check_lengths(self, lengths: Sequence[int]) -> None:
        """Reject a grid whose slots no reading can fill."""
        check_lengths("grid.minutes", self.grid.minutes, lengths)

    def to_json(self, report: ReadingReport) -> dict[str, object]:
        """Return these rules and those of reading, as a release states them."""
        inferred = inferred_options(report.assumptions)
        readings = {"readings": report.options, "assumptions": inferred}
        return {**readings, **self.model_dump(mode="json")}


def check_lengths(name: str, slot_minutes: int, lengths: Sequence[int]) -> None:
    """Reject slots that are no multiple of any length that occurs."""
    if all(slot_minutes % length for length in lengths):
        rule = f"a multiple of the readings' {min(lengths)} minutes"
        raise InvalidParameterError(name, rule, slot_minutes)
