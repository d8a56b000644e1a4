"""`Profiles`: one load profile a customer, with all that is needed to say what it is."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.ingest.options import known_zone
from wattveil.profiles.grid import Grid

METADATA = "wattveil.profiles"
SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
COMPLETE = "_SUCCESS"
"""The file that Spark puts into a folder when all others are there."""
_VERSION = 1
_Kept = TypeVar("_Kept")
_Kept_co = TypeVar("_Kept_co", covariant=True)
_ID, _LOAD, _SHARE = "customer_id", "load_kw", "estimated_share"


class ReadsProfiles(Protocol[_Kept_co]):
    """An engine: where customers may be kept instead of in memory."""

    def read_profiles(self, path: str | Path) -> _Kept_co:
        """Return the profiles of a file or folder, kept by the engine."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Profiles:
    """The load profiles of customers: private, one row a customer.

    Parameters
    ----------
    customer_ids
        One name a row, no name twice.
    load_kw
        Average load in kW, P × d, finite.
    grid
        What the d columns are.
    timezone
        Zone of the grid's hours.
    attributes
        Columns of one value a customer (class, ZIP, feeder) for releases by group.
    estimated_share
        Share of estimated reads behind each profile, if they were flagged.
    rules
        The public parameters that decided which readings and customers are here: they belong in a
        release statement.
    account
        How many readings and customers were left out, by reason: exact counts, in house only.
    """

    customer_ids: tuple[str, ...]
    load_kw: NDArray[np.float64]
    grid: Grid
    timezone: str
    attributes: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    estimated_share: NDArray[np.float64] | None = None
    rules: Mapping[str, object] = field(default_factory=dict)
    account: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that there is one finite row a customer."""
        customers = len(self.customer_ids)
        checks.unmasked("load_kw", self.load_kw)
        if self.load_kw.shape != (customers, self.grid.columns):
            rule = f"one row of {self.grid.columns} numbers a customer"
            raise InvalidParameterError("load_kw", rule, "another shape")  # how many is not said
        if len(set(self.customer_ids)) < customers:
            twice = [name for name, times in Counter(self.customer_ids).items() if times > 1]
            raise InvalidDataError("one profile a customer", twice)
        bad = np.flatnonzero(~np.isfinite(self.load_kw).all(axis=1))
        if bad.size:
            raise InvalidDataError("finite load", [self.customer_ids[row] for row in bad])
        for name, values in self.attributes.items():
            if len(values) != customers or name in {_ID, _LOAD, _SHARE}:
                raise InvalidParameterError("attributes", "one value a customer", name)
        known_zone("timezone", self.timezone)
        self.load_kw.setflags(write=False)

    def __repr__(self) -> str:
        """Show the public facts, grid and time zone; no id, load, attribute value or count."""
        return f"Profiles(grid={self.grid!r}, timezone={self.timezone!r}, private rows not shown)"

    def __len__(self) -> int:
        """Count the customers."""
        return len(self.customer_ids)

    def to_arrow(self) -> pa.Table:
        """Return the table that `write_parquet` writes, with its metadata."""
        flat = pa.array(np.ascontiguousarray(self.load_kw).ravel())
        columns = {
            _ID: pa.array(self.customer_ids, pa.string()),
            **{name: pa.array(values, pa.string()) for name, values in self.attributes.items()},
            _LOAD: pa.FixedSizeListArray.from_arrays(flat, self.grid.columns),
        }
        if self.estimated_share is not None:
            columns[_SHARE] = pa.array(self.estimated_share)
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
        pq.write_table(self.to_arrow(), path)

    @overload
    @classmethod
    def read_parquet(cls, path: str | Path, *, engine: None = None) -> "Profiles": ...

    @overload
    @classmethod
    def read_parquet(cls, path: str | Path, *, engine: "ReadsProfiles[_Kept]") -> _Kept: ...

    @classmethod
    def read_parquet(
        cls, path: str | Path, *, engine: "ReadsProfiles[_Kept] | None" = None
    ) -> "Profiles | _Kept":
        """Read profiles from a Parquet file that `write_parquet` wrote, or from Spark's folder.

        With an engine, such as `SparkEngine(session)`, customers stay where it keeps them: what it
        returns can be given to releases as these profiles can.
        """
        if engine is not None:
            return engine.read_profiles(path)
        try:
            table = pq.read_table(path)
        except FileNotFoundError as error:
            raise InvalidFileError(path, "file", "a file that exists", "none") from error
        except (OSError, pa.ArrowException) as error:
            raise InvalidFileError(path, "content", "a Parquet file", str(error)) from error
        # Folders of others, such as pyarrow, have no mark that tells whether they are complete.
        by_spark = SPARK_METADATA in (table.schema.metadata or {})
        if by_spark and Path(path).is_dir() and not (Path(path) / COMPLETE).exists():
            raise incomplete(path)
        record = _record_in(table.schema)
        if record is None:
            expected = "a file made by `wattveil profiles`"
            raise InvalidFileError(path, "schema metadata", expected, "none")
        try:
            return cls._from_arrow(table, json.loads(record))
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise InvalidFileError(path, "content", "profiles", str(error)) from error

    @staticmethod
    def are_in(path: str | Path) -> bool:
        """Whether `write_parquet` wrote the file; of others nothing is said."""
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
        grid = Grid.from_json(grid_record)
        flat = table[_LOAD].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        share = table[_SHARE].to_numpy() if _SHARE in table.column_names else None
        return cls(
            customer_ids=tuple(table[_ID].to_pylist()),
            load_kw=flat.astype(np.float64).reshape(table.num_rows, grid.columns),
            grid=grid,
            timezone=str(record["timezone"]),
            attributes={str(name): tuple(table[str(name)].to_pylist()) for name in names},
            estimated_share=share,
            rules=rules,
            account=account,
        )


def profiles_record(
    *,
    grid: Grid,
    timezone: str,
    attributes: Sequence[str],
    rules: Mapping[str, object],
    account: Mapping[str, object],
) -> str:
    """Write what a file says of its profiles beside the rows, under the name `METADATA`."""
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
    return InvalidFileError(path, COMPLETE, expected, "none")


def read_record(path: str | Path) -> str | None:
    """Return what a file or folder says of its profiles; None if it says nothing of any."""
    return _record_in(_schema_of(Path(path)))


def _record_in(schema: pa.Schema) -> str | None:
    """Find the record; Spark has no place for it but beside a column."""
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
