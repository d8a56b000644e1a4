"""A product is one class and one call of `register`: everything else follows from the registry."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import broken, some_profiles
from tests.toy_product import Toy, ToyOptions
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.manifest import manifest_schema
from wattveil.bundle.plan import plan_release, requested_products, split_budget
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.cli import app
from wattveil.declaration import to_plain
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import Allotment, Product, response_allotment
from wattveil.products.registry import (
    default_weights,
    product_named,
    products_of,
    register,
    unregister,
)
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.server.http.requests import PublicChoices, ReleaseBody
from wattveil.server.ledger.pricing import canonical_request, read_request, release_price

REQUEST = ReleaseRequest.model_validate(
    {"epsilon": 2.0, "delta": 1e-6, "weights": {"clusters": 0.0}, "customers": 200}
)


@pytest.fixture
def toy() -> Iterator[Product]:
    """Register the toy product for one test."""
    product = Toy()
    register(product)
    yield product
    unregister(product)


@pytest.fixture
def _fresh_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the verb `release` anew: its options are those of the products registered by then."""
    import_module("wattveil.cli.release")
    monkeypatch.delitem(sys.modules, "wattveil.cli.release")


def test_a_registered_product_is_released_and_verified(toy: Product, tmp_path: Path) -> None:
    """Plan, tables, manifest, report, card and `verify` accept it."""
    request = REQUEST.replace(weights={"clusters": 0.0, "toy": 1.0})
    plan = plan_release(request, TimeGrid())
    assert [one.name for one in plan.products] == ["load", "toy"]
    assert plan.rho_share("toy") == pytest.approx(0.5, rel=1e-3)
    manifest = release_bundle(some_profiles(), plan, tmp_path / "bundle")
    assert [one["name"] for one in manifest["products"]] == ["load", "toy"]
    assert manifest["products"][1]["expected"][0].startswith("error of the count: ")
    table = read_table(tmp_path / "bundle", "toy_customers").to_pydict()
    assert table["customers"][0] == pytest.approx(300.0, abs=8.0 * table["customers_std"][0])
    verdict = verify_bundle(tmp_path / "bundle")
    assert verdict.accepted, broken(tmp_path / "bundle")
    checks = [one.check for one in verdict.findings]
    assert "the toy error follows from the noise" in checks
    assert "product toy: epsilon and delta" in checks
    page = (tmp_path / "bundle" / "report.html").read_text(encoding="utf-8")
    assert f"<h2>{toy.title}</h2>" in page
    assert "toy_customers" in (tmp_path / "bundle" / "CARD.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("toy", "_fresh_release")
def test_the_command_line_accepts_a_registered_product(tmp_path: Path) -> None:
    """`--share toy=1` releases it."""
    some_profiles().write_parquet(tmp_path / "profiles.parquet")
    out = tmp_path / "bundle"
    shares = [word for name in ("clusters=0", "load=0", "toy=1") for word in ("--share", name)]
    command = ["release", str(tmp_path / "profiles.parquet"), "--epsilon", "1", "--yes", "--json"]
    command += ["--out", str(out), *shares]
    shown = CliRunner().invoke(app, ["release", "--help"], env={"COLUMNS": "400", "TERM": "dumb"})
    assert f"One of: {', '.join(default_weights())}." in shown.output
    refused = CliRunner().invoke(app, [*command, "--toy-multiple", "1001"])
    assert refused.exit_code == 2
    assert "--toy-multiple" in refused.output
    result = CliRunner().invoke(app, [*command, "--toy-multiple", "100"])
    assert result.exit_code == 0, result.output
    manifest = read_manifest(out)
    assert [one["name"] for one in manifest["products"]] == ["toy"]
    assert manifest["request"]["options"] == {"toy": {"multiple": 100}}
    assert read_table(out, "toy_customers").to_pydict()["customers"] == [300.0]
    assert verify_bundle(out).accepted, broken(out)


def test_options_are_validated_by_the_product(toy: Product) -> None:
    """Defaults are filled in; unknown products, fields, types and values are refused."""
    assert toy.Options is not None
    assert REQUEST.replace(options={}).options == {"toy": toy.Options()}
    chosen = REQUEST.replace(options={"toy": {"multiple": 5}})
    assert chosen.options["toy"].multiple == 5
    assert hash(chosen) == hash(REQUEST.replace(options=chosen.options))
    assert ReleaseRequest.parse(to_plain(chosen)) == chosen
    assert ReleaseRequest.parse(
        {"epsilon": "1", "options": {"toy": {"multiple": "5"}}}
    ).options == (chosen.options)
    for wrong, field in (
        (3, "options must be a mapping"),
        ({"none": {}}, r"options must be for one of \['toy'\]"),
        ({"toy": {"multiple": "5"}}, "options.toy.multiple must be a whole number"),
        ({"toy": {"multiple": -1}}, "options.toy.multiple must be a whole number"),
        ({"toy": {"many": 1}}, "options.toy.many must be left out"),
        ({"toy": 3}, "options.toy"),
    ):
        with pytest.raises(InvalidParameterError, match=field):
            REQUEST.replace(options=wrong)


@pytest.mark.usefixtures("toy")
def test_options_of_a_product_that_is_left_out_do_not_count() -> None:
    """Two requests for the same release have the same canonical text."""
    without = REQUEST.replace(weights={"clusters": 0.0, "toy": 0.0}, options={})
    other = without.replace(options={"toy": {"multiple": 5}})
    assert canonical_request(other) == canonical_request(without)
    instance = ReleaseRequest(epsilon=1.0, tier=Tier.INSTANCE)
    other = instance.replace(options={"toy": {"multiple": 5}})
    assert canonical_request(other) == canonical_request(instance)


@pytest.mark.usefixtures("toy")
def test_a_name_has_the_same_options_in_both_tiers() -> None:
    """A second product of the name with other options is refused."""

    class OtherOptions(ToyOptions):
        pass

    class Other(Toy):
        tier = Tier.INSTANCE
        Options = OtherOptions

    with pytest.raises(InvalidParameterError, match="in another tier"):
        register(Other())


@pytest.mark.usefixtures("toy")
def test_the_server_accepts_a_registered_product() -> None:
    """Bodies, defaults of a data set, JSON schema and canonical text name it."""
    options = {"toy": {"multiple": 5}}
    body = ReleaseBody.model_validate({"epsilon": 1.0, "products": ["toy"], "options": options})
    assert body.products == ["toy"]
    assert to_plain(body.options) == options
    assert PublicChoices.model_validate({"clip_kw": 5.0}).products == [*default_weights()]
    assert '"toy"' in json.dumps(ReleaseBody.model_json_schema())
    assert '"toy"' in json.dumps(canonical_request(REQUEST))
    for schema in (ReleaseBody.model_json_schema(), manifest_schema()):
        assert "Round the count to a multiple" in json.dumps(schema)


def test_a_product_that_is_registered_later_changes_no_stored_order() -> None:
    """Text, price and products of an order are those of the time of the order."""
    stored = canonical_request(ReleaseRequest(epsilon=1.0))
    price = release_price(read_request(stored))
    toy = Toy()
    register(toy)
    try:
        read = read_request(stored)
        assert toy not in requested_products(read)
        assert canonical_request(read) == stored
        assert release_price(read) == price
        with_toy = canonical_request(REQUEST)
    finally:
        unregister(toy)
    with pytest.raises(InvalidParameterError):
        read_request(with_toy)


def test_a_product_cannot_take_more_than_the_release() -> None:
    """A budget that a product fixes is within the epsilon of the request."""

    class Fixed(Toy):
        name = "fixed"
        default_weight = None
        Options = None

        def is_requested(self, request: ReleaseRequest) -> bool:
            return request.typical_kw == 7.0

        def fixed_allotment(self, request: ReleaseRequest) -> Allotment:
            return response_allotment(request, 5.0)

    fixed = Fixed()
    register(fixed)
    try:
        alone = ReleaseRequest(
            epsilon=1.0, typical_kw=7.0, weights=dict.fromkeys(default_weights(), 0.0)
        )
        with pytest.raises(InvalidParameterError, match="at least the 5"):
            split_budget(alone)
        with pytest.raises(InvalidParameterError):
            split_budget(alone.replace(weights={}))
    finally:
        unregister(fixed)


def test_nothing_remains_of_a_product_that_was_removed() -> None:
    """Weights, lists, schema and text are as before."""
    before = canonical_request(REQUEST)
    toy = Toy()
    register(toy)
    with pytest.raises(InvalidParameterError, match="a new name in the global tier"):
        register(Toy())
    assert product_named("toy", Tier.GLOBAL) is toy
    assert toy in requested_products(REQUEST)
    assert toy not in products_of(Tier.INSTANCE)
    unregister(toy)
    assert canonical_request(REQUEST) == before
    assert "toy" not in default_weights()
    assert "toy" not in json.dumps(ReleaseBody.model_json_schema())
    for refused in (
        lambda: product_named("toy", Tier.GLOBAL),
        lambda: REQUEST.replace(weights={"toy": 1.0}),
    ):
        with pytest.raises(InvalidParameterError, match="toy"):
            refused()
