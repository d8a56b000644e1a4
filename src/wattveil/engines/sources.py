"""Readings as Spark finds them: files in a lake, a table, a query."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.ingest.options import Conflicts, ReadOptions
from wattveil.ingest.read import passed_over_guesses
from wattveil.ingest.sources import Kind, header_of, kind_of, resolve, scan_csv

ORDER = ("wattveil file", "wattveil block", "wattveil row")
"""Columns of the order of appearance: file, place of the block in it, row of the block."""

_ADDRESS = "://"


@dataclass(frozen=True)
class SparkSource:
    """Rows for Spark to read; nothing is read yet."""

    frame: DataFrame
    beginning: DataFrame  # what a look at the first rows looks at
    names: tuple[str, ...]  # columns of the source, without those of `ORDER`
    order: tuple[str, ...]
    files: tuple[str, ...]  # their names, for the report
    passed_over: tuple[str, ...]  # the guess about files that are not read


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
    if any(_ADDRESS in str(part) for part in parts):
        return _addresses(session, [str(part) for part in parts])
    return _files(session, parts)


def _table(frame: DataFrame, options: ReadOptions) -> SparkSource:
    """Take a table. Its rows have no order of appearance; that of their values has to do."""
    if options.conflicts in {Conflicts.FIRST, Conflicts.LAST}:
        rule = "drop or mean, as the rows of a table have no order"
        raise InvalidParameterError("conflicts", rule, options.conflicts.value)
    names = tuple(frame.columns)
    return SparkSource(frame, frame, names, order=(), files=("table",), passed_over=())


def _addresses(session: SparkSession, addresses: list[str]) -> SparkSource:
    frame = session.read.parquet(*addresses)
    files = tuple(PurePosixPath(file).name for file in sorted(frame.inputFiles()))
    return _in_order(frame, frame, files, ())


def _files(session: SparkSession, parts: list[str | Path]) -> SparkSource:
    passed_over: list[Path] = []
    files = resolve(parts, passed_over)
    kind = kind_of(files)
    # Spark says where a row is from by the address of its file, and that is its order.
    paths = [path.resolve().as_uri() for path in files]
    if paths != sorted(paths):
        rule = "files in the order of their paths, which is that of appearance on Spark"
        raise InvalidParameterError("source", rule, [str(path) for path in files[:3]])
    if kind is Kind.PARQUET:
        frame, beginning = session.read.parquet(*paths), session.read.parquet(paths[0])
    elif kind is Kind.CSV:
        scan_csv(files, skip_lines=0)  # refuses files that do not belong together
        frame, beginning = _csv(session, files, paths), _csv(session, files, paths[:1])
    else:
        raise InvalidFileError(files[0], "first bytes", "CSV or Parquet on Spark", str(kind))
    names = tuple(path.name for path in files)
    return _in_order(frame, beginning, names, passed_over_guesses(passed_over))


def _csv(session: SparkSession, files: list[Path], paths: list[str]) -> DataFrame:
    """Read every field as text, and fail on a row of another length."""
    delimiter, names = header_of(files[0], 0)
    schema = StructType([StructField(name, StringType()) for name in names])
    reader = session.read.schema(schema).options(header=True, sep=delimiter, escape='"')
    return reader.options(mode="FAILFAST", columnPruning=False).csv(paths)


def _in_order(
    frame: DataFrame, beginning: DataFrame, files: tuple[str, ...], passed_over: tuple[str, ...]
) -> SparkSource:
    """Give every row its place. A block is read from its first row on; so the number grows."""
    file, block, row = ORDER
    placed = frame.withColumns(
        {
            file: functions.col("_metadata.file_path"),
            block: functions.col("_metadata.file_block_start"),
            row: functions.monotonically_increasing_id(),
        }
    )
    return SparkSource(placed, beginning, tuple(frame.columns), ORDER, files, passed_over)


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
