"""Groups of options in `--help`, where commands share them, and options of several commands.

Options without a group are the common ones: `--help` lists them first.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattveil import checks
from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.terminal import check_folders

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_engine import SparkEngine

EXECUTION = "Execution and output"
STATISTICS = "Statistics"

ENGINE_HELP = "local, or spark for a cluster of machines."
MASTER_HELP = "Spark master: local[2], spark://host:7077 or yarn."

EngineName = Annotated[str, typer.Option(help=ENGINE_HELP, rich_help_panel=EXECUTION)]
Master = Annotated[str | None, typer.Option(help=MASTER_HELP, rich_help_panel=EXECUTION)]
Report = Annotated[Path | None, typer.Option(help="HTML page with the results; private.")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the results as JSON.", rich_help_panel=EXECUTION),
]


class Engine(StrEnum):
    """Engine that stores and reads customers."""

    LOCAL = "local"
    SPARK = "spark"


def chosen_engine(engine: str, master: str | None) -> "SparkEngine | None":
    """Return the Spark engine at a master, or None for the local engine."""
    if checks.enum_value("engine", engine, Engine) is Engine.LOCAL:
        if master is not None:
            raise InvalidParameterError("master", "omitted without --engine spark", master)
        return None
    if master is None:
        rule = "given with --engine spark, such as local[2] or spark://host:7077"
        raise InvalidParameterError("master", rule, master)
    try:
        from wattveil.engines.spark.spark_engine import SparkEngine  # noqa: PLC0415
        from wattveil.engines.spark.spark_session import spark_session  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("--engine spark", "spark") from error
    return SparkEngine(spark_session(master))


def check_private_files(written: Mapping[str, Path | None]) -> None:
    """Refuse, before the work, a place of a private file in a missing folder or in a bundle."""
    from wattveil.bundle.bundle_files import outside_bundle  # noqa: PLC0415 - slow to load

    check_folders(written)
    for name, path in written.items():
        if path is not None:
            outside_bundle(name, path)
