"""The commands of `wattveil series`."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.series_bundles import quarter
from wattveil import LoadSeries
from wattveil.cli import app, release, series
from wattveil.products.request import ReleaseRequest

BUDGET = ("--epsilon", "4", "--delta", "1e-6", "--periods", "9", "--first", "2026-Q1")
ZONE = ("--timezone", "Europe/London")
GROUPS = ("--by", "class", "--levels", "home,shop", "--counts", "car=yes")


def run(*arguments: object, code: int = 0) -> str:
    """Run a command; return what it prints."""
    result = CliRunner().invoke(app, [str(one) for one in ("series", *arguments)])
    assert result.exit_code == code, result.output
    return result.output


def run_json(*arguments: object) -> Any:  # noqa: ANN401 - whatever a command prints
    """Run a command with --json."""
    result = CliRunner().invoke(app, [str(one) for one in ("series", *arguments, "--json")])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a series and the profiles of two periods."""
    folder = tmp_path_factory.mktemp("commands")
    run("init", folder / "s", *BUDGET, *ZONE, *GROUPS)
    for number in range(2):
        quarter(number).write_parquet(folder / f"{number}.parquet")
    run("add", folder / "s", folder / "0.parquet", "--period", "2026-Q1", "--yes")
    return folder


def check_stated_clipping(series: Path, warning: str) -> None:
    """It states the released number of customers in the cell without an upper end."""
    lengths = pq.read_table(series / "periods" / "001" / "tables" / "first_lengths.parquet")
    far = max(lengths["customers"].to_pylist()[-1], 0.0)
    assert "bands do not cover their load" in warning
    assert f"an estimated {far:.0f} ± " in warning


def check_texts(series: Path, added: dict[str, Any]) -> None:
    """Clipping, and short texts in Python; a folder that exists is not overwritten."""
    check_stated_clipping(series, added["warnings"][-1])
    again = LoadSeries(series)
    spent = f"epsilon {added['accrued_epsilon']:.2g} of 4"
    assert repr(again) == f"LoadSeries('s': 2 of 9 periods released, {spent})"
    assert repr(again.result()) == (
        "SeriesResult(2026-Q1 to 2026-Q3, 2 groups, epsilon 4 in total)"
    )
    assert re.fullmatch(
        r"VerificationReport\(accepted: (\d+) of \1 checks passed(, \d+ not run)?\)",
        repr(again.verify()),
    )
    assert "already exists; a series is never overwritten" in run(
        "init", series, *BUDGET, *ZONE, *GROUPS, code=3
    )


def check_erasure(place: Path, series: Path) -> None:
    """Ids are counted, and excluded from later periods until they are stated to have returned."""
    (place / "ids.txt").write_text("household 1\n\n", "utf-8-sig")  # as editors may save it
    assert "1 id erased. Private receipt" in run("erase", series, place / "ids.txt")
    (place / "ids.txt").write_text("household 1\nhousehold 2\nnobody\n")
    assert "1 id erased; 1 already erased; 1 not found." in run("erase", series, place / "ids.txt")
    again = run_json("erase", series, place / "ids.txt")
    assert {name: again[name] for name in ("erased", "already_erased", "not_found")} == {
        "erased": 0,
        "already_erased": 2,
        "not_found": 1,
    }
    receipts = json.loads((series / "private/erasures.json").read_text())
    assert [len(one["erased"]) for one in receipts] == [1, 2, 0], "also one that was not found"
    assert "household" not in (series / "private/erasures.json").read_text()
    assert (series / "private/erasures.json").stat().st_mode & 0o777 == 0o600
    file = place / "1.parquet"
    told = run("add", series, file, "--period", "2026-Q4", "--yes")
    assert "erased customers who have not returned" in " ".join(told.split())
    assert "household" not in told
    (place / "back.txt").write_text("household 1\n")
    back = ("--returned", place / "back.txt", "--yes")
    added = run_json("add", series, file, "--period", "2027-Q1", *back)
    assert any("erased customers" in one for one in added["private_warnings"])
    (place / "back.txt").write_text("household 2\n")
    added = run_json("add", series, file, "--period", "2027-Q2", *back)
    assert added["private_warnings"] == []
    (place / "ids.txt").write_text("nobody\n")
    assert "0 ids erased; 1 not found." in run("erase", series, place / "ids.txt", code=1)


