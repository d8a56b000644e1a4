"""The record for the registry of deployments follows the schema that the registry publishes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.check_registry_schema import PINNED, main, record_problems
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.cumulative import Cumulative
from wattveil.bundle.deployment_registry import SCHEMA_COMMIT, registry_record
from wattveil.bundle.manifest import Manifest
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import RHO_UNITS, Composition

SCHEMA = PINNED.read_text(encoding="utf-8")
COUNTED = Cumulative(
    tier="global",
    delta=1e-6,
    spent=Composition(rho_units=RHO_UNITS // 10),
    caps=Composition(rho_units=RHO_UNITS // 2),
    releases=7,
    ledger_seq=12,
    chain_head="a" * 64,
    other_tier_open=False,
)


@pytest.fixture
def manifest(whole: Path) -> Manifest:
    """A manifest with every product, made without a ledger."""
    return read_manifest(whole)


def record_of(manifest: Manifest) -> dict[str, Any]:
    """Return the record as values, after the checks of the registry."""
    text = registry_record(manifest)
    assert record_problems(text, SCHEMA) == []
    record: dict[str, Any] = yaml.safe_load(text)
    return record


def test_the_record_follows_the_schema_of_the_registry(manifest: Manifest) -> None:
    """Every section, with the numbers of the manifest; the slug as the registry derives it."""
    title = "Load: Ærø & Co_2"
    record = record_of({**manifest, "title": title, "curator": "A/B Net"})
    assert record["url_slug"] == f"load-ærø-co-2-a-b-net-{manifest['published_at'][:4]}"
    deployment = record["deployment"]
    sections = yaml.safe_load(SCHEMA)["properties"]["deployment"]["properties"]
    assert set(deployment) == set(sections)
    assert deployment["basic"]["data_curators"] == ["A/B Net"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 4.0, "delta": 1e-6}
    assert deployment["deployment_model"]["release_type"] == "One release"
    assert deployment["deployment_model"]["access_type"] == "Non-interactive"


def test_with_a_ledger_the_record_states_all_releases(manifest: Manifest) -> None:
    """Epsilon is that of the cap, which holds for the sum; what is spent so far is stated."""
    counted = {**manifest, "cumulative": COUNTED.to_json()}
    deployment = record_of(counted)["deployment"]
    loss, model = deployment["privacy_loss"], deployment["deployment_model"]
    assert loss["privacy_parameters"]["epsilon"] == pytest.approx(COUNTED.caps.epsilon(1e-6))
    assert f"{COUNTED.spent.epsilon(1e-6):.4g}" in loss["privacy_parameters_details"]
    assert "including this one: 7." in model["release_type_details"]
    assert (model["release_type"], model["access_type"]) == ("Many releases", "Interactive")


@pytest.mark.parametrize(
    "field", [{"other_releases_on_same_people": "a release of 2024"}, {"supersedes": "abc"}]
)
def test_stated_releases_make_many(manifest: Manifest, field: dict[str, str]) -> None:
    """A release that names another one is not the only one, also without a ledger."""
    model = record_of({**manifest, **field})["deployment"]["deployment_model"]
    assert model["release_type"] == "Many releases"
    assert next(iter(field.values())) in model["release_type_details"]


def test_the_instance_tier_is_refused(manifest: Manifest) -> None:
    """The registry lists differential privacy."""
    with pytest.raises(InvalidParameterError, match="global tier"):
        registry_record({**manifest, "variant": "instance"})


def test_a_newer_schema_is_checked(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script accepts the record with the pinned schema, and names a field that was renamed."""
    record, newer = tmp_path / "record.yaml", tmp_path / "newer.yaml"
    record.write_text(registry_record(manifest), encoding="utf-8")
    newer.write_text(SCHEMA.replace("variant_name:", "name_of_variant:"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["check", str(record)])
    assert main() == 0
    monkeypatch.setattr(sys, "argv", ["check", str(record), "--schema", str(newer)])
    assert main() == 1
    old = "status: Draft\nurl_slug: a\nfolded: >\n  text\n"
    problems = record_problems(old, SCHEMA)
    assert {"url_slug: not in the first line", "line 3: folded text"} <= set(problems)


def test_the_pinned_schema_is_the_one_that_is_named() -> None:
    """Code and provenance of the file name the same commit."""
    assert SCHEMA_COMMIT in PINNED.with_name("PROVENANCE.md").read_text(encoding="utf-8")
