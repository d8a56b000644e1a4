"""Series on disk: bundles that chain, verification, results, refusals, closing."""

import errno
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.series_bundles import (
    CHOICES,
    quarter,
    share_reports,
    some_series,
    with_further_draw,
    without_eta,
)
from wattveil.bundle import keys, published_series, series_erasure
from wattveil.bundle.keys import sign
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.release_tables import read_bundle
from wattveil.bundle.series_bundle import (
    build_manifest,
    bundle_files,
    manifest_sha256,
    read_chain,
    read_manifest,
    write_period,
)
from wattveil.bundle.series_request import Calendar, SeriesRequest
from wattveil.bundle.series_verify import CLOSED, verify_chain, verify_period
from wattveil.engines.series_folder import SeriesFolder
from wattveil.errors import (
    ErasedCustomersWarning,
    InvalidFileError,
    InvalidParameterError,
    SeriesStateError,
    UnstatedDaysWarning,
)
from wattveil.privacy.pseudonyms import customer_names
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.release import load_series
from wattveil.release.load_series import LoadPeriod


@pytest.fixture(scope="module", autouse=True)
def _shared_reports() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_reports(patch)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LoadSeries:
    """Return a series of eight released quarters, one of nine skipped."""
    return some_series(tmp_path_factory.mktemp("made"), 0, 1, 2, 4, 5, 6, 7, 8)


@pytest.fixture
def copy(made: LoadSeries, tmp_path: Path) -> list[Path]:
    """Return copies of the first three bundles, to be changed."""
    return [shutil.copytree(bundle, tmp_path / bundle.name) for bundle in made.bundles[:3]]


def test_a_whole_chain_is_accepted(made: LoadSeries) -> None:
    """All periods, and each by itself."""
    report = made.verify()
    assert report.accepted, [one for one in report.findings if not one.holds]
    assert len(made.bundles) == 8
    assert verify_period(made.bundles[2]).accepted
    assert made.closed is None


def test_manifests_form_a_chain(made: LoadSeries) -> None:
    """Each names series, period, predecessor, accrued cost, promised total and strategies."""
    manifests = [read_manifest(bundle) for bundle in made.bundles]
    previous = made.request.sha256
    spent = 0
    for manifest in manifests:
        assert manifest["previous_sha256"] == previous
        assert manifest["series"] == made.series_id
        assert manifest["periods"] == 9
        assert spent < int(manifest["accrued"]["rho_units"])
        assert manifest["strategies"] == manifests[0]["strategies"]
        assert float(manifest["accrued"]["epsilon"]) <= 4.0
        spent = int(manifest["accrued"]["rho_units"])
        previous = manifest_sha256(manifest)
    assert spent == int(manifests[-1]["accrued"]["of_rho_units"])
    assert manifests[-1]["skipped"] == ["2026-Q4"]


def test_results_are_near_the_customers(made: LoadSeries) -> None:
    """Levels, numbers and trends of a series with much budget for its few customers."""
    result = made.result()
    assert result.load_kw.shape == (2, 9, 24)
    load = result.to_arrow("load").to_pylist()
    assert {row["state"] for row in load} == {"new", "revised", "skipped"}
    homes = quarter(8)
    own = homes.load_kw[np.array(homes.attributes["class"]) == "home"]
    error = abs(result.load_kw[0, -1].mean() - own.mean())
    assert error < 5.0 * float(np.sqrt((result.std_kw[0, -1] ** 2).mean()))
    assert result.has_trend
    assert len(result.to_arrow("trends")) == 4
    assert {row["counted"] for row in result.to_arrow("customers").to_pylist()} == {
        "customers",
        "car=yes",
    }
    assert "differentially private" in result._repr_html_()


def test_duration_curves_are_sorted_days_of_whole_groups(made: LoadSeries) -> None:
    """Recomputed from the tables of load and customers; the last bundle contains them."""
    result = made.result()
    numbers = {
        (row["group"], row["period"]): (row["customers"], row["customers_std"])
        for row in result.to_arrow("customers").to_pylist()
        if row["counted"] == "customers"
    }
    days: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in result.to_arrow("load").to_pylist():
        own = days.setdefault((row["group"], row["period"]), [])
        own.append((row["load_kw"], row["std_kw"]))
    found = pq.read_table(made.bundles[-1] / "tables" / "load_duration.parquet").to_pylist()
    assert len(found) == 2 * 9 * 24
    for row in found:
        place = (row["group"], row["period"])
        load, std = sorted(days[place], reverse=True)[row["rank"]]
        number, number_std = numbers[place]
        assert row["load_kw"] == pytest.approx(number * load)
        assert row["std_kw"] ** 2 == pytest.approx((number * std) ** 2 + (load * number_std) ** 2)
    assert "Load duration" in (made.bundles[-1] / "report.html").read_text()


def test_reports_are_standalone_pages(made: LoadSeries) -> None:
    """Small multiples, trends after two years, skipped periods; no script."""
    first, last = (bundle / "report.html" for bundle in (made.bundles[0], made.bundles[-1]))
    assert "No trend is stated before two years" in first.read_text()
    text = last.read_text()
    assert "smallest change that could be seen" in text
    assert "Skipped periods:" in text
    assert '<circle class="series-0" fill="none" stroke="currentColor"' in text  # hollow: skipped
    assert '<circle class="series-0" fill="none"' not in first.read_text()
    assert "<script" not in text
    assert "household" not in text


