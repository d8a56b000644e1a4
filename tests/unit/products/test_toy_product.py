"""A product is one class and one call of `register`: everything else follows from the registry."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, create_model
from typer.testing import CliRunner

from tests.fresh_modules import fresh_modules
from tests.sample_bundles import broken, only, some_profiles
from tests.toy_product import Toy, ToyOptions
from tests.toy_release import CustomerCount, count_customers
from wattveil.arrays import Floats
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.manifest import manifest_schema, request_sha256
from wattveil.bundle.plan import (
    composed_epsilon,
    plan_release,
    requested_products,
    split_budget,
)
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.bundle.verify.verify_content import consistency
from wattveil.cli import app
from wattveil.declaration import Declaration, to_plain
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.lab.audit.replay_audit import Neighbour, replay_audit
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import (
    Allotment,
    Choice,
    Product,
    ReleasedProduct,
    Run,
    guarantee_of,
    response_allotment,
)
from wattveil.products.registry import (
    default_weights,
    named_weights,
    product_named,
    products_of,
    register,
    unregister,
)
from wattveil.products.request import About, ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.server.dataset_choices import PublicChoices
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.ledger.pricing import (
    canonical_request,
    order_release,
    read_request,
    release_price,
)
from wattveil.simulate import simulate_load_kw

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
def _fresh_release() -> Iterator[None]:
    """Load the command `release` anew: its options are those of the products registered by then."""
    with fresh_modules("wattveil.cli.release"):
        yield


def test_a_registered_product_is_released_and_verified(toy: Product, tmp_path: Path) -> None:
    """Plan, tables, manifest, report, card and `verify` accept it."""
    request = REQUEST.replace(weights={**only("load"), "toy": 1.0})
    plan = plan_release(request, TimeGrid())
    assert [one.name for one in plan.products] == ["load", "toy"]
    assert plan.rho_share("toy") == pytest.approx(0.5, rel=1e-3)
    manifest = release_bundle(some_profiles(), plan, tmp_path / "bundle")
    assert [one["name"] for one in manifest["products"]] == ["load", "toy"]
    assert manifest["products"][1]["expected"][0].startswith("error of the count: ")
    table = read_table(tmp_path / "bundle", "toy_customers").to_pydict()
    assert table["count"][0] == pytest.approx(300.0, abs=8.0 * table["count_std"][0])
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
    weights = {**only("toy"), "toy": 1.0}
    shares = [word for one in weights.items() for word in ("--share", "{}={}".format(*one))]
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
    assert manifest["request"]["options"]["toy"] == {"multiple": 100}
    assert read_table(out, "toy_customers").to_pydict()["count"] == [300.0]
    assert verify_bundle(out).accepted, broken(out)


def test_options_are_validated_by_the_product(toy: Product) -> None:
    """Defaults are filled in; unknown products, fields, types and values are refused."""
    assert toy.Options is not None
    assert REQUEST.replace(options={}).options["toy"] == toy.Options()
    chosen = REQUEST.replace(options={"toy": {"multiple": 5}})
    assert chosen.options["toy"].multiple == 5
    assert hash(chosen) == hash(REQUEST.replace(options=chosen.options))
    assert ReleaseRequest.parse(to_plain(chosen)) == chosen
    assert ReleaseRequest.parse(
        {"epsilon": "1", "options": {"toy": {"multiple": "5"}}}
    ).options == (chosen.options)
    for wrong, field in (
        (3, "options must be a mapping"),
        ({"none": {}}, r"options must be for one of: .*toy"),
        ({"toy": {"multiple": "5"}}, "options.toy.multiple must be a whole number"),
        ({"toy": {"multiple": -1}}, "options.toy.multiple must be a whole number"),
        ({"toy": {"many": 1}}, "unknown field options.toy.many"),
        ({"toy": 3}, "options.toy"),
    ):
        with pytest.raises(InvalidParameterError, match=field):
            REQUEST.replace(options=wrong)


def test_options_of_a_subclass_are_refused(toy: Product) -> None:
    """Its further fields would be in the canonical text, and unknown to manifest and product."""

    class More(ToyOptions):
        further: int = 7

    class Same(ToyOptions):
        pass

    with pytest.raises(InvalidParameterError, match=r"unknown field options\.toy\.further"):
        REQUEST.replace(options={"toy": More()})
    found = REQUEST.replace(options={"toy": Same(multiple=5)}).options["toy"]
    assert (type(found), found.multiple) == (toy.Options, 5)

    class MoreAbout(About):
        further: str = "x"

    with pytest.raises(InvalidParameterError, match=r"unknown field .*further"):
        REQUEST.replace(about=MoreAbout())


class _Nested(Declaration):
    names: list[str] = Field(default_factory=list)


def _options(**fields: Any) -> type[Declaration]:  # noqa: ANN401 - as `create_model` takes them
    without_source = {"use_attribute_docstrings": False}  # which Pydantic would search for
    return create_model("Given", __base__=Declaration, __cls_kwargs__=without_source, **fields)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (
            _options(hours=(list[int], [])),
            r"Given\.hours must be of immutable types .*=list\[int\]",
        ),
        (_options(hours=(set[int] | None, None)), r"Given\.hours must be of immutable types"),
        (_options(hours=(tuple[dict[str, list[int]], ...], ())), r"Given\.hours .*=list\[int\]"),
        (_options(hours=(Any, None)), r"Given\.hours must be of immutable types"),
        (_options(nested=(_Nested, _Nested())), r"_Nested\.names must be of immutable types"),
        (_options(hours=(int, ...)), r"Given\.hours must be a field with a default"),
    ],
    ids=["list", "set", "inner list", "any", "nested model", "required"],
)
def test_options_that_cannot_be_hashed_are_refused(
    options: type[Declaration], refusal: str
) -> None:
    """At registration: an order of such a product would fail with an error of the software."""

    class Other(Toy):
        Options = options

    with pytest.raises(InvalidParameterError, match=refusal):
        register(Other())
    assert "toy" not in default_weights()


def test_options_of_immutable_types_can_be_ordered() -> None:
    """Nested tuples, mappings and models have a hash and a canonical text that reads back."""

    class Other(Toy):
        Options = _options(
            hours=(tuple[int, ...], (1, 2)),
            bounds=(Mapping[str, tuple[float, float]], {"a": (0.0, 1.0)}),
            tables=(tuple[Mapping[str, int], ...], ({"b": 1},)),
            kind=(Literal["mean", "sum"] | None, None),
            tier=(Tier, Tier.GLOBAL),
            inner=(ToyOptions, ToyOptions()),
        )

    other = Other()
    register(other)
    try:
        chosen = {"toy": {"hours": [3], "tier": "instance", "bounds": {"c": [1.0, 2.0]}}}
        request = REQUEST.replace(options=chosen)
        order = order_release(request, dataset="homes", principal="ann", key="a")
        assert read_request(order.request).options == request.options
        body = {"epsilon": 1.0, "options": chosen}
        assert ReleaseBody.model_validate(body).options == request.options
    finally:
        unregister(other)


@pytest.mark.usefixtures("toy")
def test_options_of_a_product_that_is_left_out_do_not_count() -> None:
    """Two requests for the same release have the same canonical text."""
    without = REQUEST.replace(weights=only("load"), options={})
    other = without.replace(options={"toy": {"multiple": 5}})
    assert canonical_request(other) == canonical_request(without)
    instance = ReleaseRequest(epsilon=1.0, tier=Tier.INSTANCE)
    other = instance.replace(options={"toy": {"multiple": 5}})
    assert canonical_request(other) == canonical_request(instance)


@pytest.mark.usefixtures("toy")
def test_a_manifest_states_the_options_of_its_products(tmp_path: Path) -> None:
    """Those of a product that was left out are not stated; if they are, `verify` rejects it."""
    without = REQUEST.replace(weights=only("load"), options={"toy": {"multiple": 5}})
    bundle = tmp_path / "bundle"
    manifest = release_bundle(some_profiles(), plan_release(without, TimeGrid()), bundle)
    assert "toy" not in manifest["request"]["options"]
    assert verify_bundle(bundle).accepted, broken(bundle)
    manifest["request"]["options"]["toy"] = {"multiple": 5}
    manifest["request_sha256"] = request_sha256(manifest)
    assert consistency(manifest).seen == "the request is not written in canonical form"


def test_the_release_function_passes_the_replay_audit() -> None:
    """A customer changes the count by one bounded contribution, and nothing else."""
    load_kw = simulate_load_kw(customers=5)

    def count(rows: Floats) -> CustomerCount:
        return count_customers(rows, epsilon=1.0, delta=1e-6)

    found = replay_audit(count, load_kw, [Neighbour(name="one less", data=load_kw[1:])])
    assert found.holds
    assert found.worst_ratio > 0.99


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
    assert to_plain(body.options["toy"]) == options["toy"]
    offered = PublicChoices.model_validate({"clip_kw": 5.0}).products
    assert offered == (*(name for name in default_weights() if name not in named_weights()),)
    assert "toy" in offered
    assert "years" not in offered  # offered only where it is named
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
            return request.typical_kw == 5.0

        def fixed_allotment(self, request: ReleaseRequest) -> Allotment:
            return response_allotment(request, 5.0)

    fixed = Fixed()
    register(fixed)
    try:
        alone = ReleaseRequest(epsilon=1.0, typical_kw=5.0, weights=only())
        with pytest.raises(InvalidParameterError, match="at least the 5"):
            split_budget(alone)
        with pytest.raises(InvalidParameterError):
            split_budget(alone.replace(weights={}))
    finally:
        unregister(fixed)


@pytest.mark.parametrize("beside", [{}, only()])
def test_fixed_gaussian_budgets_are_composed(beside: dict[str, float]) -> None:
    """Two products at (epsilon / 2, delta) compose above (epsilon, delta): delta counts too."""

    class Half(Toy):
        default_weight = None
        Options = None

        def __init__(self, name: str) -> None:
            self.name = name

        def is_requested(self, request: ReleaseRequest) -> bool:
            return request.n_clusters == 11

        def fixed_allotment(self, request: ReleaseRequest) -> Allotment:
            return Allotment.of(guarantee_of(request, epsilon=0.05, delta=request.delta))

    halves = [Half("one"), Half("two")]
    for half in halves:
        register(half)
    request = ReleaseRequest(epsilon=0.1, delta=0.05, n_clusters=11, weights=beside)
    try:
        with pytest.raises(InvalidParameterError, match=r"epsilon must be at least the 0\.1356"):
            split_budget(request)
        split = split_budget(request.replace(epsilon=1.0))
        assert composed_epsilon(split.values(), request.delta) <= 1.0
        assert split["two"].guarantee.epsilon == 0.05
    finally:
        for half in halves:
            unregister(half)


class Greedy(Toy):
    """The toy product with a fault in what it says about its release."""

    Options = None

    def __init__(self, fault: Callable[[ReleasedProduct], ReleasedProduct]) -> None:
        self._fault = fault

    def tabulate(
        self, released: CustomerCount, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the table, changed."""
        (layout,) = self.layouts(choice)
        table = layout.filled([released.count], [released.count_std])
        runs = (Run(group=None, spends=released.spends),)
        one = ReleasedProduct(name=self.name, allotment=allotment, runs=runs, tables=(table,))
        return self._fault(one)


