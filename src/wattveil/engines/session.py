"""A Spark session of our own, for those who bring none; refused with reasons where none can be."""

import os
import re
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from wattveil.errors import MissingJavaError

LEAST_JAVA = 17


def spark_session(master: str) -> SparkSession:
    """Return a session at a master: ``local[2]``, ``spark://host:7077``, ``yarn``.

    Without Spark's pages: they show whoever asks how many customers every step had, exactly.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors have what we have
    builder = SparkSession.builder.master(master).appName("wattveil")
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def check_java() -> None:
    """Refuse a machine without the Java that Spark needs."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise MissingJavaError(LEAST_JAVA, "none")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - Java itself
    version = re.search(r'version "(?:1\.)?(\d+)', said)  # 1.8 is Java 8
    if version is None or int(version[1]) < LEAST_JAVA:
        raise MissingJavaError(LEAST_JAVA, said.partition("\n")[0])