def changed_manifest(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest on disk."""
    path = bundle / "manifest.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def changed_table(bundle: Path, name: str, column: str) -> None:
    """Change one number of a table, and the hash that the manifest has of it."""
    path = bundle / "tables" / f"{name}.parquet"
    table = pq.read_table(path)
    values = np.array(table[column].to_numpy())
    values[0] += 1.0
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array(values)), path)
    body = path.read_bytes()

    def change(record: dict[str, Any]) -> None:
        for entry in record["payload"]:
            if entry["path"] == f"tables/{name}.parquet":
                entry["sha256"] = hashlib.sha256(body).hexdigest()

    changed_manifest(bundle, change)


def halve_noise(record: dict[str, Any]) -> None:
    """State half the noise."""
    for one in record["mechanisms"]:
        one["noise_scale_steps"] = repr(float(one["noise_scale_steps"]) / 2)


def rehash(
    own: list[Path],
    change: Callable[[int, dict[str, Any]], object] = lambda *_: None,
    *,
    signers: Sequence[Any] = (),
) -> None:
    """Change manifests, and adjust their hashes of files and of each other; sign them anew."""
    previous = None
    for place, bundle in enumerate(own):
        path = bundle / "manifest.json"
        record = json.loads(path.read_text())
        record.pop("signature", None)
        change(place, record)
        before = record["previous_sha256"]
        record["previous_sha256"] = previous or before
        report = bundle / "report.html"
        page = report.read_text()
        report.write_text(page.replace(before[:16], record["previous_sha256"][:16]))
        files = sorted(file for file in bundle.rglob("*") if file.is_file() and file != path)
        record["payload"] = [
            {
                "path": file.relative_to(bundle).as_posix(),
                "bytes": file.stat().st_size,
                "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            }
            for file in files
        ]
        if signers and signers[place] is not None:
            record["signature"] = sign(record, signers[place])
        path.write_text(json.dumps(record))
        previous = manifest_sha256(record)


def little_noise(_: int, record: dict[str, Any]) -> None:
    """State 2^20 times less noise, and a sensitivity that would justify it."""
    for one in record["mechanisms"]:
        scale = float(one["noise_scale_steps"]) / 2**20
        one.update(squared_sensitivity_steps="1", noise_scale_steps=repr(scale))


def one_step(field: str, value: str) -> Callable[[int, dict[str, Any]], None]:
    """Return a change of one field of the first query of each manifest."""
    return lambda _, record: record["mechanisms"][0].update({field: value})


def more_columns(bundle: Path, name: str) -> None:
    """Add a column to a table."""
    path = bundle / "tables" / f"{name}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("exact", pa.array(np.arange(len(table)) * 1.0)), path)


def other_csv(bundle: Path) -> None:
    """Add a digit to a number in CSV."""
    path = bundle / "tables" / "load.csv"
    lines = path.read_text().splitlines()
    group, period, slot, load, *rest = lines[1].split(",")
    lines[1] = ",".join([group, period, slot, "1" + load, *rest])
    path.write_text("\n".join(lines) + "\n")


def rewritten(own: list[Path], change: Callable[[LoadPeriod], LoadPeriod]) -> None:
    """Change what the periods released, and write all bundles as the software would."""
    manifests, released = read_chain(own)
    assert released is not None
    request = SeriesRequest.parse(manifests[0]["request"])
    changed = replace(released, periods=tuple(map(change, released.periods)))
    previous = request.sha256
    for number, bundle in enumerate(own, start=1):
        until = replace(changed, periods=changed.periods[:number])
        series = manifests[0]["series"]
        manifest = build_manifest(request, until, series=series, previous=previous)
        shutil.rmtree(bundle)
        written = write_period(bundle, manifest, bundle_files(request, until, manifest), key=None)
        previous = manifest_sha256(written)


FORGED: dict[str, Callable[[list[Path]], object]] = {
    "draws paid with the charge of load": lambda own: rewritten(own, with_further_draw),
    "no cost of the grid": lambda own: rewritten(own, without_eta),
    "numbers off the grid": lambda own: rewritten(
        own, lambda one: replace(one, sums=one.sums + 1e-9)
    ),
    "less noise of less sensitivity": lambda own: rehash(own, little_noise),
    "another grid": lambda own: rehash(own, one_step("grid_step", "1e-12")),
    "another mechanism": lambda own: rehash(own, one_step("mechanism", "exact_sums")),
    "a query without noise": lambda own: rehash(
        own,
        lambda _, record: record["mechanisms"].append(
            record["mechanisms"][-1]
            | {
                "tag": "load",
                "mechanism": "gaussian_histogram",
                "rho_units": "0",
                "noise_scale_steps": "0.0",
            }
        ),
    ),
    "rows of customers": lambda own: (own[-1] / "tables" / "rows.csv").write_text("household 1\n"),
    "a column of a raw table": lambda own: more_columns(own[-1], "sums"),
    "a column of a table": lambda own: more_columns(own[-1], "load"),
    "a CSV": lambda own: other_csv(own[-1]),
    "another CSV": lambda own: (own[-1] / "tables" / "load.csv").write_text("exact\n1\n"),
    "a report": lambda own: (own[-1] / "report.html").write_text("<h1>other</h1>"),
    "a figure of the report": lambda own: (own[-1] / "report.html").write_text(
        re.sub(r"newest period: \d", "newest period: 9", (own[-1] / "report.html").read_text())
    ),
    "a field of the manifest": lambda own: rehash(
        own, lambda _, record: record.update(exact=[0.7])
    ),
    "a field of the accrued cost": lambda own: rehash(
        own, lambda _, record: record["accrued"].update(exact="0.7")
    ),
    "a limit left out": lambda own: rehash(own, lambda _, record: record["known_limits"].pop()),
}
"""Forgeries whose hashes are adjusted, so that only the content betrays them."""


def test_a_copy_is_accepted(copy: list[Path]) -> None:
    """What rejects a changed copy below is the change: neither the copy nor adjusted hashes."""
    assert verify_chain(copy).accepted
    rehash(copy)
    assert verify_chain(copy).accepted


@pytest.mark.parametrize("name", FORGED)
def test_a_chain_that_was_forged_as_a_whole_is_rejected(copy: list[Path], name: str) -> None:
    """Whoever can rewrite all manifests cannot state less noise or add content."""
    FORGED[name](copy)
    rehash(copy)
    assert not verify_chain(copy).accepted


TAMPERED: dict[str, Callable[[list[Path]], object]] = {
    "half the noise": lambda own: changed_manifest(own[0], halve_noise),
    "another epsilon": lambda own: changed_manifest(
        own[1], lambda record: record["request"].update(epsilon=8.0)
    ),
    "less accrued": lambda own: changed_manifest(
        own[1], lambda record: record["accrued"].update(rho_units="1")
    ),
    "another strategy": lambda own: changed_manifest(
        own[1], lambda record: record["strategies"].update(load="0" * 64)
    ),
    "a charge too many": lambda own: changed_manifest(
        own[1], lambda record: record["mechanisms"].append(record["mechanisms"][0] | {"tag": "x"})
    ),
    "a larger charge": lambda own: changed_manifest(
        own[0], lambda record: record["mechanisms"][-1].update(rho_units=str(10**18))
    ),
    "another text": lambda own: changed_manifest(
        own[2], lambda record: record.update(guarantee_text="perfectly private")
    ),
    "a field missing": lambda own: changed_manifest(own[0], lambda record: record.pop("accrued")),
    "a period missing": lambda own: shutil.rmtree(own.pop(1)),
    "a period twice": lambda own: own.append(shutil.copytree(own[1], own[1].with_name("again"))),
    "a file changed": lambda own: (own[0] / "report.html").write_text("other"),
    "a file too many": lambda own: (own[0] / "notes.txt").write_text("other"),
    "a sum changed": lambda own: changed_table(own[0], "sums", "sum"),
    "a centre changed": lambda own: changed_table(own[1], "sums", "centre_kw"),
    "a level changed": lambda own: changed_table(own[1], "load", "load_kw"),
    "nothing left": lambda own: own.clear(),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_chain_is_rejected(copy: list[Path], name: str) -> None:
    """Whatever was changed after publication, or left out."""
    TAMPERED[name](copy)
    assert not verify_chain(copy).accepted


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> LoadSeries:
    """Return a series with segments: followed, midsummer skipped, found by the plan, and anew."""
    series = some_series(tmp_path_factory.mktemp("segmented"), segments=2, customers=200)
    for place in (0, 1, 3, 4):
        series.add(quarter(place), period=series.request.label(place), recluster=place == 4)
    return series


def test_segments_are_published_and_follow_from_raw_sums(segmented: LoadSeries) -> None:
    """Centroids, sizes with errors, drift, the plan; the chain is accepted; earlier ones stay."""
    report = segmented.verify()
    assert report.accepted, [one for one in report.findings if not one.holds]
    found = segmented.result().segments
    seen = ("2026-Q1", "2026-Q2", "2026-Q4", "2027-Q1")
    assert (found.found_in, found.periods, found.published) == ("2027-Q1", seen, seen)
    assert found.sizes[0].shape == found.drift.shape == (2, 4)
    manifests = [read_manifest(bundle) for bundle in segmented.bundles]
    assert manifests[-1]["segments_found_in"] == ["2026-Q1", "2026-Q4", "2027-Q1"]
    planned = [one["segments_planned_in"] for one in manifests]
    assert planned == [["2026-Q3"], ["2026-Q3"], [], []]
    before = pq.read_table(segmented.bundles[2] / "tables" / "segment_sizes.parquet").to_pylist()
    found_in = {"2026-Q1": "2026-Q1", "2026-Q2": "2026-Q1", "2026-Q4": "2026-Q4"}
    assert {row["period"]: row["found_in"] for row in before} == found_in
    shapes = pq.read_table(segmented.bundles[2] / "tables" / "segments.parquet").to_pylist()
    assert {row["period"]: row["found_in"] for row in shapes} == found_in
    text = (segmented.bundles[-1] / "report.html").read_text()
    assert "found in 2027-Q1" in text
    assert "found before in 2026-Q1, 2026-Q4" in text
    assert "Drift" in text
    prices = segmented.segment_prices()
    assert prices.decisions == ("follow", "recluster")
    assert prices.share[0] < prices.share[1]


def test_a_series_without_segments_has_no_prices(tmp_path: Path) -> None:
    """And no segments in its result."""
    series = some_series(tmp_path, 0)
    with pytest.raises(InvalidParameterError, match="segments"):
        series.segment_prices()
    with pytest.raises(InvalidParameterError, match="segments"):
        _ = series.result().segments.found_in


SEGMENTS_TAMPERED: dict[str, tuple[int, Callable[[Path], object]]] = {
    "sizes": (2, lambda last: changed_table(last, "segment_nearest", "count")),
    "a step": (2, lambda last: changed_table(last, "segment_sums", "sum")),
    "a centroid that was found": (1, lambda last: changed_table(last, "segment_centres", "centre")),
    "a published size": (3, lambda last: changed_table(last, "segment_sizes", "customers")),
    "a published centroid": (3, lambda last: changed_table(last, "segments", "shape")),
    "when they were found": (
        4,
        lambda last: changed_manifest(
            last, lambda record: record.update(segments_found_in=["2026-Q2", "2027-Q1"])
        ),
    ),
    "when they will be": (
        1,
        lambda last: changed_manifest(
            last, lambda record: record.update(segments_planned_in=["2026-Q2"])
        ),
    ),
    "found once more": (
        2,
        lambda last: changed_manifest(
            last, lambda record: record.update(segments_found_in=["2026-Q1", "2026-Q2"])
        ),
    ),
}
"""Number of periods that are verified, and what is changed in the last of them."""


@pytest.mark.parametrize("periods", [1, 2, 3])
def test_the_first_periods_are_accepted(segmented: LoadSeries, periods: int) -> None:
    """What rejects a changed copy below is the change; all periods are verified above."""
    assert verify_chain(segmented.bundles[:periods]).accepted


@pytest.mark.parametrize("name", SEGMENTS_TAMPERED)
def test_changed_segments_are_rejected(segmented: LoadSeries, tmp_path: Path, name: str) -> None:
    """Raw numbers, tables, and the periods in which clusters were found."""
    periods, change = SEGMENTS_TAMPERED[name]
    bundles = segmented.bundles[:periods]
    own = [shutil.copytree(bundle, tmp_path / bundle.name) for bundle in bundles]
    change(own[-1])
    assert not verify_chain(own).accepted


def test_signatures(tmp_path: Path) -> None:
    """Signed periods are accepted with their key, and refused with another one or none."""
    series = some_series(tmp_path)
    key, other = keys.new_key(), keys.new_key()
    series.add(quarter(0), key=key)
    assert series.verify(trusted=key.public_key()).accepted
    assert [one.check for one in series.verify().not_run] == ["closing statement"]
    assert series.verify().accepted
    assert not series.verify(trusted=other.public_key()).accepted
    for wrong in (None, other):
        with pytest.raises(InvalidParameterError, match="key must be that of the earlier periods"):
            series.add(quarter(1), key=wrong)
        with pytest.raises(InvalidParameterError, match="key must be that of the earlier periods"):
            series.close("the end", key=wrong)
    series.close("the end", key=key)
    assert series.verify(trusted=key.public_key()).accepted
    assert series.verify().accepted
    path = series.folder / CLOSED
    statement = json.loads(path.read_text())
    del statement["signature"]
    for signing in (None, other):
        record = dict(statement)
        if signing is not None:
            record["signature"] = sign(record, signing)
        path.write_text(json.dumps(record))
        assert not series.verify().accepted
        assert not series.verify(trusted=key.public_key()).accepted
    path.write_text("{}")
    assert not series.verify().accepted
    changed_manifest(series.bundles[0], lambda record: record.pop("signature"))
    assert not series.verify(trusted=key.public_key()).accepted


def test_a_key_does_not_sign_a_series_that_began_unsigned(tmp_path: Path) -> None:
    """One signer or none: nothing is drawn."""
    series = some_series(tmp_path, 0)
    with pytest.raises(InvalidParameterError, match="key must be omitted: earlier periods are"):
        series.add(quarter(1), key=keys.new_key())
    series.add(quarter(1))


def test_profiles_that_do_not_state_their_days_cause_a_warning(tmp_path: Path) -> None:
    """The budget of a period is spent, perhaps on readings of another one."""
    series = some_series(tmp_path, 0)
    with pytest.warns(UnstatedDaysWarning, match="do not state their days"):
        series.add(quarter(1))
    first, end = series.request.days(2)
    stated = {"readings": {"period": [str(first), str(end)]}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series.add(replace(quarter(2), rules=stated))
    manifests = [read_manifest(bundle) for bundle in series.bundles]
    assert [one["days_checked"] for one in manifests] == [False, False, True]
    report = series.verify()
    assert report.accepted
    (said,) = (text for text in report.not_proved if "days" in text)
    assert said.endswith("no days were compared in 2026-Q1, 2026-Q2.")


@pytest.mark.parametrize("value", ["absent", True, "yes"])
def test_days_checked_may_be_absent_and_is_true_or_false(tmp_path: Path, value: object) -> None:
    """Periods of earlier versions do not state it; any other value is refused."""
    series = some_series(tmp_path, 0)
    (bundle,) = series.bundles
    manifest = read_manifest(bundle)
    del manifest["days_checked"]
    if value != "absent":
        manifest["days_checked"] = value
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    report = series.verify()
    assert report.accepted == (value != "yes")
    if report.accepted:
        unchecked = any("no days were compared in 2026-Q1" in text for text in report.not_proved)
        assert unchecked == (value == "absent")


@pytest.mark.parametrize("is_signed", [True, False])
def test_mixed_signers_are_rejected(made: LoadSeries, tmp_path: Path, *, is_signed: bool) -> None:
    """Periods signed by one key and the last by another or none, hashes adjusted."""
    own = [shutil.copytree(bundle, tmp_path / bundle.name) for bundle in made.bundles[:3]]
    one, other = keys.new_key(), keys.new_key()
    rehash(own, signers=[one, one, one])
    report = verify_chain(own)
    assert report.accepted, [one for one in report.findings if not one.holds]
    rehash(own, signers=[one, one, other if is_signed else None])
    assert not verify_chain(own).accepted


def closed_copy(made: LoadSeries, tmp_path: Path) -> LoadSeries:
    """Return a copy of the public part of two periods of a series, which can be closed."""
    left_out = [bundle.name for bundle in made.bundles[2:]]
    ignored = shutil.ignore_patterns("private", *left_out)
    return LoadSeries(shutil.copytree(made.folder, tmp_path / "series", ignore=ignored))


def test_closing_statements_name_the_last_period(made: LoadSeries, tmp_path: Path) -> None:
    """A chain that is cut, or a statement of another, is rejected; without one it is said."""
    series = closed_copy(made, tmp_path)
    report = series.verify()
    assert [one.check for one in report.not_run] == ["closing statement", "the signature"]
    assert any("no closing statement" in text for text in report.not_proved)
    found = series.close("the end")
    assert found == ((), ())
    report = series.verify()
    assert report.accepted
    assert [one.check for one in report.not_run] == ["the signature"]
    path = series.folder / CLOSED
    statement = json.loads(path.read_text())
    assert statement["periods"] == 2
    assert not verify_chain(series.bundles[:-1], closing=path).accepted
    for changed in (
        {"periods": 1},
        {"series": "another"},
        {"last_manifest_sha256": "0" * 64},
        {"exact": [1.0]},
    ):
        path.write_text(json.dumps(statement | changed))
        assert not series.verify().accepted
    # Cut, and the number of periods adjusted: the hash is that of another manifest.
    path.write_text(json.dumps(statement | {"periods": 1}))
    assert not verify_chain(series.bundles[:-1], closing=path).accepted


def test_a_closed_series_is_never_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash before the secrets are deleted: copies are refused, a second close ends it."""
    series = some_series(tmp_path, 0)
    backup = shutil.copytree(series.folder, tmp_path / "backup")

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place, name in ((published_series, "closing_statement"), (shutil, "rmtree")):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, crash)
            with pytest.raises(KeyboardInterrupt):
                series.close("the end")
        again = LoadSeries(backup, secrets=series.secrets)
        with pytest.raises(SeriesStateError, match="the series was closed"):
            again.add(quarter(1))
        with pytest.raises(SeriesStateError, match="the series was closed"):
            again.erase(["household 1"])
    assert series.closed == "the end"
    found = series.close("another")
    assert found.deleted == (series.folder / "private", series.secrets)
    assert series.closed == "the end"
    assert series.verify().accepted


