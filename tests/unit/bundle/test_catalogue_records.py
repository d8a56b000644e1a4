"""Records for catalogues: each follows its format, and states what the manifest states."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.catalogue_records import RECORDS, catalogue_records
from wattveil.bundle.manifest import Manifest
from wattveil.cli import app
from wattveil.release.weak_guarantees import NOT_PRIVATE

URL = "https://data.example/releases/1"
STATED = {"doi": "10.1234/abc", "licence": "CC-BY-4.0", "curator": "Town", "all_meters": "6000"}


@pytest.fixture
def manifest(whole: Path) -> Manifest:
    """A manifest with DOI and licence."""
    found = read_manifest(whole)
    covered = [
        {**one, "value": "0.5"} if one["source"] == "excluded customers" else one
        for one in found["bias"]
    ]
    return {**found, **STATED, "bias": covered}


def test_croissant_describes_every_file_and_column(manifest: Manifest, whole: Path) -> None:
    """Hashes of the manifest; fields that name columns of existing files; responsible-AI fields.

    `mlcroissant validate` accepts these records: docs/guides/data-team.md.
    """
    record = json.loads(RECORDS["croissant.json"](manifest, URL))
    assert "http://mlcommons.org/croissant/1.1" in record["conformsTo"]
    files = {one["@id"]: one for one in record["distribution"]}
    for one in manifest["payload"]:
        assert files[one["path"]]["sha256"] == one["sha256"]
        assert files[one["path"]]["contentUrl"] == f"{URL}/{one['path']}"
    for records in record["recordSet"]:
        head = (whole / f"tables/{records['name']}.csv").read_text().split("\n", 1)[0]
        columns = [one["source"]["extract"]["column"] for one in records["field"]]
        assert columns == [name.strip('"') for name in head.split(",")]
        assert {one["source"]["fileObject"]["@id"] for one in records["field"]} <= set(files)
    prefixed = {name for name in record if name.startswith("rai:")}
    assert {"rai:dataBiases", "rai:dataLimitations", "rai:personalSensitiveInformation"} <= prefixed
    terms = {name for name in record if not name.startswith(("@", "rai:"))}
    assert {"recordSet", "citeAs", "isLiveDataset"} <= terms & set(record["@context"])
    assert "50% of all meters" in record["description"]
    assert "https://doi.org/10.1234/abc" in record["identifier"]


def test_dcat_has_what_the_profile_requires(manifest: Manifest) -> None:
    """Title and description are mandatory, and an address of each distribution."""
    record = json.loads(RECORDS["dcat.jsonld"](manifest, URL))
    assert record["@type"] == "dcat:Dataset"
    assert record["dct:title"] == manifest["title"]
    assert manifest["guarantee_text"] in record["dct:description"]
    assert len(record["dcat:distribution"]) == len(manifest["payload"])
    assert all("dcat:accessURL" in one for one in record["dcat:distribution"])
    assert record["dcat:theme"]["@id"].endswith("/ENER")


def test_the_dataset_card_opens_with_its_header(manifest: Manifest) -> None:
    """YAML between lines of dashes: licence and one configuration per table; then the card."""
    text = RECORDS["README.md"](manifest, URL)
    _, header, body = text.split("---\n", 2)
    stated = yaml.safe_load(header)
    assert stated["license"] == "cc-by-4.0"
    paths = {one["path"] for one in manifest["payload"]}
    assert {one["data_files"] for one in stated["configs"]} <= paths
    assert manifest["guarantee_text"] in body


def test_the_citation_file(manifest: Manifest, whole: Path) -> None:
    """Fields that the format requires; DOI and licence where they are stated."""
    stated = yaml.safe_load(RECORDS["CITATION.cff"](manifest, URL))
    assert {"cff-version", "message", "title", "authors"} <= set(stated)
    assert (stated["doi"], stated["license"]) == ("10.1234/abc", "CC-BY-4.0")
    plain = yaml.safe_load(RECORDS["CITATION.cff"](read_manifest(whole), URL))
    assert not {"doi", "license"} & set(plain)
    assert "license" not in RECORDS["README.md"](read_manifest(whole), URL).split("---\n")[1]


def test_the_address_of_a_licence(manifest: Manifest) -> None:
    """Each format has a field for an address; an identifier stands elsewhere."""
    linked = {**manifest, "licence": "https://town.example/terms"}
    stated = yaml.safe_load(RECORDS["CITATION.cff"](linked, URL))
    assert (stated["license-url"], "license" in stated) == (linked["licence"], False)
    card = yaml.safe_load(RECORDS["README.md"](linked, URL).split("---\n")[1])
    assert (card["license"], card["license_link"]) == ("other", linked["licence"])
    dcat = json.loads(RECORDS["dcat.jsonld"](linked, URL))
    assert dcat["dcat:distribution"][0]["dct:license"] == {"@id": linked["licence"]}


def test_the_registry_lists_the_global_tier_alone(manifest: Manifest) -> None:
    """No record for the instance tier; the others are written."""
    assert "registry.yaml" in catalogue_records(manifest, URL)
    assert set(catalogue_records({**manifest, "variant": "instance"}, URL)) == set(RECORDS)


def test_only_the_global_tier_is_found_as_differential_privacy(manifest: Manifest) -> None:
    """The keyword is in three records of the global tier, and in none of another guarantee."""
    other = {**manifest, "variant": "instance", "guarantee_text": "Another guarantee."}
    for name in ("croissant.json", "dcat.jsonld", "README.md"):
        assert "differential privacy" in RECORDS[name](manifest, URL)
    for text in catalogue_records(other, URL).values():
        assert "differential privacy" not in text.replace(NOT_PRIVATE, "")


@pytest.mark.parametrize(
    ("field", "value"),
    [("guarantee", {"epsilon": "0.1", "delta": "1e-06"}), ("implementation", {"test_mode": True})],
)
def test_records_of_a_bundle_that_fails_a_check_are_refused(
    copy: Path, tmp_path: Path, field: str, value: dict[str, object]
) -> None:
    """A smaller epsilon, or noise of a test source: nothing is written."""
    path = copy / "manifest.json"
    stated = json.loads(path.read_text())
    stated[field].update(value)
    path.write_text(json.dumps(stated))
    out = tmp_path / "metadata"
    result = CliRunner().invoke(app, ["metadata", str(copy), "--url", URL, "--out", str(out)])
    assert result.exit_code == 1
    assert "wattveil verify" in result.output
    assert not out.exists()


def test_the_command(whole: Path, tmp_path: Path) -> None:
    """Five files in a new folder; bad addresses and folders are refused."""
    out = tmp_path / "metadata"
    words = ["metadata", str(whole), "--url", f"{URL}/", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    assert sorted(files) == sorted(one.name for one in out.iterdir())
    assert f'"{URL}"' in (out / "croissant.json").read_text()
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    wrong = CliRunner().invoke(app, [*words[:3], "ftp://x", "--out", str(tmp_path / "new")])
    assert "--url must be an address" in wrong.output
    shown = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "other")])
    assert "CITATION.cff" in shown.output