def test_a_series_from_beginning_to_end(place: Path) -> None:
    """Begin, plan, add, show, erase, verify, close."""
    series = place / "s"
    assert "smallest visible change" in run("plan", series, "--group-customers", 1000)
    assert run_json("plan", series)[0]["customers"] == 500
    added = run_json("add", series, place / "1.parquet", "--period", "2026-Q3", "--yes")
    assert added["period"] == "2026-Q3"
    assert 0 < added["accrued_epsilon"] < added["epsilon"] == 4
    assert 0 < added["rho_left"] < 1
    assert "do not state their days" in added["warnings"][0]
    check_texts(series, added)
    shown = run("show", series)
    assert "available after" in shown
    rows = {"2026-Q1": 2, "2026-Q2 (skipped)": 2, "2026-Q3": 2}  # of each group
    assert rows.items() <= {one: shown.count(f" {one} ") for one in rows}.items()
    assert "bands do not cover their load" in " ".join(shown.split())
    newest = json.loads((series / "periods" / "003" / "manifest.json").read_text())
    limits = " ".join(newest["known_limits"])
    report = (series / "periods" / "003" / "report.html").read_text()
    assert all("bands do not cover their load" in text for text in (limits, report))
    assert f"epsilon {float(newest['accrued']['epsilon']):.3g} of 4" in shown
    assert {*run_json("show", series)} == {"load", "load_duration", "customers", "trends"}
    check_erasure(place, series)
    assert "passed" in run("verify", series)
    report = run_json("verify", series / "periods")
    assert report["accepted"]
    assert [one["check"] for one in report["not_run"]] == ["closing statement", "the signature"]
    assert "no closing statement" in run("verify", series)
    single = CliRunner().invoke(app, ["verify", str(series / "periods" / "001")])
    assert single.exit_code == 0, single.output
    (series / "periods" / "001" / "report.html").write_text("other")
    run("verify", series, code=1)
    assert "Delete the private state" in run("close", series, "--reason", "the end", code=1)
    closed = run_json("close", series, "--reason", "the end", "--yes")
    assert closed == {
        "closed": "the end",
        "deleted": [str(series / "private"), str(series.with_name("s.secrets"))],
        "left": [],
    }
    assert "Closed:" in run("show", series)
    again = run("add", series, place / "1.parquet", "--period", "2026-Q4", "--yes", code=2)
    assert "must be open" in again


def test_mistakes_are_explained(tmp_path: Path) -> None:
    """Field, rule and value; nothing is created."""
    assert "--first" in run("init", tmp_path / "s", *BUDGET[:-1], "soon", code=2)
    assert not (tmp_path / "s").exists()
    assert "series init" in run("show", tmp_path, code=1)
    assert "a folder of bundles" in run("verify", tmp_path / "none", code=2)
    run("init", tmp_path / "groups", *BUDGET, *ZONE, *GROUPS)
    replace(quarter(0), attributes={"car": quarter(0).attributes["car"]}).write_parquet(
        tmp_path / "0.parquet"
    )
    added = run(
        "add", tmp_path / "groups", tmp_path / "0.parquet", "--period", "2026-Q1", "--yes", code=2
    )
    assert "PROFILES must be profiles that have the attribute class" in added
    quarter(0).selected([]).write_parquet(tmp_path / "none.parquet")
    empty = ("add", tmp_path / "groups", tmp_path / "none.parquet", "--period", "2026-Q1", "--yes")
    assert "PROFILES must be of at least one customer" in run(*empty, code=2)
    assert "got car" in added
    other = replace(quarter(0), rules={"readings": {"period": ["2025-07-01", "2025-10-01"]}})
    other.write_parquet(tmp_path / "0.parquet")
    words = ("add", tmp_path / "groups", tmp_path / "0.parquet", "--period", "2026-Q1", "--yes")
    assert "2025-07-01 to 2025-09-30" in " ".join(run(*words, code=2).split())
    assert not [*(tmp_path / "groups" / "periods").iterdir()]
    without = [*BUDGET[:2], *BUDGET[4:]]  # the default of a release
    run("init", tmp_path / "default", *without)
    assert LoadSeries(tmp_path / "default").request.delta == ReleaseRequest(epsilon=1.0).delta
    made = run_json("init", tmp_path / "s", *BUDGET, "--encrypt", "--secrets", tmp_path / "keys")
    assert made["folder"].endswith("s")
    assert (tmp_path / "keys" / "series.key").is_file()


