"""Groups of options in `--help`, where commands share them, and options of several commands.

Options without a group are the common ones: `--help` lists them first.
"""

from pathlib import Path
from typing import Annotated

import typer

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
