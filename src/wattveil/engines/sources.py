"""Readings as Spark finds them: files in a lake, a table, a query."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from wattveil.checks import is_address
from wattveil.engines.folders import read_folder
from wattveil.engines.parcels import Batches, OnPartition, shuffle_partitions
from wattveil.engines.pieces import PLACE, Piece, cut, read_pieces, schema_of
from wattveil.engines.spark import quoted
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.ingest.options import Conflicts, ReadOptions
from wattveil.ingest.read import passed_over_guesses
from wattveil.ingest.sources import Kind, header_of, kind_of, resolve, scan_csv

_LOOKED_AT = 20_000  # rows, for what has to be guessed

ORDER = ("wattveil file", "wattveil block", "wattveil row")
"""Columns of the order of appearance: file, place of the block in it, row of the block."""

_PATTERN_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "{}[]*?\\"})


@dataclass(frozen=True, kw_only=True)
class SparkSource(ABC):
    """Rows for executors to read; nothing is read yet."""

    names: tuple[str, ...]  # columns of the source, without those of the order
    order: tuple[str, ...]  # columns that tell the order of appearance
    files: tuple[str, ...]  # their names, for the report
    passed_over: tuple[str, ...]  # the guess about files that are not read

    @abstractmethod
    def look(self, work: OnPartition, schema: str) -> list[Row]:
        """Let one executor work on the first rows, wherever they are; return what it finds."""

    @abstractmethod
    def each(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Let executors work on columns of all rows; that of ``names`` may be a dictionary."""


@dataclass(frozen=True, kw_only=True)
class RowsSource(SparkSource):
    """Rows that Spark reads and hands to executors."""

    frame: DataFrame
    beginning: DataFrame  # what a look at the first rows looks at

    def look(self, work: OnPartition, schema: str) -> list[Row]:
        """Let Spark find the first rows: elsewhere if there are none at the beginning."""
        for frame in (self.beginning, self.frame):
            first = frame.select(*map(quoted, self.names)).limit(_LOOKED_AT)
            if found := first.mapInArrow(work, schema).collect():
                return found
        return []

    def each(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Let Spark hand the rows over."""
        _ = names  # Spark has texts
        return self.frame.select(*map(quoted, columns)).mapInArrow(work, schema)


@dataclass(frozen=True, kw_only=True)
class FilesSource(SparkSource):
    """Parquet files that executors read by themselves: `pieces` says why."""

    session: SparkSession
    whole: tuple[Piece, ...]  # the files, as the driver saw them
    schema: pa.Schema

    def look(self, work: OnPartition, schema: str) -> list[Row]:
        """Let an executor read files until it has enough rows."""
        rows_of = read_pieces([self.whole], self._schema(self.names))

        def on_first(numbers: Batches) -> Iterator[pa.RecordBatch]:
            return work(_first_rows(rows_of(numbers)))

        return self.session.range(0, 1, 1, 1).mapInArrow(on_first, schema).collect()

    def each(
        self, work: OnPartition, schema: str, columns: Sequence[str], *, names: str | None = None
    ) -> DataFrame:
        """Give every task its pieces of files."""
        divided, read = cut(self.whole, shuffle_partitions(self.session)), self._schema(columns)
        texts = {field.name for field in read if field.type in {pa.string(), pa.large_string()}}
        rows_of = read_pieces(divided, read, names if names in texts else None)

        def on_pieces(numbers: Batches) -> Iterator[pa.RecordBatch]:
            return work(rows_of(numbers))

        numbered = self.session.range(0, len(divided), 1, len(divided))
        return numbered.mapInArrow(on_pieces, schema)

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
    """Take a table. Its rows have no order of appearance; that of their values has to do."""
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
    files, names = [path.resolve() for path in found], tuple(path.name for path in found)
    kind = kind_of(files)
    guesses = passed_over_guesses(passed_over)
    above = _above_values(files[0])
    # Spark joins a list of meters and knows the columns of folders, so there it reads the rows.
    if kind is Kind.PARQUET and options.meters is None and above is None:
        schema = schema_of(files[0])
        return FilesSource(
            session=session,
            whole=tuple(Piece(n, path, path.stat().st_size) for n, path in enumerate(files)),
            schema=schema,
            names=tuple(schema.names),
            order=PLACE,
            files=names,
            passed_over=guesses,
        )
    # Spark says where a row is from by the address of its file, and that is its order.
    if files != sorted(files):
        rule = "files in the order of their paths, which is that of appearance on Spark"
        raise InvalidParameterError("source", rule, [str(path) for path in files[:3]])
    # Spark takes a name as it is, "%20" too, but for the signs of a pattern.
    paths = [f"file://{str(path).translate(_PATTERN_SIGNS)}" for path in files]
    if kind is Kind.PARQUET:
        frame, beginning = (read_folder(session, *some, above=above) for some in (paths, paths[:1]))
    elif kind is Kind.CSV:
        scan_csv(files, skip_lines=0)  # refuses files that do not belong together
        frame, beginning = _csv(session, files, paths), _csv(session, files, paths[:1])
    else:
        raise InvalidFileError(files[0], "first bytes", "CSV or Parquet on Spark", str(kind))
    return _in_order(frame, beginning, names, guesses)


def _above_values(path: Path) -> Path | None:
    """Return the folder above those that are named ``column=value``; None if there are none."""
    named = [folder for folder in path.parents if "=" in folder.name]
    return named[-1].parent if named else None


def _csv(session: SparkSession, files: list[Path], paths: list[str]) -> DataFrame:
    """Read every field as text, and fail on a row of another length."""
    delimiter, names = header_of(files[0], 0)
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
    """Give as many rows as are looked at."""
    left = _LOOKED_AT
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(batch.num_rows, left)
        if not left:
            return


@contextmanager
def spark_reads(source: str) -> Iterator[None]:
    """Turn Spark's complaint about a source into ours; what an executor refused is said there."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        ours = [line for line in lines if line.startswith("wattveil.errors.")]
        causes = [line for line in lines if line.startswith("Caused by: ")]
        found = (ours[:1] or causes[-1:] or lines[:1] or [type(error).__name__])[0]
        found = found.removeprefix("Caused by: ").partition(": ")[2] or found
        raise InvalidFileError(source, "content", "a readable table", found[:300]) from error