def test_a_period_is_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a release is: asked for, and refused where nobody can answer; nothing is spent."""
    series, rows = tmp_path / "s", tmp_path / "0.parquet"
    run("init", series, *BUDGET, *ZONE)
    quarter(0).write_parquet(rows)
    words = ("add", series, rows, "--period", "2026-Q1")
    assert "--yes" in run(*words, code=2)
    monkeypatch.setattr(release, "_can_ask", lambda: True)
    asked = CliRunner().invoke(app, ["series", *map(str, words)], input="n\n")
    assert asked.exit_code == 1
    assert "Publish unsigned and spend the budget of period 2026-Q1" in asked.output
    assert not [*(series / "periods").iterdir()]
    taken = CliRunner().invoke(app, ["series", *map(str, words)], input="y\n")
    assert taken.exit_code == 0, taken.output
    assert len([*(series / "periods").iterdir()]) == 1
    words = (*words[:-1], "2026-Q4")
    asked = CliRunner().invoke(app, ["series", *map(str, words)], input="n\n")
    assert "Skip 2026-Q2, 2026-Q3 permanently and spend the budget of period" in asked.output
    assert "unsigned" not in asked.output  # decided by the first period
    assert len([*(series / "periods").iterdir()]) == 1


def test_what_cannot_be_undone_is_warned_of(tmp_path: Path) -> None:
    """With --yes, too: an unsigned first period, and skipped periods; not with a key."""
    rows, key = tmp_path / "0.parquet", tmp_path / "utility.key"
    quarter(0).write_parquet(rows)
    made = CliRunner().invoke(app, ["admin", "key", "--out", str(key)])
    assert made.exit_code == 0, made.output
    for name, words, expected in (
        ("unsigned", (), [True, True]),
        ("signed", ("--key", key), [False, True]),
    ):
        series = tmp_path / name
        run("init", series, *BUDGET, *ZONE)
        found = " ".join(
            run_json("add", series, rows, "--period", "2026-Q2", "--yes", *words)["warnings"]
        )
        texts = ("no dossier of the series can be signed", "This skips 2026-Q1 permanently.")
        assert [text in found for text in texts] == expected
        missing = "Not run: the signature" in " ".join(run("verify", series).split())
        assert missing == (name == "unsigned")
    signed = tmp_path / "signed"
    late = run("add", signed, rows, "--period", "2026-Q1", "--yes", "--key", key, code=2)
    assert "2026-Q1 was skipped and cannot be added" in " ".join(late.split())


def test_region_and_contact_are_stated(tmp_path: Path) -> None:
    """As those of a release: in manifest and report of every period; estimates are rounded."""
    quarter(0).write_parquet(tmp_path / "0.parquet")
    texts = ("--region", "North", "--contact", "data@town.example")
    begun = run("init", tmp_path / "s", *BUDGET, *ZONE, *texts, "--customers", 1234)
    assert "1,234, rounded to 1,000" in " ".join(begun.split())
    added = run_json("add", tmp_path / "s", tmp_path / "0.parquet", "--period", "2026-Q1", "--yes")
    manifest = json.loads((Path(added["bundle"]) / "manifest.json").read_text())
    assert (manifest["region"], manifest["contact"]) == ("North", "data@town.example")
    report = (Path(added["bundle"]) / "report.html").read_text()
    assert "Region: North · Contact: data@town.example" in report


def test_segments_are_priced_shown_and_found_anew(tmp_path: Path) -> None:
    """The price of both decisions and the periods of the plan are shown."""
    series = tmp_path / "s"
    run("init", series, *BUDGET, *ZONE, "--segments", 2, "--customers", 200)
    shown = run("plan", series)
    assert "find" in shown
    assert "by the plan: 2026-Q1, 2026-Q3." in shown
    for number, decision in enumerate([(), ("--recluster",)]):
        quarter(number).write_parquet(tmp_path / "q.parquet")
        label = f"2026-Q{number + 1}"
        shown = run("add", series, tmp_path / "q.parquet", "--period", label, "--yes", *decision)
        assert f"Segments, found in {label}" in shown
        assert ("recluster" in run("plan", series)) == (number == 0)  # the third is planned
    found = run_json("show", series)
    assert {row["found_in"] for row in found["segments"]} == {"2026-Q1", "2026-Q2"}
    assert len(found["segment_sizes"]) == 4
    assert "passed" in run("verify", series)


@pytest.mark.parametrize(
    ("customers", "error", "due"),
    [(100.0, 31.4, "100 ± 31"), (30.0, 31.0, "below 61, not distinguishable from 0")],
)
def test_a_number_whose_band_contains_0_is_not_stated(
    customers: float, error: float, due: str
) -> None:
    """A reader would take it for a number of customers."""
    assert series._number(customers, error) == due