def test_closing_takes_the_lock_and_its_own_secrets(tmp_path: Path) -> None:
    """Not while a period is added, and not with the secrets of another series."""
    series = some_series(tmp_path)
    with (
        SeriesFolder.open(series.folder, series.secrets),
        pytest.raises(SeriesStateError, match="another process uses it"),
    ):
        series.close("the end")
    (tmp_path / "b").mkdir()
    other = some_series(tmp_path / "b")
    with pytest.raises(InvalidParameterError, match="secrets must be those of this series"):
        LoadSeries(series.folder, secrets=other.secrets).close("the end")
    assert series.closed is None
    other.add(quarter(0))


def test_what_cannot_be_deleted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is deleted by the next call."""
    series = some_series(tmp_path)
    real = os.unlink

    def unlink(path: Any, **more: Any) -> None:  # noqa: ANN401 - of the system
        if str(path).endswith("series.key"):
            raise PermissionError
        real(path, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        found = series.close("the end")
    assert found.deleted == (series.folder / "private",)
    assert found.left == (series.secrets,)
    assert series.close("the end").deleted == (series.secrets,)


def test_periods_are_added_in_order(tmp_path: Path) -> None:
    """Names outside of the horizon, earlier periods and other grids are refused."""
    series = some_series(tmp_path, 1)
    for period, rule in (
        ("2026-Q2", "after 2026-Q2"),
        ("2026-Q1", "after 2026-Q2.*; 2026-Q1 was skipped and cannot be added"),
        ("2030-Q1", "a period of the series"),
    ):
        with pytest.raises(InvalidParameterError, match=rule):
            series.add(quarter(1), period=period)
    half_hours = TimeGrid(minutes=30)
    other = Profiles(
        customer_ids=("a",),
        load_kw=np.ones((1, 48)),
        grid=half_hours,
        timezone="Europe/London",
        attributes={"class": ("home",), "car": ("no",)},
    )
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 24 columns"):
        series.add(other)
    with pytest.raises(InvalidParameterError, match="time zone of the series, Europe/London"):
        series.add(replace(quarter(1), timezone="UTC"))
    week = TimeGrid(split=Split.WEEKDAY_WEEKEND)
    both = Profiles(
        customer_ids=("a",), load_kw=np.ones((1, 48)), grid=week, timezone="UTC", attributes={}
    )
    with pytest.raises(InvalidParameterError, match="profiles must be of one average day"):
        series.add(both)
    series.add(quarter(2), period="2028-Q1")
    with pytest.raises(InvalidParameterError, match="within the horizon"):
        series.add(quarter(2))


@pytest.mark.parametrize(
    ("every", "first", "place", "days"),
    [
        ("quarter", "2025-Q3", 2, ("2026-01-01", "2026-04-01")),
        ("quarter", "2025-Q3", 1, ("2025-10-01", "2026-01-01")),
        ("month", "2024-01", 1, ("2024-02-01", "2024-03-01")),
        ("year", "2025", 3, ("2028-01-01", "2029-01-01")),
    ],
)
def test_days_of_a_period(every: str, first: str, place: int, days: tuple[str, str]) -> None:
    """The first day, and the day after the last."""
    request = SeriesRequest(epsilon=1.0, delta=1e-6, periods=9, every=Calendar(every), first=first)
    assert tuple(map(str, request.days(place))) == days


def test_profiles_of_other_days_are_refused(tmp_path: Path) -> None:
    """Nothing is drawn or marked; days within the period, and unstated days, are accepted."""
    series = some_series(tmp_path)

    def stated(*days: str) -> Profiles:
        return replace(quarter(0), rules={"readings": {"period": list(days)}})

    for first, end in (
        ("2025-10-01", "2026-01-01"),
        ("2025-12-31", "2026-04-01"),
        ("2026-01-01", "2026-04-02"),
    ):
        with pytest.raises(InvalidParameterError, match=r"2026-Q1.*2026-01-01 to 2026-03-31"):
            series.add(stated(first, end), period="2026-Q1")
        assert not series.bundles
    series.add(stated("2026-01-01", "2026-04-01"), period="2026-Q1")  # no --again is needed
    series.add(stated("2026-04-05", "2026-05-01"), period="2026-Q2")
    unstated = replace(quarter(0), rules={"readings": {"period": None}})
    assert unstated.period is quarter(0).period is None
    series.add(unstated, period="2026-Q3")


def test_a_period_is_no_release(tmp_path: Path) -> None:
    """The reader of releases names the reader of series."""
    series = some_series(tmp_path, 0)
    with pytest.raises(InvalidFileError, match="LoadSeries"):
        read_bundle(series.bundles[0])


def test_a_bundle_that_was_replaced_stops_the_series(tmp_path: Path) -> None:
    """The state belongs to one chain of manifests."""
    series = some_series(tmp_path, 0)
    changed_manifest(series.bundles[0], lambda record: record.update(title="another"))
    with pytest.raises(InvalidParameterError, match="periods must be the bundles"):
        series.add(quarter(1))


def test_a_file_of_an_earlier_bundle_stops_the_series(tmp_path: Path) -> None:
    """Every manifest names its files and the one before it."""
    series = some_series(tmp_path, 0, 1)
    report = series.bundles[0] / "report.html"
    text = report.read_text()
    report.write_text("other")
    for use in (lambda: series.add(quarter(2)), lambda: series.erase(["household 1"])):
        with pytest.raises(InvalidParameterError, match="periods must be the bundles"):
            use()
    report.write_text(text)
    changed_manifest(series.bundles[0], lambda record: record.update(title="another"))
    with pytest.raises(InvalidParameterError, match="periods must be the bundles"):
        series.add(quarter(2))


def test_another_declaration_stops_the_series(tmp_path: Path) -> None:
    """The head names the one that the series was begun with."""
    series = some_series(tmp_path)
    path = series.folder / "series.json"
    record = json.loads(path.read_text())
    record["request"]["epsilon"] = 8.0
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidParameterError, match=r"series\.json must be that of"):
        LoadSeries(series.folder).add(quarter(0))


def test_another_id_stops_the_series(tmp_path: Path) -> None:
    """Readers would reject a chain of two ids: nothing is drawn for it."""
    series = some_series(tmp_path, 0)
    path = series.folder / "series.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"series": "another"}))
    with pytest.raises(InvalidParameterError, match=r"series\.json must be that of"):
        LoadSeries(series.folder).add(quarter(1))
    path.write_text(json.dumps(record))
    LoadSeries(series.folder).add(quarter(1))


def test_a_period_that_failed_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused data are no attempt; an error after the draws is one, until `again`."""
    series = some_series(tmp_path, 0)
    with pytest.raises(InvalidParameterError, match=r"missing: car, class"):
        series.add(replace(quarter(1), attributes={}))

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(published_series, "write_period", full)
        with pytest.raises(OSError, match="no space left"):
            series.add(quarter(1))
    for period in (None, "2026-Q3"):
        with pytest.raises(SeriesStateError, match="period 2 was begun and did not end"):
            series.add(quarter(1), period=period)
    series.add(quarter(1), again=True)
    assert series.verify().accepted


