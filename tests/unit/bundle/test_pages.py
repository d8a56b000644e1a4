"""What a reader sees: the report, the card, the record for the registry."""

import re
from html import unescape
from pathlib import Path

import pytest
import yaml
from pyarrow import compute

from tests.sample_bundles import LEVELS
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.card import card_text
from wattveil.bundle.deployment_registry import registry_record
from wattveil.bundle.report import report_page
from wattveil.errors import InvalidParameterError
from wattveil.products.tables import Table


def tables_of(bundle: Path, *names: str) -> dict[str, Table]:
    """Return tables of a bundle."""
    return {
        name: Table(name=name, text="", columns=(), data=read_table(bundle, name)) for name in names
    }


def test_the_report_shows_every_part(whole: Path) -> None:
    """One section per product; the privacy statement; no external resources."""
    page = (whole / "report.html").read_text(encoding="utf-8")
    statement = read_manifest(whole)
    for title in ("Privacy guarantee", "Customer segments", "Synthetic customers", "Load"):
        assert f"<h2>{title}</h2>" in page
    for title in ("Segments by group", "Privacy budget allocation", "Scope and limitations"):
        assert f"<h2>{title}</h2>" in page
    assert statement["guarantee_text"] in unescape(page)
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=\"(?!data:)", page)
    assert "default-src 'none'" in page
    assert page.count("data-figure=") == 3 + 2 + 3 + 2 + 1 + 1


def test_a_part_that_is_not_there_has_no_section(whole: Path) -> None:
    """Without its tables, a section is left out, and the rest stands."""
    statement = read_manifest(whole)
    bare = report_page(statement, {})
    assert "Customer segments" not in bare
    assert "<h2>Load</h2>" not in bare
    assert "Privacy budget allocation" in bare
    assert "products add up to more" in bare
    one = {**statement, "products": [statement["products"][0], statement["products"][-1]]}
    assert "products add up to more" not in report_page(one, {})
    alone = report_page(statement, tables_of(whole, "centroids"))
    assert "Customer segments" in alone
    assert "Customers per cluster" not in alone


def test_a_cluster_without_synthetic_customers_is_marked(whole: Path) -> None:
    """A lonely curve beside fans would look like a fault."""
    tables = tables_of(whole, "centroids", "synthetic")
    clusters = tables["synthetic"].data["cluster"]
    kept = clusters[0].as_py()  # one that was drawn, whatever the noise
    few = tables["synthetic"].data.filter(compute.equal(clusters, kept))
    tables["synthetic"] = Table(name="synthetic", text="", columns=(), data=few)
    page = report_page(read_manifest(whole), tables)
    assert page.count(f"Cluster {kept} · too small for any customer") == 0
    assert page.count("too small for any customer</figcaption>") == 2


def test_a_publisher_without_a_name_is_cited_as_such(whole: Path) -> None:
    """In the same words on card and page."""
    statement = read_manifest(whole)
    cite = f"Publisher not stated ({statement['published_at'][:4]}). Load profiles"
    assert cite in card_text(statement)
    assert cite in report_page(statement, {})
    assert "> Us (" in card_text({**statement, "curator": "Us"})


def test_words_of_the_curator_stay_words(whole: Path) -> None:
    """A title is no markup."""
    statement = read_manifest(whole)
    statement["title"] = "<script>alert(1)</script>"
    statement["curator"] = "A & B <b>"
    page = report_page(statement, {})
    assert "<script>alert" not in page
    assert "A &amp; B &lt;b&gt;" in page


def test_the_card_has_all_sections(whole: Path) -> None:
    """Guarantee, tables with units, what is not protected, how to cite."""
    statement = read_manifest(whole)
    card = (whole / "CARD.md").read_text(encoding="utf-8")
    assert card == card_text(statement)
    assert statement["guarantee_text"] in card
    for part in statement["products"]:
        for table in part["tables"]:
            assert f"**{table['name']}**" in card
    assert "`load_kw` (mean load, kW)" in card
    assert "## What is not protected" in card
    assert statement["release_id"] in card


def test_the_record_for_the_registry_is_complete(whole: Path) -> None:
    """The fields that the registry requires, with the numbers of the statement."""
    record = yaml.safe_load(registry_record(read_manifest(whole)))
    assert set(record) == {"status", "registry_authors", "tier", "deployment"}
    deployment = record["deployment"]
    required = {"name", "data_curator", "description", "intended_use", "data_product_type"}
    required |= {"data_product_region", "publication_date", "dp_flavor", "privacy_loss", "model"}
    required |= {"accounting", "implementation"}
    assert required <= set(deployment)
    assert deployment["dp_flavor"]["name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 4.0, "delta": 1e-6}
    assert set(deployment["accounting"]) == {"post_processing", "composition"}
    assert deployment["model"]["model_name"] == "Central"
    with pytest.raises(InvalidParameterError, match="global tier"):
        registry_record({**read_manifest(whole), "variant": "instance"})


def test_groups_are_shown_by_name(whole: Path) -> None:
    """Each group is in the pictures of load and shares."""
    page = unescape((whole / "report.html").read_text(encoding="utf-8"))
    assert all(f'"name":"{level}"' in page for level in LEVELS)
