"""Dossier of a series: one guarantee for all periods, answered from the whole chain."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.series_bundles import quarter, some_series
from tests.unit.dossier.conftest import Files
from wattveil.bundle.keys import read_key, sign, write_key
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.series_bundle import read_chain
from wattveil.bundle.series_verify import CLOSED, closing_statement
from wattveil.cli import app
from wattveil.dossier.clauses import standard_names
from wattveil.dossier.dossier_document import Dossier, make_dossier
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidFileError, InvalidParameterError

OF_SERIES = "Every series"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> LoadSeries:
    """Return a series of three quarters, one of them skipped, all signed."""
    folder = tmp_path_factory.mktemp("signed")
    write_key(folder / "utility.key")
    made = some_series(folder)
    for place in (0, 2):
        label = made.request.label(place)
        made.add(quarter(place), period=label, key=read_key(folder / "utility.key"))
    return made


def dossier_of(folder: Path, standard: str = "ico") -> Dossier:
    """Return the dossier of the periods in a folder."""
    return make_dossier(Evidence.read(folder), standard, answers={})


def text_of(made: Dossier, name: str) -> str:
    """Return all answers of a clause."""
    (clause,) = (one for one in made.clauses if one.clause.name == name)
    assert clause.is_filled
    return " ".join(answer.text for answer in clause.answers)


@pytest.mark.parametrize("standard", standard_names())
def test_every_standard_has_the_clauses_of_a_series(series: LoadSeries, standard: str) -> None:
    """Price, periods, observers, erasure and bands; none of them is left blank."""
    made = dossier_of(series.folder, standard)
    asked = [one for one in made.clauses if one.clause.place == OF_SERIES]
    assert len(asked) == 5
    assert all(one.is_filled for one in asked)
    ids = text_of(made, "Real customer ids and labels")
    assert ids.startswith("Real ids: no, global tier.")
    assert "all 9 periods" in ids
    assert made.to_json()["real_ids"] is False
    assert not made.has_conflicts
    warned = [one.text for one in made.conflicts if one.is_warning]
    assert any("days of their period: 2026-Q1; 2026-Q3." in text for text in warned)
    gaps = {gap for one in made.clauses for answer in one.answers for gap in answer.gaps}
    refused = ("give --ledger", "give --audit")
    assert not any(one in gap.remedy for gap in gaps for one in refused)


def test_a_release_has_no_clauses_of_a_series(counted: Files) -> None:
    """Neither their answers nor their questions."""
    made = counted.dossier("ico")
    assert not any(one.clause.place == OF_SERIES for one in made.clauses)


def test_values_are_those_of_the_chain(series: LoadSeries) -> None:
    """Each is computed a second time from the manifests and the tables."""
    made = dossier_of(series.folder)
    manifests = [json.loads((one / "manifest.json").read_text()) for one in series.bundles]
    price = text_of(made, "Total privacy loss")
    assert "Epsilon 4.0 at delta 1e-06" in price
    accrued = manifests[-1]["accrued"]
    share = 100.0 * int(accrued["rho_units"]) / int(accrued["of_rho_units"])
    assert f"{share:.1f} %" in price or f"{share:.0f} %" in price
    rows = next(
        block.rows
        for one in made.clauses
        if one.clause.name == "Periods"
        for answer in one.answers
        for block in answer.blocks
        if block.rows
    )
    assert [row["period"] for row in rows] == ["2026-Q1", "2026-Q3"]
    for row, manifest in zip(rows, manifests, strict=True):
        exact = float(manifest["accrued"]["epsilon"])
        assert exact <= float(row["epsilon accrued"]) <= 1.001 * exact
    assert "2026-Q2" in text_of(made, "Periods")
    observer = text_of(made, "What a reader of all periods learns")
    assert "at most 54.6 " in observer  # e^4 = 54.598..., rounded up
    result = series.result()
    bands = text_of(made, "Bands")
    widest = 1.959964 * np.median(result.std_kw[0, -1])
    shown = float(bands.partition("± ")[2].partition(",")[0])
    assert widest <= shown <= 1.01 * widest


def test_a_changed_period_is_a_conflict(series: LoadSeries, tmp_path: Path) -> None:
    """The whole chain is verified, not only the last period."""
    copy = shutil.copytree(series.folder / "periods", tmp_path / "periods")
    first = min(copy.iterdir()) / "tables" / "load.csv"
    first.write_text(first.read_text().replace("home", "work", 1))
    made = dossier_of(tmp_path)
    assert made.has_conflicts
    assert any("Verification failed" in one.text for one in made.conflicts)


def test_what_the_chain_does_not_prove_is_stated(series: LoadSeries, tmp_path: Path) -> None:
    """Without the closing statement of all periods, later ones may exist; periods may be lost."""
    open_ended = text_of(dossier_of(series.folder), "Periods")
    assert "no closing statement" in open_ended
    copy = shutil.copytree(series.folder / "periods", tmp_path / "periods")
    record = closing_statement(
        series=series.series_id,
        reason="restored",
        manifests=read_chain(series.bundles)[0][:1],
        is_complete=False,
    )
    record["signature"] = sign(record, read_key(series.folder.parent / "utility.key"))
    (tmp_path / CLOSED).write_text(json.dumps(record))
    assert "has lost records" in text_of(dossier_of(tmp_path), "Periods")
    shutil.rmtree(min(copy.iterdir()))
    with pytest.raises(InvalidFileError, match="from the first one on"):
        Evidence.read(tmp_path)


def test_an_unsigned_series_is_a_conflict(tmp_path: Path) -> None:
    """As an unsigned release is; a delta that is too large, too."""
    made = dossier_of(some_series(tmp_path, 0, delta=0.01).folder)
    texts = [one.text for one in made.conflicts if not one.is_warning]
    assert any("not signed" in text for text in texts)
    assert any("Delta is too large" in text for text in texts)


def test_one_period_and_files_about_releases_are_refused(
    series: LoadSeries, tmp_path: Path
) -> None:
    """One guarantee covers all periods, and audits and ledgers name releases."""
    with pytest.raises(InvalidFileError, match="folder with the bundles of all periods"):
        Evidence.read(series.bundles[0])
    other = tmp_path / "bundles" / "one"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text("{}")
    with pytest.raises(InvalidFileError, match="a folder of `wattveil release`"):
        Evidence.read(other.parent)
    with pytest.raises(InvalidParameterError, match=r"ledger.*omitted for a series"):
        Evidence.read(series.folder, ledger=tmp_path / "ledger.jsonl")
    with pytest.raises(InvalidParameterError, match=r"audit.*omitted for a series"):
        Evidence.read(series.folder, audit=tmp_path / "audit.json")


def test_the_command_writes_the_dossier_of_a_series(series: LoadSeries, tmp_path: Path) -> None:
    """From the folder of the series, with the key that signed it."""
    key = series.folder.parent / "utility.key.pub"
    out = tmp_path / "dossier"
    typed = ["dossier", str(series.folder), "--standard", "ofgem", "--key", str(key)]
    done = CliRunner().invoke(app, [*typed, "--out", str(out)])
    assert done.exit_code == 0, done.output
    page = (out / "dossier.html").read_text()
    assert "Series, up to 2026-Q3" in page
    assert "What a reader of all periods learns" in page
