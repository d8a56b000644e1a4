"""Options derived from a model: names, types, defaults, help, panels, errors."""

import datetime as dt
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from wattveil.cli.model_options import model_options
from wattveil.declaration import CommandLine, Declaration


class Colour(StrEnum):
    """An enum of the model."""

    RED = "red"
    BLUE = "blue"


class Inner(Declaration):
    """A nested model."""

    title: Annotated[str, CommandLine(group="About")] = "a title"
    """Of the whole."""


class Choices(Declaration):
    """A model with fields of every kind."""

    epsilon: Annotated[float, Field(gt=0)]
    """Budget."""
    n_clusters: Annotated[int, Field(ge=1, le=9), CommandLine(option="--clusters")] = 6
    """Number of clusters."""
    colour: Colour = Colour.RED
    flag: bool = False
    levels: tuple[str, ...] = ()
    period: tuple[dt.date, dt.date] | None = None
    day: dt.date | None = None
    weights: Annotated[
        Mapping[str, float], CommandLine(option="--share", metavar="part=weight")
    ] = Field(default_factory=dict)
    folder: Path | None = None
    doubled: Annotated[int, CommandLine(read=lambda text: 2 * int(text))] = 0
    inner: Inner = Field(default_factory=Inner)


def _run(command: Callable[..., None], *options: str) -> str:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    found = CliRunner().invoke(app, options, env={"COLUMNS": "200", "TERM": "dumb"})
    return found.output


SEEN: list[Choices] = []


@model_options
def plain(profiles: str, *, choices: Choices, out: str = "bundle") -> None:
    """Take a model."""
    SEEN.append(choices)
    typer.echo(f"{profiles} to {out}")


@model_options(defaults={"n_clusters": 4}, fallbacks={"epsilon": 8.0}, omit=("folder", "inner"))
def preset(context: typer.Context, *, choices: Choices) -> None:
    """Take a model with other defaults."""
    SEEN.append(choices)
    typer.echo(f"epsilon {context.params['epsilon']}")


def test_every_option_reaches_its_field() -> None:
    """Options of all types are read, the others have the defaults of the model."""
    assert _run(plain, "x", "--epsilon", "1") == "x to bundle\n"
    assert SEEN.pop() == Choices(epsilon=1.0)
    told = "--epsilon 2 --clusters 3 --colour blue --flag --levels a,b --period 2024-01-01"
    told += " 2024-02-01 --day 2024-03-01 --share load=2 --share shares=0.5 --folder f --title t"
    assert _run(plain, "x", *told.split(), "--doubled", "4", "--out", "y") == "x to y\n"
    assert SEEN.pop() == Choices(
        epsilon=2.0,
        n_clusters=3,
        colour=Colour.BLUE,
        flag=True,
        levels=("a", "b"),
        period=(dt.date(2024, 1, 1), dt.date(2024, 2, 1)),
        day=dt.date(2024, 3, 1),
        weights={"load": 2.0, "shares": 0.5},
        folder=Path("f"),
        doubled=8,
        inner=Inner(title="t"),
    )


def test_help_shows_what_the_model_declares() -> None:
    """Name, bounds, default, help text and panel are those of the field."""
    text = _run(plain, "--help")
    for shown in (
        "--clusters",
        "1<=x<=9",
        "Number of clusters.",
        "default: 6",
        "About",
        "red|blue",
    ):
        assert shown in text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("--epsilon 0", "--epsilon must be a finite number above 0; got 0"),
        ("--epsilon 1 --clusters 10", "--clusters must be a whole number"),
        ("--epsilon 1 --share load=x", "--share must be a finite number; got x"),
        ("--epsilon 1 --share load", "--share must be part=weight; got load"),
        ("--epsilon 1 --colour green", "--colour"),
        ("", "--epsilon"),
    ],
)
def test_errors_name_the_option(told: str, words: str) -> None:
    """What breaks a rule is reported by the name of its option."""
    assert words in _run(plain, "x", *told.split())


def test_a_command_may_differ_from_the_model() -> None:
    """A command has defaults of its own, makes a required option optional, or omits fields."""
    assert _run(preset) == "epsilon None\n"
    assert SEEN.pop() == Choices(epsilon=8.0, n_clusters=4)
    assert _run(preset, "--epsilon", "1") == "epsilon 1.0\n"
    assert SEEN.pop().epsilon == 1.0
    assert "default: 4" in _run(preset, "--help")
    for omitted in ("--folder", "--title"):
        assert "No such option" in _run(preset, omitted, "f")
