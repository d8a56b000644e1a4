"""Bias section of a manifest: every number a second time by hand, and what is not known."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.sample_bundles import broken
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.release_tables import read_bundle
from wattveil.bundle.statistical_bias import bias_record, population_intervals, population_std_kw
from wattveil.errors import InvalidParameterError
from wattveil.products.request import About
from wattveil.products.tables import Table

NAMES = ("groups", "load_shapes", "synthetic")


def tables_of(bundle: Path, *names: str) -> dict[str, Table]:
    """Return tables of a bundle."""
    return {
        name: Table(name=name, text="", columns=(), data=read_table(bundle, name)) for name in names
    }


def values(record: list[dict[str, str | None]], source: str) -> list[float | None]:
    """Return the numbers of one source; what is part of a standard error has none of its own."""
    found = [
        one["value"]
        for one in record
        if one["source"] == source and one["kind"] != "included in std_kw"
    ]
    return [None if one is None else float(one) for one in found]


def sampled(manifest: Manifest) -> Manifest:
    """Return the manifest of a random sample that is released without groups."""
    request = {**manifest["request"], "levels": []}
    return {**manifest, "selection": "random sample", "request": request}


@pytest.fixture
def manifest(whole: Path) -> Manifest:
    """The manifest of a bundle with every product."""
    return read_manifest(whole)


def test_numbers_by_hand(whole: Path, manifest: Manifest) -> None:
    """Bounds as released; errors as root mean squares; the spread of synthetic customers."""
    groups, shapes, synthetic = (read_table(whole, name).to_pandas() for name in NAMES)
    record = manifest["bias"]
    assert record == bias_record(manifest, tables_of(whole, *NAMES))
    kinds = {(one["source"], one["kind"]) for one in record}
    assert ("clipping", "upper bound") in kinds
    assert ("privacy noise", "standard error") in kinds
    clipping = values(record, "clipping")
    assert clipping[:2] == pytest.approx(list(groups["max_clipping_bias_kw"]), rel=1e-5)
    assert clipping[2] == 5.0  # the public bound of the clusters
    noise = [
        math.sqrt((shapes[shapes.group == name].std_kw ** 2).mean()) for name in groups["group"]
    ]
    assert values(record, "privacy noise") == pytest.approx(noise, rel=1e-5)
    assert values(record, "sampling") == [None, None]  # of groups, and of an unknown selection
    record = bias_record(sampled(manifest), tables_of(whole, *NAMES))
    spread = synthetic.groupby("slot").load_kw.std(ddof=1)
    sampling = [1.25 * math.sqrt((spread**2).mean() / count) for count in groups["customers"]]
    assert values(record, "sampling") == pytest.approx(sampling, rel=1e-5)
    assert values(record, "excluded customers") == [None]


def test_public_statements_change_the_sampling_error(whole: Path, manifest: Manifest) -> None:
    """None if all customers are in; smaller with a finite population; a share of all meters."""
    tables = tables_of(whole, *NAMES)
    manifest = sampled(manifest)
    plain = population_std_kw(manifest, tables)
    whole_population = population_std_kw({**manifest, "selection": "all customers"}, tables)
    finite = {**manifest, "all_meters": "1000"}
    assert plain is not None
    assert whole_population is not None
    assert not whole_population.any()
    everybody = bias_record({**manifest, "selection": "all customers"}, tables)
    bases = {one["basis"] for one in everybody if one["source"] == "sampling"}
    assert bases == {"0, because all customers were selected"}
    found = population_std_kw(finite, tables)
    assert found is not None
    count = tables["groups"].column("customers").sum()
    assert (found / plain) == pytest.approx(np.full(plain.shape, math.sqrt(1.0 - count / 1000.0)))
    (share,) = values(bias_record(finite, tables), "excluded customers")
    assert share == pytest.approx(count / 1000.0, rel=1e-5)


def test_what_is_not_released_is_not_known(whole: Path, manifest: Manifest) -> None:
    """Without synthetic customers there is no spread; without load, no error at all."""
    tables = tables_of(whole, "groups", "load_shapes")
    assert population_intervals(sampled(manifest), tables) is None
    synthetic = tables_of(whole, *NAMES)
    assert population_intervals({**sampled(manifest), "selection": "not stated"}, synthetic) is None
    by_group = {**sampled(manifest), "request": manifest["request"]}
    assert population_intervals(by_group, synthetic) is None
    record = bias_record({**manifest, "request": {**manifest["request"], "clip_kw": None}}, tables)
    assert values(record, "sampling") == [None, None]
    assert values(record, "clipping")[2] is None
    assert {one["source"] for one in bias_record(manifest, {})} == {
        "clipping",
        "excluded customers",
    }


def test_a_false_number_is_found(copy: Path) -> None:
    """A smaller bias than the tables give."""
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["bias"][0]["value"] = "0.001"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "bias and errors follow from the tables" in broken(copy)


def test_the_report_states_both_errors_apart(whole: Path) -> None:
    """A table with both, and how an interval for the population is made of them."""
    page = (whole / "report.html").read_text()
    assert "Bias and errors" in page
    assert "privacy noise" in page
    assert "sampling" in page


@pytest.mark.parametrize(
    "field",
    [{"all_meters": "many"}, {"all_meters": "0"}, {"selection": "some"}, {"doi": "doi:10.1/x"}],
)
def test_statements_that_are_refused(field: dict[str, str]) -> None:
    """With field and rule."""
    with pytest.raises(InvalidParameterError, match=next(iter(field))):
        About.parse(field)


def test_a_bundle_has_intervals_of_the_population(whole: Path, manifest: Manifest) -> None:
    """The ends as computed by hand; without them, the text names the one condition that fails."""
    bundle = read_bundle(whole)
    with pytest.raises(InvalidParameterError) as caught:
        bundle.population_intervals()
    assert str(caught.value) == (
        "the sampling error is not known, because this release does not state how customers were"
        " selected (--selection)"
    )
    sampled = {**manifest, "selection": "random sample"}
    vars(bundle)["manifest"] = sampled
    with pytest.raises(InvalidParameterError, match="because this release is by group"):
        bundle.population_intervals()
    products = [one for one in manifest["products"] if one["name"] != "synthesis"]
    request = {**manifest["request"], "levels": []}
    vars(bundle)["manifest"] = {**sampled, "products": products, "request": request}
    with pytest.raises(InvalidParameterError, match="and this release has none"):
        bundle.population_intervals()
    products = [one for one in manifest["products"] if one["name"] != "load"]
    vars(bundle)["manifest"] = {**sampled, "products": products}
    with pytest.raises(InvalidParameterError, match="this release has no mean load"):
        bundle.population_intervals()
    vars(bundle)["manifest"] = {**manifest, "selection": "all customers"}
    found = bundle.population_intervals().to_pandas()
    shapes = read_table(whole, "load_shapes").to_pandas()
    assert found["low_kw"].tolist() == pytest.approx(shapes.load_kw - 1.96 * shapes.std_kw)
    assert found["high_kw"].tolist() == pytest.approx(shapes.load_kw + 1.96 * shapes.std_kw)


def test_the_mean_load_of_all_customers(whole: Path, manifest: Manifest) -> None:
    """The groups weighted by their released sizes; the mean has the mean of the errors."""
    bundle = read_bundle(whole)
    found = bundle.mean_load()
    shapes = bundle.to_pandas("load_shapes")["load_kw"].unstack("group")
    sizes = bundle.to_pandas("groups")["customers"]
    due = (shapes * sizes / sizes.sum()).sum(axis=1)
    slots = found.to_pandas()
    assert slots["load_kw"].tolist() == pytest.approx(due.tolist())
    assert slots["high_kw"].tolist() == pytest.approx(slots["load_kw"] + 1.96 * slots["std_kw"])
    (mean,) = found.to_arrow("mean").to_pylist()
    assert mean["load_kw"] == pytest.approx(due.mean())
    assert mean["std_kw"] == pytest.approx(slots["std_kw"].mean())
    assert mean["customers"] == pytest.approx(sizes.sum())
    assert f"{mean['load_kw']:.2f} ± {1.96 * mean['std_kw']:.2f} kW" in repr(found)
    assert (whole / "report.html").read_text().count(f"{mean['load_kw']:.2f} ± ")
    products = [one for one in manifest["products"] if one["name"] != "load"]
    vars(bundle)["manifest"] = {**manifest, "products": products}
    with pytest.raises(InvalidParameterError, match="made without the product load"):
        bundle.mean_load()
