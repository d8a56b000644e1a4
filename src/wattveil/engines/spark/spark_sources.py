"""Readings as Spark finds them: files in a lake, a table, a query.

Parquet files that every executor sees are divided into splits, which executors read without Spark:
it would pass every row from Java to Python, at several times the cost of everything else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from wattveil.checks import is_address
from wattveil.engines.spark.executor import Batches, OnPartition, shuffle_partitions
from wattveil.engines.spark.spark_rows import quoted
from wattveil.engines.spark.spark_session import read_folder
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings.containers import refuse_containers
from wattveil.readings.csv_files import find_header, scan_csv
from wattveil.readings.file_names import resolve
from wattveil.readings.formats.matching_columns import match_columns
from wattveil.readings.options import Conflicts, ReadOptions
from wattveil.readings.readings import passed_over_assumption
from wattveil.readings.recognition import (
    direct_columns,
    direct_layout,
    known_files,
    parquet_names,
    unknown_files,
)
from wattveil.readings.sources import Kind, kind_of

PLACE = ("wattveil file", "wattveil row")
"""Columns of the order of appearance: number of the file, number of the row in it."""

_MIN_BYTES, _MAX_BYTES = 4 << 20, 128 << 20  # of a task, as Spark has them
_ROWS_AT_ONCE, _VALUES_AT_ONCE = 1 << 17, 1 << 20  # a wide table has hundreds of values per row
_TEXTS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class FileSplit:
    """One of ``parts`` equal shares of the row groups of a file."""

    file: int
    path: Path
    size: int  # of the file, in bytes
    part: int = 0
    parts: int = 1


def split_files(files: Sequence[FileSplit], tasks: int) -> list[list[FileSplit]]:
    """Divide files among about ``tasks`` tasks: large ones are split, small ones combined."""
    sizes = [whole.size for whole in files]
    max_bytes = min(max(sum(sizes) // tasks, _MIN_BYTES), _MAX_BYTES)
    divided: list[list[FileSplit]] = [[]]
    room = max_bytes
    for whole, size in zip(files, sizes, strict=True):
        parts = -(-size // max_bytes)
        for part in range(parts):
            if divided[-1] and room < size // parts:
                divided.append([])
                room = max_bytes
            divided[-1].append(replace(whole, part=part, parts=parts))
            room -= size // parts
    return divided


def read_splits(
    divided: Sequence[Sequence[FileSplit]], schema: pa.Schema, text: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads the splits of tasks, which are given by number.

    The schema names the expected columns, those of `PLACE` included. The file's dictionary of the
    column ``text`` is kept, since building one dominates the cost of reading. A file that is
    rewritten in the meantime is rejected: its splits would mix rows of the old and the new file.
    """

    def rows_of(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for split in divided[number]:
                    yield from _read(split, schema, text)

    return rows_of


def schema_of(path: Path) -> pa.Schema:
    """Return the columns of a file, without metadata of pandas and others."""
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a readable Parquet file", str(error)) from error
    fields = [
        pa.field(one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type)
        for one in found
    ]
    return pa.schema(fields)


def _read(split: FileSplit, schema: pa.Schema, text: str | None) -> Iterator[pa.RecordBatch]:
    wanted = [name for name in schema.names if name not in PLACE]
    at_once = min(_ROWS_AT_ONCE, max(_VALUES_AT_ONCE // len(schema), 1))
    try:
        if (size := split.path.stat().st_size) != split.size:
            expected = f"{split.size} bytes, as when the job began"
            raise InvalidFileError(split.path, "size", expected, size)
        with pq.ParquetFile(split.path, read_dictionary=[text] if text else None) as file:
            groups = file.metadata.num_row_groups
            first, last = (groups * edge // split.parts for edge in (split.part, split.part + 1))
            row = sum(file.metadata.row_group(group).num_rows for group in range(first))
            for batch in file.iter_batches(at_once, range(first, last), wanted):
                yield _placed(batch, schema, text, (split.file, row))
                row += batch.num_rows
    except (KeyError, OSError, pa.ArrowException) as error:
        expected = "a readable Parquet file with the columns of the first"
        raise InvalidFileError(split.path, "content", expected, str(error)) from error


def _placed(
    batch: pa.RecordBatch, schema: pa.Schema, text: str | None, place: tuple[int, int]
) -> pa.RecordBatch:
    """Give a batch the columns of the schema."""
    file, row = place
    rows = batch.num_rows
    made = {
        PLACE[0]: lambda: pa.array([file]).take(pa.nulls(rows, pa.int64()).fill_null(0)),
        PLACE[1]: lambda: pa.array(range(row, row + rows), pa.int64()),
    }
    arrays = []
    for field in schema:
        array = made[field.name]() if field.name in made else batch.column(field.name)
        if field.name != text:
            array = array.cast(field.type)
        elif array.type != _TEXTS:  # another file has names of another type
            array = array.cast(pa.string()).dictionary_encode()
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema.names)


_INSPECTED_ROWS = 20_000  # rows, for what has to be inferred

ORDER = ("wattveil file", "wattveil block", "wattveil row")
"""Columns of the order of appearance: file, place of the block in it, row of the block."""

_PATTERN_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "{}[]*?\\"})


@dataclass(frozen=True, kw_only=True)
class SparkSource(ABC):
    """Rows for executors to read; nothing is read yet."""

    names: tuple[str, ...]  # columns of the source, without those of the order
    order: tuple[str, ...]  # columns that tell the order of appearance
    files: tuple[str, ...]  # their names, for the report
    passed_over: tuple[str, ...]  # names those that are not read

    @abstractmethod
    def inspect(self, work: OnPartition, schema: str) -> list[Row]:
        """Let one executor process the first rows, wherever they are; return its result."""

    @abstractmethod
    def map_rows(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Let executors process columns of all rows; that of ``names`` may be a dictionary."""


@dataclass(frozen=True, kw_only=True)
class RowsSource(SparkSource):
    """Rows that Spark reads and hands to executors."""

    frame: DataFrame
    beginning: DataFrame  # the first rows to inspect

    def inspect(self, work: OnPartition, schema: str) -> list[Row]:
        """Let Spark find the first rows: elsewhere if there are none at the beginning."""
        for frame in (self.beginning, self.frame):
            first = frame.select(*map(quoted, self.names)).limit(_INSPECTED_ROWS)
            if found := first.mapInArrow(work, schema).collect():
                return found
        return []

    def map_rows(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Let Spark hand the rows over."""
        _ = names  # Spark has texts
        return self.frame.select(*map(quoted, columns)).mapInArrow(work, schema)


@dataclass(frozen=True, kw_only=True)
class FilesSource(SparkSource):
    """Parquet files that executors read without Spark, for speed."""

    session: SparkSession
    whole: tuple[FileSplit, ...]  # the files, as the driver saw them
    schema: pa.Schema

    def inspect(self, work: OnPartition, schema: str) -> list[Row]:
        """Let an executor read files until it has enough rows."""
        rows_of = read_splits([self.whole], self._schema(self.names))

        def on_first(numbers: Batches) -> Iterator[pa.RecordBatch]:
            return work(_first_rows(rows_of(numbers)))

        return self.session.range(0, 1, 1, 1).mapInArrow(on_first, schema).collect()

    def map_rows(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Give every task its splits of files."""
        divided, read = (
            split_files(self.whole, shuffle_partitions(self.session)),
            self._schema(columns),
        )
        texts = {field.name for field in read if field.type in {pa.string(), pa.large_string()}}
        rows_of = read_splits(divided, read, names if names in texts else None)

        def on_splits(numbers: Batches) -> Iterator[pa.RecordBatch]:
            return work(rows_of(numbers))

        numbered = self.session.range(0, len(divided), 1, len(divided))
        return numbered.mapInArrow(on_splits, schema)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        whole = pa.schema([*self.schema, *((name, pa.int64()) for name in PLACE)])
        return pa.schema([whole.field(name) for name in columns])


def open_source(
    session: SparkSession,
    source: str | Path | DataFrame | Sequence[str | Path],
    options: ReadOptions,
) -> SparkSource:
    """Open files that the driver sees, addresses such as ``s3a://…`` of Parquet, or a DataFrame."""
    if options.skip_lines:
        raise InvalidParameterError("skip_lines", "0 on Spark", options.skip_lines)
    if isinstance(source, DataFrame):
        return _table(source, options)
    parts = [source] if isinstance(source, (str, Path)) else list(source)
    if any(map(is_address, parts)):
        return _addresses(session, [str(part) for part in parts])
    return _files(session, parts, options)


def _table(frame: DataFrame, options: ReadOptions) -> SparkSource:
    """Open a table. Its rows have no order of appearance; that of their values is used."""
    if options.conflicts in {Conflicts.FIRST, Conflicts.LAST}:
        rule = "drop or mean, as the rows of a table have no order"
        raise InvalidParameterError("conflicts", rule, options.conflicts.value)
    names = tuple(frame.columns)
    return RowsSource(
        frame=frame, beginning=frame, names=names, order=(), files=("table",), passed_over=()
    )


def _addresses(session: SparkSession, addresses: list[str]) -> SparkSource:
    frame = read_folder(session, *addresses)
    files = tuple(PurePosixPath(file).name for file in sorted(frame.inputFiles()))
    return _in_order(frame, frame, files, ())


def _files(session: SparkSession, parts: list[str | Path], options: ReadOptions) -> SparkSource:
    passed_over: list[Path] = []
    found = resolve(parts, passed_over)
    refuse_containers(found)
    files, names = [path.resolve() for path in found], tuple(path.name for path in found)
    kind = kind_of(files)
    assumptions = passed_over_assumption(passed_over)
    _refuse_staged(files, kind, options)
    above = _above_values(files[0])
    # Spark joins a list of meters and reads columns from folder names, so it reads the rows then.
    if kind is Kind.PARQUET and options.meters is None and above is None:
        schema = schema_of(files[0])
        if direct_columns(schema.names, options) is None:
            match_columns({path: list(parquet_names(path)) for path in files}, options)
        return FilesSource(
            session=session,
            whole=tuple(FileSplit(n, path, path.stat().st_size) for n, path in enumerate(files)),
            schema=schema,
            names=tuple(schema.names),
            order=PLACE,
            files=names,
            passed_over=assumptions,
        )
    # Spark identifies the file of a row by its address, which gives the order.
    if files != sorted(files):
        rule = "files in the order of their paths, which is that of appearance on Spark"
        raise InvalidParameterError("source", rule, [str(path) for path in files[:3]])
    # Spark takes a name as it is, "%20" too, but for the signs of a pattern.
    paths = [f"file://{str(path).translate(_PATTERN_SIGNS)}" for path in files]
    if kind is Kind.PARQUET:
        frame, beginning = (read_folder(session, *some, above=above) for some in (paths, paths[:1]))
    elif kind is Kind.CSV:
        scan_csv(files, skip_lines=0)  # rejects files that do not belong together
        frame, beginning = _csv(session, files, paths), _csv(session, files, paths[:1])
    else:
        raise InvalidFileError(files[0], "first bytes", "CSV or Parquet on Spark", str(kind))
    return _in_order(frame, beginning, names, assumptions)


def _refuse_staged(files: list[Path], kind: Kind, options: ReadOptions) -> None:
    """Reject files that one machine stages first: their rows are no table of readings yet."""
    if kind not in {Kind.CSV, Kind.PARQUET}:
        return
    known = known_files(files[:1], kind, options)
    is_plain = bool(known) and direct_layout(known) is not None
    if not is_plain and (known := known or unknown_files(files[:1], kind, options)):
        name = known[0].found.format.name
        expected = (
            "a plain table on Spark; in Python on one machine, read_readings(FILE,"
            " timezone=ZONE).write_parquet('plain.parquet') makes one of it"
        )
        raise InvalidFileError(files[0], "format", expected, name)
    if kind is Kind.CSV and (line := find_header(files[0], 0)[0]):
        raise InvalidFileError(files[0], "line 1", "the header on Spark", f"it in line {line + 1}")


def _above_values(path: Path) -> Path | None:
    """Return the folder above those that are named ``column=value``; None if there are none."""
    named = [folder for folder in path.parents if "=" in folder.name]
    return named[-1].parent if named else None


def _csv(session: SparkSession, files: list[Path], paths: list[str]) -> DataFrame:
    """Read every field as text, and fail on a row of another length."""
    _, delimiter, names = find_header(files[0], 0)
    schema = StructType([StructField(name, StringType()) for name in names])
    reader = session.read.schema(schema).options(header=True, sep=delimiter, escape='"')
    return reader.options(mode="FAILFAST", columnPruning=False).csv(paths)


def _in_order(
    frame: DataFrame, beginning: DataFrame, files: tuple[str, ...], passed_over: tuple[str, ...]
) -> SparkSource:
    """Give every row its place. A block is read from its first row on; so the number grows.

    Files are in the order of Python's paths, folder by folder, whatever signs are in their names.
    """
    file, block, row = ORDER
    plus_stays = functions.replace(
        functions.col("_metadata.file_path"), *map(functions.lit, ("+", "%2B"))
    )
    name = functions.url_decode(plus_stays)
    placed = frame.withColumns(
        {
            file: functions.translate(name, "/", "\1"),
            block: functions.col("_metadata.file_block_start"),
            row: functions.monotonically_increasing_id(),
        }
    )
    return RowsSource(
        frame=placed,
        beginning=beginning,
        names=tuple(frame.columns),
        order=ORDER,
        files=files,
        passed_over=passed_over,
    )


def _first_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Return as many rows as are inspected."""
    left = _INSPECTED_ROWS
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(batch.num_rows, left)
        if not left:
            return


@contextmanager
def spark_reads(source: str) -> Iterator[None]:
    """Turn an error of Spark or an executor about a source into `InvalidFileError`."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        ours = [line for line in lines if line.startswith("wattveil.errors.")]
        causes = [line for line in lines if line.startswith("Caused by: ")]
        found = (ours[:1] or causes[-1:] or lines[:1] or [type(error).__name__])[0]
        found = found.removeprefix("Caused by: ").partition(": ")[2] or found
        raise InvalidFileError(source, "content", "a readable table", found[:300]) from error
