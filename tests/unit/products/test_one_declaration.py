"""A field that is added to the request, in one place, appears wherever a request does."""

from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import pytest
from pydantic import Field
from typer.testing import CliRunner

from tests.fresh_modules import fresh_modules
from wattveil.products import request as declared

HELP = "Number of days of the planted window."
FIXED_HELP = "Planted meter generation of a data set."


class Wider(declared.ReleaseRequest):
    """The request with one more field, and one that a data set fixes."""

    window_days: Annotated[int, Field(ge=1, le=30, description=HELP)] = 7
    generation: Annotated[
        int, Field(ge=1, le=4, description=FIXED_HELP), declared.FIXED_BY_DATASET
    ] = 2


Wider.__name__ = "ReleaseRequest"
DERIVED = ("wattveil.cli", "wattveil.server", "wattveil.bundle", "tools.reference")
"""Packages that derive something from the request when they are imported."""


@pytest.fixture(scope="module", autouse=True)
def wider() -> Iterator[None]:
    """Import what is derived from the request anew, with the wider one in its place."""
    with fresh_modules(*DERIVED), pytest.MonkeyPatch.context() as patch:
        patch.setattr(declared, "ReleaseRequest", Wider)
        yield


def test_the_command_line_has_it() -> None:
    """An option with help, default and bounds; its value is checked by the model."""
    cli: Any = import_module("wattveil.cli")
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    shown = CliRunner().invoke(cli.app, ["release", "--help"], env=wide).output
    for words in ("--window-days", HELP, "1<=x<=30", "default: 7"):
        assert words in shown
    wrong = ["release", "none.parquet", "--epsilon", "1", "--window-days", "31"]
    refused = CliRunner().invoke(cli.app, wrong, env=wide).output
    assert "--window-days must be a whole number of at least 1" in refused


def test_bodies_and_openapi_have_it() -> None:
    """Quotes and orders take it, and a data set hands it on to the request."""
    bodies: Any = import_module("wattveil.server.http.requests")
    schema = bodies.ReleaseBody.model_json_schema()["properties"]["window_days"]
    assert (schema["default"], schema["maximum"], schema["description"]) == (7, 30, HELP)
    reference: Any = import_module("tools.reference.http")
    described = reference.description()["components"]["schemas"]["ReleaseBody"]["properties"]
    assert described["window_days"]["description"] == HELP
    datasets: Any = import_module("wattveil.server.datasets")
    choices: Any = import_module("wattveil.server.dataset_choices")
    public = choices.PublicChoices(clip_kw=5.0).model_dump(mode="json")
    homes = datasets.Dataset(
        name="homes",
        closed=False,
        public=public,
        profiles_file="homes.parquet",
        customer_list_file=None,
        fingerprint="",
    )
    assert homes.request(bodies.ReleaseBody(epsilon=1.0, window_days=9)).window_days == 9


def test_a_registration_has_what_a_data_set_fixes() -> None:
    """HTTP body, options of `admin dataset`, description and requests; not the body of an order."""
    bodies: Any = import_module("wattveil.server.http.requests")
    choices: Any = import_module("wattveil.server.dataset_choices")
    assert "generation" not in bodies.ReleaseBody.model_fields
    schema = choices.DatasetBody.model_json_schema()["properties"]["generation"]
    assert (schema["default"], schema["maximum"], schema["description"]) == (2, 4, FIXED_HELP)
    reference: Any = import_module("tools.reference.http")
    described = reference.description()["components"]["schemas"]
    assert described["DatasetBody"]["properties"]["generation"]["description"] == FIXED_HELP
    assert described["Dataset"]["properties"]["generation"]["description"] == FIXED_HELP
    datasets: Any = import_module("wattveil.server.datasets")
    public = choices.PublicChoices(clip_kw=5.0, generation=3).model_dump(mode="json")
    homes = datasets.Dataset(
        name="homes",
        closed=False,
        public=public,
        profiles_file="homes.parquet",
        customer_list_file=None,
        fingerprint="",
    )
    assert homes.request(bodies.ReleaseBody(epsilon=1.0)).generation == 3


def test_the_command_that_registers_has_every_field_of_the_body() -> None:
    """Its options are those of the declaration, with help, bounds and default."""
    cli: Any = import_module("wattveil.cli")
    wide = {"COLUMNS": "250", "TERM": "dumb"}
    shown = CliRunner().invoke(cli.app, ["admin", "dataset", "--help"], env=wide).output
    for words in ("--generation", FIXED_HELP, "1<=x<=4", "default: 2"):
        assert words in shown
    choices: Any = import_module("wattveil.server.dataset_choices")
    options = {"groups": "--group"}
    for name in {*choices.DatasetBody.model_fields} - {"allowance"}:
        assert options.get(name, f"--{name.replace('_', '-')}") in shown
    for name in choices.AllowanceBody.model_fields:
        assert f"--{name.replace('_', '-')}" in shown
    wrong = ["admin", "dataset", "--name", "a", "--file", "b", "--clip-kw", "1"]
    refused = CliRunner().invoke(cli.app, [*wrong, "--generation", "5"], env=wide).output
    assert "--generation must be a whole number of at least 1" in refused


def test_canonical_text_has_it() -> None:
    """It distinguishes requests, and reads back."""
    pricing: Any = import_module("wattveil.server.ledger.pricing")
    record = pricing.canonical_request(Wider(epsilon=1.0, window_days=9))
    assert record["window_days"] == 9
    assert pricing.read_request(record).window_days == 9
    assert record != pricing.canonical_request(Wider(epsilon=1.0))


def test_manifest_and_schema_have_it() -> None:
    """The manifest states it, its schema permits it, and `verify` reads it."""
    manifest: Any = import_module("wattveil.bundle.manifest")
    stated = manifest.manifest_schema()["properties"]["request"]
    assert "window_days" in stated["required"]
    assert stated["properties"]["window_days"]["maximum"] == 30
    product: Any = import_module("wattveil.products.product")
    grids: Any = import_module("wattveil.profiles.time_grid")
    facts = product.PublicFacts(grid=grids.TimeGrid(), timezone="UTC", rules={})
    chosen = Wider(epsilon=1.0, window_days=9)
    manifest.check_public(facts, chosen)
    record = manifest._stated_choices(facts, chosen)
    about = chosen.about.model_dump()
    assert record["request"]["window_days"] == 9
    assert manifest.request_of({**record, **about}) == chosen


@pytest.mark.parametrize(
    ("module", "page"),
    [("command_line", "command_reference"), ("http", "addresses"), ("manifest_fields", "fields")],
)
def test_reference_pages_have_it(module: str, page: str) -> None:
    """The pages of the reference are generated from the same declarations."""
    generator: Any = import_module(f"tools.reference.{module}")
    assert HELP in getattr(generator, page)()