def test_a_refusal_after_charges_is_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of load were drawn when the segments fail: the mark of the attempt stays."""
    series = some_series(tmp_path, 0, segments=2, customers=200)

    def refused(*_: object, **__: object) -> None:
        raise InvalidParameterError("scale", "smaller", 1.0)

    with monkeypatch.context() as patched:
        patched.setattr(load_series, "release_segments", refused)
        with pytest.raises(SeriesStateError, match="period 2 was begun and failed: scale must"):
            series.add(quarter(1))
    with pytest.raises(SeriesStateError, match="period 2 was begun and did not end"):
        series.add(quarter(1))
    series.add(quarter(1), again=True)
    assert series.verify().accepted


def test_noise_scales_are_checked_before_any_draw(tmp_path: Path) -> None:
    """A budget that is too small for a decision is refused, and is no attempt."""
    with pytest.raises(InvalidParameterError, match="epsilon must be such that noise can be drawn"):
        some_series(tmp_path, segments=2, customers=20, epsilon=1e-5)
    assert not (tmp_path / "series").exists()
    series = some_series(tmp_path, segments=2, customers=20, epsilon=1e-3)
    for place in (0, 1, 2):  # the plan finds segments in 0 and 2
        series.add(quarter(place, customers=30))
    with pytest.raises(InvalidParameterError, match="recluster must be such that noise can be"):
        series.add(quarter(3, customers=30), recluster=True)
    series.add(quarter(3, customers=30))
    assert series.verify().accepted


def test_a_series_that_is_rolled_back_is_refused_and_can_be_closed(tmp_path: Path) -> None:
    """Folder and bundles restored from a copy: the mark has seen a later period."""
    series = some_series(tmp_path, 0)
    shutil.copytree(series.folder, tmp_path / "copy")
    series.add(quarter(1))
    shutil.rmtree(series.folder)
    shutil.copytree(tmp_path / "copy", series.folder)
    with pytest.raises(SeriesStateError, match="close the series"):
        series.add(quarter(1))
    series.close("the state was lost")
    assert series.closed == "the state was lost"
    assert not series.secrets.exists()
    assert series.verify().accepted
    with pytest.raises(InvalidParameterError, match="series must be open"):
        series.add(quarter(1))


def test_an_erased_customer_keeps_its_odometer(tmp_path: Path) -> None:
    """Contributions go; the next period is released as before."""
    series = some_series(tmp_path, 0, encrypt=True)
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        (before,) = folder.state("load")
    found = series.erase(["household 1", "nobody"])
    assert (found.erased, found.already_erased, found.not_found) == (1, 0, 1)
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        (after,) = folder.state("load")
    assert (after.used == before.used).all()
    assert after.owners.size == before.owners.size - 1
    series.readmit(["household 1"])
    series.add(quarter(1))
    assert series.verify().accepted


def holders(series: LoadSeries, ids: Sequence[str]) -> list[str]:
    """Return the customers of a list whose contributions are in the private state."""
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        names = customer_names(ids, key=folder.key.names)
        held = {name for block in folder.state("load") for name in block.names[block.owners]}
    return [one for one, name in zip(ids, names, strict=True) if name in held]


def test_erased_customers_are_excluded_until_they_return(tmp_path: Path) -> None:
    """A statement that they returned holds until they are erased again."""
    series = some_series(tmp_path, 0)
    ids = quarter(1).customer_ids
    first = series.erase([ids[1], f" {ids[1]} ", ids[2], "nobody"])
    assert (first.erased, first.already_erased, first.not_found) == (2, 0, 1)
    for place, stated, left in ((1, (), 2), (2, ("nobody",), 2), (3, (f" {ids[1]} ",), 1)):
        series.readmit(stated)
        listed = [one for one in ids[1:3] if one in quarter(place).customer_ids]
        assert len(listed) == 2
        with pytest.warns(ErasedCustomersWarning, match="private"):
            series.add(quarter(place))
        assert holders(series, ids[1:3]) == ([ids[1]] if left == 1 else [])
    assert not any(one in first.receipt.read_text() for one in ids[1:3])
    second = series.erase([ids[1]])
    assert (second.erased, second.already_erased, second.not_found) == (1, 0, 0)
    with pytest.warns(ErasedCustomersWarning):
        series.add(quarter(4))
    assert holders(series, ids[1:3]) == []
    assert series.verify().accepted
    before = first.receipt.read_text()
    for other in (None, "[]", before.replace("erased", "returned", 1)):
        first.receipt.unlink() if other is None else first.receipt.write_text(other)
        with pytest.raises(InvalidFileError, match="the receipts that the last erasure left"):
            series.add(quarter(5))
    first.receipt.write_text("[1]")
    (series.secrets / "series.erasures").unlink()
    with pytest.raises(InvalidFileError, match="receipts of erasures"):
        series.add(quarter(5))


@pytest.mark.parametrize("fails_at", [1, 2, 3, "state"])
def test_an_erasure_that_is_interrupted_admits_nobody_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int | str
) -> None:
    """At each of its writes; a customer who was never in the series is kept out too."""
    series = some_series(tmp_path, 0)
    listed = ["household 1", "household 10"]  # the second is in no period before the third
    assert series.erase([]).erased == 0
    with monkeypatch.context() as patch:
        replace_file, calls = series_erasure._replace, iter([1, 2, 3])

        def failing(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        def replace_or_fail(path: Path, text: str) -> None:
            (failing if next(calls) == fails_at else replace_file)(path, text)

        patch.setattr(series_erasure, "_replace", replace_or_fail)
        if fails_at == "state":
            patch.setattr(published_series, "without_records", failing)
        with pytest.raises(OSError, match="no space left"):
            series.erase(listed)
    found = series.erase(listed)
    assert (found.erased, found.not_found) == (1, 1)
    with pytest.warns(ErasedCustomersWarning):
        series.add(quarter(1))
    assert holders(series, listed) == []


def test_a_period_is_released_if_all_its_customers_are_erased(tmp_path: Path) -> None:
    """Whether one remains is private: an analyst must not see it by an error."""
    series = some_series(tmp_path, 0)
    series.erase(quarter(1).customer_ids)
    here = {*quarter(0).customer_ids}
    known = [row for row, one in enumerate(quarter(1).customer_ids) if one in here]
    with pytest.warns(ErasedCustomersWarning):
        series.add(quarter(1).selected(known))
    assert holders(series, quarter(1).customer_ids) == []
    assert series.verify().accepted


@pytest.mark.parametrize("released", [(), (0,)])
def test_a_period_without_a_customer_is_released(tmp_path: Path, released: tuple[int, ...]) -> None:
    """On a server an error would tell an analyst that there is none."""
    series = some_series(tmp_path, *released)
    series.add(quarter(1).selected([]))
    assert series.verify().accepted


@pytest.mark.parametrize(
    ("kind", "after", "low", "high"),
    [
        ("loads", 4, 0.43, 0.63),
        ("loads", 8, 0.65, 0.78),
        ("members", 4, 0.57, 0.75),
        ("members", 8, 0.73, 0.85),
    ],
)
def test_what_an_erasure_leaves_in_later_sums(
    kind: str, after: int, low: float, high: float
) -> None:
    """As the guide states it: nothing is added any more, and what was deleted is not taken out."""
    request = SeriesRequest.parse(
        {**CHOICES, "periods": 20, "by": None, "levels": (), "counts": ()}
    )
    feedback = getattr(request.design, kind).feedback
    contributed = np.linalg.solve(feedback, np.ones(20))
    contributed[after:] = 0.0
    left = (feedback @ contributed)[after:]
    assert low <= left.min()
    assert left.max() <= high


def test_plans_cost_nothing(tmp_path: Path) -> None:
    """Errors fall with the number of customers; below two years there is no trend."""
    series = some_series(tmp_path)
    plan = series.plan(1000, 10_000)
    assert plan.level_error[0] > plan.level_error[1] > 0.0
    assert plan.visible_kw_per_year[0] > plan.visible_kw_per_year[1] > 0.0
    assert series.plan().customers == (500,)
    short = LoadSeries.begin(tmp_path / "short", **{**CHOICES, "periods": 4})
    assert np.isinf(short.plan().visible_kw_per_year[0])
    with pytest.raises(InvalidParameterError, match="at least one released period"):
        series.result()
    assert not series.bundles


def test_folders_without_a_series_are_refused(tmp_path: Path) -> None:
    """With what was expected there."""
    with pytest.raises(InvalidFileError, match="series init"):
        LoadSeries(tmp_path)
    for text in ("{", "[]", '{"manifest_version": "2"}'):
        (tmp_path / "manifest.json").write_text(text)
        assert not verify_period(tmp_path).accepted
    assert not verify_period(tmp_path / "none").accepted


@pytest.mark.parametrize(
    ("every", "first", "labels"),
    [
        ("month", "2026-11", ["2026-11", "2026-12", "2027-01"]),
        ("quarter", "2026-Q3", ["2026-Q3", "2026-Q4", "2027-Q1"]),
        ("year", "2026", ["2026", "2027", "2028"]),
    ],
)
def test_names_of_periods(every: str, first: str, labels: list[str]) -> None:
    """Months, quarters and years follow each other."""
    request = SeriesRequest(**{**CHOICES, "every": Calendar(every), "first": first})
    assert [request.label(place) for place in range(3)] == labels
    assert [request.period_of(label) for label in labels] == [0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"first": "2026"}, "first"),
        ({"first": "2026-Q5"}, "first"),
        ({"periods": 1}, "periods"),
        ({"by": None}, "levels"),
        ({"levels": ("home", "home")}, "levels"),
        ({"counts": ("car",)}, "counts"),
        ({"counts": ("car=../../yes",)}, "counts"),
        ({"counts": ("car=yes", "car=yes")}, "counts"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_choices_are_refused(changed: dict[str, Any], field: str) -> None:
    """Field and rule are named."""
    with pytest.raises(InvalidParameterError, match=f"^{field}"):
        SeriesRequest(**{**CHOICES, **changed})
