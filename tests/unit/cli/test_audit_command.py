"""The command `audit`: what it prints, what it leaves, and when it raises the alarm."""

import json
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import some_profiles
from tests.statistical.harness import guarantee
from wattveil import cli
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.keys import write_key
from wattveil.cli import audit
from wattveil.dossier.audit_evidence import read_record
from wattveil.dossier.evidence import signature_text
from wattveil.lab.audit.epsilon_bounds import OneRunAudit
from wattveil.lab.audit.release_audit import AuditReport, AuditRow
from wattveil.privacy.guarantee import Tier
from wattveil.terminal import Console

WIDE = CliRunner(env={"COLUMNS": "250"})
SMALL = ["audit", "--runs", "4", "--canaries", "64", "--clusters", "2"]


def row(*, epsilon: float, tier: Tier) -> AuditRow:
    """Return an audit with this lower bound on a claim of 1."""
    claim = guarantee(epsilon=1.0, delta=1e-6, tier=tier)
    found = OneRunAudit(claim=claim, canaries=50, guesses=40, right=40, epsilon=epsilon)
    return AuditRow(release="load & more", method="one run", found=found)


def test_every_part_is_audited(tmp_path: Path) -> None:
    """One line a part and method, as a table, as JSON and as a private page."""
    page = tmp_path / "audit.html"
    labelled = [*SMALL, "--label-epsilon", "0.3", "--report", str(page), "--json"]
    result = WIDE.invoke(cli.app, labelled)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["private"], said["confidence"]) == (True, 0.95)
    rows = said["audits"]
    paired = ["clusters", "clusters + synthesis", "load", "clusters + labels", "whole release"]
    assert [row["release"] for row in rows if row["method"] == "paired"] == paired
    assert [row["release"] for row in rows if row["method"] == "one run"] == [
        "load",
        "labels",
        "synthesis",
    ]
    for row in rows:  # few releases cannot refute a large claim, and the verdict says so
        powerless = row["max_epsilon"] <= float(row["claim"]["epsilon"])
        assert row["verdict"] == ("inconclusive (no power)" if powerless else "not refuted")
        assert row["epsilon_lower_bound"] <= row["max_epsilon"]
        below_twice = row["max_epsilon"] < 2.0 * float(row["claim"]["epsilon"])
        assert row["weak"] == (below_twice and not powerless)
    assert {row["verdict"] for row in rows} == {"inconclusive (no power)", "not refuted"}
    assert all(row["epsilon_lower_bound"] <= float(row["claim"]["epsilon"]) for row in rows)
    text = page.read_text()
    assert "INTERNAL: exact figures" in text
    assert "labels, one run" in text
    assert "does not prove it" in text


def test_a_weak_audit_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """Not refuted, while even a perfect attack would have shown less than twice the claim."""
    strong, weak, powerless = (
        replace(one, found=replace(one.found, max_epsilon=largest))
        for one in [row(epsilon=0.5, tier=Tier.GLOBAL)]
        for largest in (2.0, 1.99, 1.0)
    )
    assert [one.is_weak for one in (strong, weak, powerless)] == [False, True, False]
    audit._show(Console(width=200), [strong, weak], 0.95)
    shown = capsys.readouterr().out
    assert shown.count("not refuted (weak)") == 1
    assert "less than twice the claimed epsilon" in shown


def test_own_profiles_in_groups(tmp_path: Path) -> None:
    """Beside one's own customers, with groups and a bound; printed as a table."""
    file = tmp_path / "profiles.parquet"
    some_profiles(40).write_parquet(file)
    groups = ["--by", "class", "--levels", "home,shop", "--clip-kw", "5"]
    result = WIDE.invoke(cli.app, [*SMALL, str(file), *groups])
    assert result.exit_code == 0, result.output
    for words in ("clusters + shares, paired", "shares, one run", "whole release", "Private"):
        assert words in result.output


def test_any_release_can_be_audited(tmp_path: Path) -> None:
    """Shapes of each group by itself, without load curves: what is left out has no line."""
    file = tmp_path / "profiles.parquet"
    some_profiles(40).write_parquet(file)
    groups = ["--by", "class", "--levels", "home, shop", "--clusters-by-group", "--normalise"]
    options = [str(file), *groups, "--share", "load=0", "--json"]
    result = WIDE.invoke(cli.app, [*SMALL, *options])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["audits"]
    assert [row["release"] for row in rows] == ["clusters", "whole release"]


def test_the_instance_tier_is_audited_by_its_centroids() -> None:
    """A list of labels names its customers; what is audited is the noise on the centroids."""
    result = WIDE.invoke(cli.app, [*SMALL, "--tier", "instance", "--json"])
    assert result.exit_code == 0, result.output
    assert [row["release"] for row in json.loads(result.stdout)["audits"]] == ["clusters"]


