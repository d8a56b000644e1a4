"""The command line: the same verbs as the Python API."""

import typer

from wattveil.grid import command as feeders
from wattveil.profiles import command as readings
from wattveil.publish import command as publishing
from wattveil.publish import demo as demonstration
from wattveil.publish import synthesize as synthesis
from wattveil.simulate import command as simulation

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables: private rows
    help="Publish what smart meters know, with differential privacy.",
)
admin = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="What the house keeps: keys."
)


@app.callback()
def main() -> None:
    """Publish what smart meters know, with differential privacy."""


app.command(epilog=demonstration.EPILOG)(demonstration.demo)
app.command(epilog=simulation.EPILOG)(simulation.simulate)
app.command(epilog=readings.EPILOG)(readings.profiles)
app.command(epilog=publishing.RELEASE_EPILOG)(publishing.release)
app.command(epilog=synthesis.EPILOG)(synthesis.synthesize)
app.command(epilog=publishing.VERIFY_EPILOG)(publishing.verify)
app.command(epilog=feeders.EPILOG)(feeders.grid)
admin.command(epilog=publishing.KEY_EPILOG)(publishing.key)
app.add_typer(admin, name="admin")
