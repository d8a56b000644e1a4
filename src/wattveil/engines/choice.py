"""Which engine the command line asks for: `--engine` and `--master`."""

from enum import StrEnum
from typing import TYPE_CHECKING

from wattveil import checks
from wattveil.errors import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark_engine import SparkEngine

ENGINE_HELP = "local, or spark for many machines."
MASTER_HELP = "Of Spark: local[2], spark://host:7077, yarn."


class Engine(StrEnum):
    """Where customers are kept."""

    LOCAL = "local"
    SPARK = "spark"


def chosen_engine(engine: str, master: str | None) -> "SparkEngine | None":
    """Return Spark at a master, or None for the memory of this process."""
    if checks.enum_value("engine", engine, Engine) is Engine.LOCAL:
        if master is not None:
            raise InvalidParameterError("master", "left out without --engine spark", master)
        return None
    if master is None:
        raise InvalidParameterError("master", "given with --engine spark", master)
    try:
        from wattveil.engines.session import spark_session  # noqa: PLC0415 - an extra
        from wattveil.engines.spark_engine import SparkEngine  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("--engine spark", "spark") from error
    return SparkEngine(spark_session(master))