@pytest.mark.parametrize(
    ("epsilon", "tier", "code", "verdict"),
    [
        (1.5, Tier.GLOBAL, 1, "refuted"),
        (0.9, Tier.GLOBAL, 0, "not refuted"),
        (1.5, Tier.INSTANCE, 0, "no differential privacy"),
    ],
)
def test_the_alarm(
    epsilon: float, tier: Tier, code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 if and only if a guarantee of differential privacy is refuted."""
    monkeypatch.setattr(audit, "audit_release", lambda *_, **__: (row(epsilon=epsilon, tier=tier),))
    result = WIDE.invoke(cli.app, ["audit"])
    assert result.exit_code == code
    assert verdict in result.output
    assert "40 of 40 guesses right, 50 canaries" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--runs", "3"], "runs must be a whole number of at least 4"),
        (["--canaries", "8"], "canaries must be a whole number of at least 32"),
        (["--confidence", "1"], "confidence must be above 0 and below 1"),
        (["--tier", "both"], "--tier must be one of: global, instance; got both"),
        (["--share", "load"], "--share must be product=weight; got load"),
        (["--by", "zip", "--levels", "a,b"], "by must be an attribute of the profiles"),
    ],
)
def test_bad_options_are_explained(options: list[str], words: str) -> None:
    """Field, rule and value, without a traceback."""
    result = WIDE.invoke(cli.app, [*SMALL, *options])
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def test_a_record_is_dated_signed_and_marked(tmp_path: Path) -> None:
    """Bounds and attacks on own customers are internal; the dossier reads what was written."""
    file, key, out = (tmp_path / name for name in ("profiles.parquet", "utility.key", "audit.json"))
    some_profiles(60).write_parquet(file)
    write_key(key)
    options = [*SMALL, "--share", "clusters=0", "--record", str(out), "--key", str(key)]
    result = WIDE.invoke(cli.app, [*options, str(file), "--tester", "Jo"])
    assert result.exit_code == 0, result.output
    assert out.stat().st_mode & 0o777 == 0o600
    record = read_record(out)
    assert signature_text(record).startswith("signed by key")
    assert (record["visibility"], record["customers"]) == ("internal", "own")
    made = datetime.fromisoformat(record["made_at"])
    assert (date.fromisoformat(record["review_by"]) - made.date()).days == 365
    assert (record["tester"], record["request"]["epsilon"]) == ("Jo", "1.0")
    assert {one["release"] for one in record["audits"]} == {"load", "whole release"}
    results = {one["attack"]: one["result"] for one in record["attacks"]}
    assert results["synthetic values equal to a real reading"] == "0.0 %"
    error = results.popitem()[1]
    assert float(error.replace(",", "")) > 1.0
    assert WIDE.invoke(cli.app, [*options, str(file)]).exit_code == 2  # never overwritten
    printed = " ".join(result.output.split())
    assert f"record {out}" in printed
    assert "Audited: load at epsilon 1 and delta 1e-06" in printed


def test_choices_come_from_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    """The record is about that release: its choices, and its id. A choice beside it is refused."""
    write_key(tmp_path / "utility.key")
    found = AuditReport([row(epsilon=0.1, tier=Tier.GLOBAL)])
    monkeypatch.setattr(audit, "audit_release", lambda *_, **__: found)
    words = ["audit", "--bundle", str(whole), "--record", str(tmp_path / "a.json")]
    words += ["--key", str(tmp_path / "utility.key")]
    refused = WIDE.invoke(cli.app, [*words, "--clusters", "2"])
    assert refused.exit_code == 2
    assert "omitted with --bundle" in " ".join(refused.output.replace("│", " ").split())
    (tmp_path / "manifest.json").write_text("{}")
    refused = WIDE.invoke(cli.app, ["audit", "--bundle", str(tmp_path)])
    assert isinstance(refused.exception, SystemExit)
    assert "follows its schema" in " ".join(refused.output.replace("│", " ").split())
    result = WIDE.invoke(cli.app, words)
    assert result.exit_code == 0, result.output
    record, manifest = read_record(tmp_path / "a.json"), read_manifest(whole)
    assert record["release_id"] == manifest["release_id"]
    assert record["request"] == manifest["request"]


def test_a_record_of_simulated_homes_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's data: it may be shown to anyone. The audit itself is replaced, for speed."""
    write_key(tmp_path / "utility.key")
    found = AuditReport([row(epsilon=0.1, tier=Tier.GLOBAL)])
    monkeypatch.setattr(audit, "audit_release", lambda *_, **__: found)
    words = ["--record", str(tmp_path / "a.json"), "--key", str(tmp_path / "utility.key")]
    result = WIDE.invoke(cli.app, [*SMALL, *words])
    assert result.exit_code == 0, result.output
    record = read_record(tmp_path / "a.json")
    assert (record["visibility"], record["customers"]) == ("public", "simulated")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--record", "a.json"], "--key must be given with --record"),
        (["--key", "utility.key"], "--key must be omitted without --record"),
        (["--record", "a.json", "--replay"], "--record must be omitted with --replay"),
        (["--record", "a.json", "--tier", "instance"], "--record must be for the global tier"),
    ],
)
def test_records_that_cannot_be_made(options: list[str], says: str) -> None:
    """Refused before the audit, with option and rule."""
    result = WIDE.invoke(cli.app, [*SMALL, *options])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
