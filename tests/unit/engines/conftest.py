"""One Spark session for all tests of a worker process."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from wattveil.engines.session import spark_session
from wattveil.errors import MissingJavaError

QUICK_START = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
    " --conf spark.sql.shuffle.partitions=4 pyspark-shell"
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a session with one executor in this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", QUICK_START)
        try:
            session = spark_session("local[1]")
        except MissingJavaError as error:
            pytest.skip(str(error))
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