def _doubled(released: ReleasedProduct) -> ReleasedProduct:
    (run,) = released.runs
    return replace(released, runs=(replace(run, spends=run.spends * 2),))


def _cheaper(released: ReleasedProduct) -> ReleasedProduct:
    guarantee = replace(released.allotment.guarantee, epsilon=0.1)
    return replace(released, allotment=Allotment.of(guarantee))


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        (_doubled, "budget exceeded: toy, rho_units"),
        (_cheaper, "product must be released as toy with the allotment of the plan"),
        (lambda one: replace(one, name="load"), "product must be released as toy"),
        (lambda one: replace(one, runs=one.runs * 2), r"in one run per group of \[None\]"),
        (lambda one: one, None),
    ],
    ids=["spent twice", "another allotment", "another name", "two runs", "no fault"],
)
def test_a_product_cannot_spend_more_than_its_allotment(
    fault: Callable[[ReleasedProduct], ReleasedProduct], refusal: str | None, tmp_path: Path
) -> None:
    """What a product states is compared with the plan before anything is written."""
    product = Greedy(fault)
    register(product)
    try:
        weights = {**only("toy"), "toy": 1.0}
        plan = plan_release(REQUEST.replace(weights=weights, options={}), TimeGrid())
        out = tmp_path / "bundle"
        if refusal is None:
            release_bundle(some_profiles(), plan, out)
        else:
            with pytest.raises((InvalidParameterError, BudgetExceededError), match=refusal):
                release_bundle(some_profiles(), plan, out)
        assert out.exists() == (refusal is None)
    finally:
        unregister(product)


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
