"""The options `--engine` and `--master`: what goes together, and what is missing."""

import sys

import pytest

from tests.fresh_modules import fresh_modules
from wattveil.cli.option_groups import chosen_engine
from wattveil.errors import InvalidParameterError, MissingExtraError


def test_memory_is_the_default_and_has_no_master() -> None:
    """Nothing of Spark is loaded for it."""
    assert chosen_engine("local", None) is None
    with pytest.raises(InvalidParameterError, match="omitted without --engine spark"):
        chosen_engine("local", "yarn")


@pytest.mark.parametrize(
    ("engine", "field"), [("spark", "master"), ("Spark", "engine"), ("dask", "engine")]
)
def test_what_cannot_be_chosen_is_named(engine: str, field: str) -> None:
    """Spark without a master, and engines that are none."""
    with pytest.raises(InvalidParameterError) as refused:
        chosen_engine(engine, None)
    assert refused.value.field == field


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    missing = pytest.raises(MissingExtraError, match=r'pip install "wattveil\[spark\]"')
    with fresh_modules("wattveil.engines.s"), missing:
        chosen_engine("spark", "local[1]")
