"""Spark session, and folders that executors read and write.

Folders are on whatever file system their address names, and are checked through Spark: a path
without a file system is one of Spark's default system, which need not be that of the driver.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingJavaError
from wattveil.profiles.profiles import COMPLETE, incomplete

MIN_JAVA = 17


def spark_session(master: str) -> SparkSession:
    """Return a session at a master: ``local[2]``, ``spark://host:7077``, ``yarn``.

    Without Spark's web pages: they show the exact number of customers of every step.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors use the same Python
    builder = SparkSession.builder.master(master).appName("wattveil")
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def check_java() -> None:
    """Reject a machine without the Java that Spark needs."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise MissingJavaError(MIN_JAVA, None)
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - Java itself
    version = re.search(r'version "(?:1\.)?(\d+)', output)  # 1.8 is Java 8
    if version is None or int(version[1]) < MIN_JAVA:
        raise MissingJavaError(MIN_JAVA, output.partition("\n")[0])


def check_new(session: SparkSession, path: str | Path) -> None:
    """Reject, before the work, a folder that exists or an address that Spark does not resolve."""
    try:
        taken = _is_there(session, path)
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidParameterError(
            "out", "at an address that Spark resolves", str(path)
        ) from error
    if taken:
        raise _taken(path)


def read_folder(session: SparkSession, *paths: str | Path, above: Path | None = None) -> DataFrame:
    """Open Parquet through Spark; raise `InvalidFileError` if that fails.

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
    """Whether there is nothing, or only hidden files of a failed job."""
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
    """Reject a folder that its writer did not finish: some customers would be missing."""
    if not _is_there(session, f"{path}/{COMPLETE}"):
        raise incomplete(path)


def _is_there(session: SparkSession, path: str | Path) -> bool:
    """Whether there is a file or folder; nothing of it is read."""
    # Of a single path that does not exist, Spark logs a stack trace: it looks for the metadata of a
    # stream there. Of several paths it does not.
    try:
        session.read.format("binaryFile").load([str(path), str(path)])
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True


def _taken(path: str | Path) -> InvalidParameterError:
    return InvalidParameterError("out", "a new folder", str(path))
