"""Folders that executors write: on whatever file system their address names, asked through Spark.

A path without a name of a file system is one of the system that Spark has for such, which need not
be that of the driver: so the driver's own view of it is never asked.
"""

from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles.table import COMPLETE, incomplete


def check_new(session: SparkSession, path: str | Path) -> None:
    """Refuse, before the work, a place that is taken or that Spark does not know."""
    try:
        taken = _is_there(session, path)
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidParameterError("out", "at an address that Spark knows", str(path)) from error
    if taken:
        raise _taken(path)


def read_folder(session: SparkSession, *paths: str | Path, above: Path | None = None) -> DataFrame:
    """Open Parquet where Spark finds it, and say in our words why it does not.

    Folders below the one ``above`` are named ``column=value``, and these are columns too.
    """
    reader = session.read if above is None else session.read.option("basePath", f"file://{above}")
    try:
        return reader.parquet(*map(str, paths))
    except PySparkException as error:
        found: object = error.getCondition()
        reason: Exception = error
    except Py4JJavaError as error:
        found, reason = error.java_exception.toString().partition("\n")[0], error
    raise InvalidFileError(
        paths[0], "content", "a Parquet table that Spark finds", found
    ) from reason


def is_free(session: SparkSession, path: str | Path) -> bool:
    """Whether there is nothing, or nothing but what a job that died left: files of hidden names."""
    if not _is_there(session, path):
        return True
    inside = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    return inside.load(str(path)).select("path").isEmpty()


def write_folder(frame: DataFrame, path: str | Path, *, force: bool = False) -> None:
    """Let executors write a folder of Parquet; one that is there is replaced if ``force``."""
    try:
        frame.write.parquet(str(path), mode="overwrite" if force else "errorifexists")
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise _taken(path) from error


def check_complete(session: SparkSession, path: str | Path) -> None:
    """Refuse a folder that its writer did not finish: some customers would be missing."""
    if not _is_there(session, f"{path}/{COMPLETE}"):
        raise incomplete(path)


def _is_there(session: SparkSession, path: str | Path) -> bool:
    """Whether there is a file or folder; nothing of it is read."""
    try:
        session.read.format("binaryFile").load(str(path))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True


def _taken(path: str | Path) -> InvalidParameterError:
    return InvalidParameterError("out", "a new folder", str(path))
