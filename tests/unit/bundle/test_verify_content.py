"""Tables and pages follow from the statement and from each other: what does not is found."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from tests.sample_bundles import EVERYTHING, broken, make_bundle, only, some_profiles
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify import verify_content
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split

DURATION = "the load duration curve is the sorted mean load times the number of customers"
PAGE = "the report agrees with the tables"

Rewrite = Callable[[Path, Manifest], None]


def replace_table(bundle: Path, name: str, data: pa.Table, rewrite: Rewrite) -> None:
    """Put another table in place in both formats, with hashes and signature that hold."""
    pq.write_table(data, bundle / f"tables/{name}.parquet")
    pc.write_csv(data, bundle / f"tables/{name}.csv")
    rehash(bundle, rewrite)


def rehash(bundle: Path, rewrite: Rewrite) -> None:
    """List the files as they are now."""
    manifest = read_manifest(bundle)
    for entry in manifest["payload"]:
        content = (bundle / entry["path"]).read_bytes()
        entry["bytes"], entry["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    rewrite(bundle, manifest)


@pytest.mark.usefixtures("no_budget", "no_pages")
@pytest.mark.parametrize(
    ("name", "column", "value", "words"),
    [
        ("centroids", "load_kw", 99.0, "beyond the bound of 5 kW"),
        ("load_shapes", "std_kw", -0.1, "std_kw is out of its range"),
        ("labels", "label", 3, "label is out of its range"),
        ("cluster_shares", "count", 0.1, "count is off its grid"),
        ("groups", "customers", float("nan"), "customers has empty cells"),
        ("load_duration", "load_kw", float("inf"), "load_kw is not finite"),
    ],
)
def test_a_false_number_is_found(
    *, copy: Path, rewrite: Rewrite, name: str, column: str, value: float, words: str
) -> None:
    """Ranges, grid and bound hold for every number, whatever the hashes say."""
    data = pq.read_table(copy / f"tables/{name}.parquet")
    values = [value, *data[column].to_pylist()[1:]]
    place = data.column_names.index(column)
    kind = data.schema.field(column)
    spoilt = data.set_column(place, kind, pa.array(values, kind.type, from_pandas=True))
    replace_table(copy, name, spoilt, rewrite)
    assert words in broken(copy)[f"table {name}"]


@pytest.mark.usefixtures("no_budget", "no_pages")
def test_a_table_of_another_shape_is_found(copy: Path, rewrite: Rewrite) -> None:
    """Too few rows, other columns, a format that says something else, no table at all."""
    data = pq.read_table(copy / "tables/centroids.parquet")
    replace_table(copy, "centroids", data.slice(1), rewrite)
    assert "71 rows" in broken(copy)["table centroids"]
    replace_table(copy, "centroids", data.drop_columns(["std_kw"]), rewrite)
    assert "columns are not those" in broken(copy)["table centroids"]
    pq.write_table(data, copy / "tables/centroids.parquet")
    pc.write_csv(data.slice(1), copy / "tables/centroids.csv")
    rehash(copy, rewrite)
    assert broken(copy)["table centroids"] == "CSV and Parquet differ"
    (copy / "tables/centroids.csv").write_bytes(b"")
    rehash(copy, rewrite)
    assert "cannot be read" in broken(copy)["table centroids"]


_MANY = 500_000


def constant(data: pa.Table, rows: int) -> pa.Table:
    """Return a table that repeats the first row: a few bytes in a file, many in memory."""
    return pa.table([pa.repeat(column[0], rows) for column in data], schema=data.schema)


def understated(content: bytes, *, everywhere: bool) -> bytes:
    """Return a Parquet file of so many rows whose footer says 72, once or wherever it says it."""
    said, footer = varint(_MANY), content.rindex(b"PAR1") - 4
    begin = footer - int.from_bytes(content[footer : footer + 4], "little")
    assert content.count(said, begin, footer) > 2
    lies = content[begin:footer].replace(said, b"\x90\x81\x00", -1 if everywhere else 1)
    return content[:begin] + lies + content[footer:]


def varint(number: int) -> bytes:
    """Write a number as the footer does: zigzag, seven bits a byte."""
    left, written = 2 * number, b""
    while left > 127:
        left, written = left >> 7, written + bytes([left & 127 | 128])
    return written + bytes([left])


@pytest.mark.usefixtures("no_budget", "no_pages")
@pytest.mark.parametrize("bomb", ["rows", "groups", "one lie", "lies"])
def test_no_value_is_read_of_a_file_with_a_false_size(
    copy: Path, rewrite: Rewrite, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of rows in a few kilobytes; a footer that lies is found, or limits what is read."""
    path = copy / "tables/centroids.parquet"
    data = pq.read_table(path)
    if bomb == "groups":
        pq.write_table(constant(data, 300), path, row_group_size=1)
    else:
        pq.write_table(constant(data, _MANY), path, compression="zstd", row_group_size=_MANY)
        assert path.stat().st_size < 2**17
    if "lie" in bomb:
        path.write_bytes(understated(path.read_bytes(), everywhere=bomb == "lies"))
        assert pq.read_metadata(path).num_rows == 72
    rehash(copy, rewrite)
    read: list[int] = []

    def reading(*given: Any, **options: Any) -> pa.Table:  # noqa: ANN401 - of `read_table`
        table = read_table(*given, **options)
        read.append(table.nbytes if given[1] == "centroids" else 0)
        return table

    monkeypatch.setattr(verify_content, "read_table", reading)
    words = {"lies": "", "groups": "300 rows, and 72", "rows": f"{_MANY:,} rows, and 72"}
    assert words.get(bomb, "72 rows") in broken(copy)["table centroids"]
    assert max(read) < 2**20


def change(
    bundle: Path, name: str, column: str, values: Callable[[list[Any]], list[Any]]
) -> pa.Table:
    """Return a table with another column in place of one."""
    data = pq.read_table(bundle / f"tables/{name}.parquet")
    kind = data.schema.field(column)
    spoilt = pa.array(values(data[column].to_pylist()), kind.type)
    return data.set_column(data.column_names.index(column), kind, spoilt)


def swap(values: list[Any]) -> list[Any]:
    """Let the first two that differ change places."""
    other = next(place for place, value in enumerate(values) if value != values[0])
    values[0], values[other] = values[other], values[0]
    return values


def nudge(values: list[Any]) -> list[Any]:
    """Change the first by a hundredth: possible also where noise made all of them equal."""
    return [0.99 * values[0] if values[0] else 0.001, *values[1:]]


@pytest.mark.usefixtures("no_budget", "no_pages")
@pytest.mark.parametrize(
    ("name", "column", "values", "check", "words"),
    [
        ("centroids", "slot", swap, "table centroids", "rows are not those"),
        ("load_shapes", "group", swap, "table load_shapes", "rows are not those"),
        (
            "cluster_shares",
            "count_std",
            lambda values: [0.5 * value for value in values],
            "shares follow from counts, errors from the noise",
            "count_std is not the stated noise",
        ),
        (
            "cluster_shares",
            "share",
            nudge,
            "shares follow from counts, errors from the noise",
            "share does not follow",
        ),
        (
            "cluster_shares",
            "share_std",
            nudge,
            "shares follow from counts, errors from the noise",
            "share_std does not follow",
        ),
        (
            "label_sizes",
            "customers",
            nudge,
            "sizes follow from the labels and their channel",
            "customers does not",
        ),
        (
            "label_sizes",
            "customers_std",
            nudge,
            "sizes follow from the labels and their channel",
            "customers_std does not",
        ),
        ("load_duration", "load_kw", swap, DURATION, "values"),
        (
            "labels",
            "customer",
            lambda values: [*values[:-1], values[-1] + " used 3 kWh"],
            "one label per customer",
            "not a pseudonym",
        ),
        (
            "labels",
            "customer",
            lambda values: values[:1] * len(values),
            "one label per customer",
            "twice",
        ),
        ("labels", "customer", swap, "one label per customer", "order"),
        (
            "synthetic",
            "cluster",
            swap,
            "the synthetic customers come from the model",
            "another sample is drawn",
        ),
        (
            "centroids",
            "load_kw",
            swap,
            "the synthetic customers come from the model",
            "other centroids",
        ),
    ],
)
def test_numbers_that_do_not_follow_are_found(
    *,
    copy: Path,
    rewrite: Rewrite,
    name: str,
    column: str,
    values: Callable[[list[Any]], list[Any]],
    check: str,
    words: str,
) -> None:
    """Within their ranges, with hashes that hold: only the other numbers betray them."""
    replace_table(copy, name, change(copy, name, column, values), rewrite)
    assert words in broken(copy)[check]


def widen(manifest: Manifest) -> None:
    """Allow a column more than it may have."""
    manifest["products"][0]["tables"][0]["columns"][4]["max"] = 1e9


def drop_errors(manifest: Manifest) -> None:
    """Forget the standard errors."""
    del manifest["products"][0]["tables"][0]["columns"][5]


def drop_document(manifest: Manifest) -> None:
    """Forget the model."""
    del manifest["products"][1]["documents"]


def drop_step(manifest: Manifest) -> None:
    """Forget what was done to the numbers."""
    manifest["products"][0]["postprocessing"] = []


def fewer_numbers(manifest: Manifest) -> None:
    """Draw fewer numbers than there are groups and slots."""
    manifest["products"][2]["runs"][0]["mechanisms"][-1]["gaussian"]["numbers"] = 7


def one_more_segment(manifest: Manifest) -> None:
    """Claim another number of distinguishable segments than the tables show."""
    manifest["products"][0]["achieved"][0]["count"] += 1


def no_segments(manifest: Manifest) -> None:
    """Leave out what was achieved."""
    del manifest["products"][0]["achieved"]


def segments_elsewhere(manifest: Manifest) -> None:
    """Claim it of a product that has no clusters."""
    manifest["products"][2]["achieved"] = manifest["products"][0]["achieved"]


def whitewash(manifest: Manifest) -> None:
    """Claim that everything is protected."""
    manifest["unprotected"] = ["Nothing."]


def other_sampler(manifest: Manifest) -> None:
    """Tell another story of the noise."""
    manifest["implementation"]["sampler"] = "a die"


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (widen, "contents of product clusters", "their limits"),
        (drop_errors, "contents of product clusters", "columns"),
        (drop_document, "contents of product synthesis", "documents"),
        (drop_step, "contents of product clusters", "postprocessing"),
        (fewer_numbers, "each draw has one number per cell", "sums of load: 7"),
        (one_more_segment, "quality achieved by product clusters", "supported segments: "),
        (no_segments, "quality achieved by product clusters", "supported segments: "),
        (segments_elsewhere, "quality achieved by product load", "not in its tables"),
        (whitewash, "the texts of the manifest are those of the software", "unprotected"),
        (other_sampler, "the texts of the manifest are those of the software", "implementation"),
    ],
)
def test_a_statement_that_is_not_ours_is_found(
    *, copy: Path, rewrite: Rewrite, spoil: Callable[[Manifest], None], check: str, words: str
) -> None:
    """Fewer columns, wider limits, kinder words."""
    manifest = read_manifest(copy)
    spoil(manifest)
    rewrite(copy, manifest)
    assert words in broken(copy)[check]


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize(
    ("file", "old", "new", "check", "words"),
    [
        ("CARD.md", "epsilon 4.0", "epsilon 0.1", "the card agrees with the manifest", ""),
        ("report.html", "<b>4.0</b>", "<b>0.1</b>", PAGE, "text"),
        ("report.html", 'cy="', 'cy="9', PAGE, "numbers"),
        ("report.html", 'points="0.0,', 'points="0.1,', PAGE, "numbers"),
        ("report.html", " kW</tspan>", " MW</tspan>", PAGE, "numbers"),
        ("report.html", '<polyline class="series-', '<polyline class="series-9', PAGE, "numbers"),
        ("report.html", "<figcaption>Shares", "<figcaption>Parts", PAGE, "text"),
    ],
)
def test_a_page_with_other_numbers_is_found(
    *, copy: Path, rewrite: Rewrite, file: str, old: str, new: str, check: str, words: str
) -> None:
    """Also if its hash holds: it is written anew from statement and tables."""
    text = (copy / file).read_text("utf-8")
    place = text.rindex(old)
    (copy / file).write_text(text[:place] + new + text[place + len(old) :], encoding="utf-8")
    rehash(copy, rewrite)
    found = broken(copy)
    assert list(found) == [check]
    assert words in found[check]


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize("number", [1, 9, None])
def test_the_first_line_of_a_card_that_differs_is_named(
    copy: Path, rewrite: Rewrite, number: int | None
) -> None:
    """Whether a line is changed, or one is missing at the end."""
    lines = (copy / "CARD.md").read_text("utf-8").split("\n")
    if number is None:
        number = len(lines)
        lines.pop()
    else:
        lines[number - 1] += " and more"
        lines[number] += " and more"
    (copy / "CARD.md").write_text("\n".join(lines), encoding="utf-8")
    rehash(copy, rewrite)
    (seen,) = broken(copy).values()
    assert seen.endswith(f"first in line {number}")


@pytest.mark.usefixtures("no_budget", "no_pages")
def test_nothing_rides_along(copy: Path, rewrite: Rewrite) -> None:
    """Rows of customers in the notes of a Parquet file, in the model, or as a listed file."""
    data = pq.read_table(copy / "tables/groups.parquet")
    replace_table(copy, "groups", data.replace_schema_metadata({"rows": "0.1,0.2"}), rewrite)
    assert "columns are not those" in broken(copy)["table groups"]
    replace_table(copy, "groups", data, rewrite)
    model = copy / "synthetic_model.json"
    text = model.read_text("utf-8")
    model.write_text('{"means":[[0.1,0.2]],' + text[1:], encoding="utf-8")
    rehash(copy, rewrite)
    assert "more than the model" in broken(copy)["the synthetic customers come from the model"]
    model.write_text("[" * 100_000, encoding="utf-8")
    rehash(copy, rewrite)
    assert "cannot be sampled" in broken(copy)["the synthetic customers come from the model"]
    model.write_text(text, encoding="utf-8")
    (copy / "tables/customers.csv").write_text("0.1,0.2", encoding="utf-8")
    manifest = read_manifest(copy)
    manifest["payload"].append({**manifest["payload"][0], "path": "tables/customers.csv"})
    rewrite(copy, manifest)
    rehash(copy, rewrite)
    assert broken(copy) == {"no unlisted files": "tables/customers.csv"}


@pytest.mark.usefixtures("no_budget")
def test_of_another_version_words_are_not_compared(copy: Path, rewrite: Rewrite) -> None:
    """And that is said: tables are checked all the same."""
    manifest = read_manifest(copy)
    manifest["implementation"]["software"]["wattveil"] = "0.0.0"
    rewrite(copy, manifest)
    (copy / "CARD.md").write_bytes(b"\xff")
    rehash(copy, rewrite)
    verdict = verify_bundle(copy)
    assert verdict.accepted
    assert any("another version of the software" in line for line in verdict.not_proved)
    not_run, _ = verdict.not_run  # the other is the total with other releases
    assert not_run.check == "texts, card and report"
    assert "wattveil 0.0.0" in not_run.reason
    assert not any("0.0.0" in line for line in verdict.warnings)
    (copy / "CARD.md").write_bytes(b"changed after publication")
    assert any("0.0.0" in line for line in verify_bundle(copy).warnings)


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize(
    "request_",
    [
        EVERYTHING.replace(label_epsilon=None, clusters_by_group=True, epsilon=2),
        EVERYTHING.replace(label_epsilon=None, normalise=True, clip_kw=None, by=None, levels=()),
        ReleaseRequest(epsilon=20.0, delta=1e-2, n_clusters=2, tier=Tier.INSTANCE),
    ],
    ids=["clusters by group", "normalised", "instance"],
)
def test_releases_of_every_kind_are_accepted(tmp_path: Path, request_: ReleaseRequest) -> None:
    """What the layouts say is what the release writes."""
    make_bundle(tmp_path / "bundle", request_)
    assert not broken(tmp_path / "bundle")


@pytest.mark.usefixtures("no_budget")
def test_shapes_are_no_kilowatts(tmp_path: Path) -> None:
    """Normalised curves have columns without a unit, and labels are checked against them."""
    request = EVERYTHING.replace(normalise=True, by=None, levels=(), weights=only("clusters"))
    (clusters, _) = make_bundle(tmp_path / "bundle", request)["products"]
    own = {one["name"]: one for one in clusters["tables"][0]["columns"]}
    assert list(own)[-2:] == ["shape", "shape_std"]
    assert not {"unit"} & {*own["shape"], *own["shape_std"]}
    assert not broken(tmp_path / "bundle")
    page = (tmp_path / "bundle" / "report.html").read_text(encoding="utf-8")
    assert "Each customer was scaled to unit L2 norm" in page
    section = page.partition("<h2>Customer segments</h2>")[2].partition("</section>")[0]
    assert '<span class="unit">unit L2 norm</span>' in section
    assert "kW" not in section


@pytest.mark.usefixtures("no_budget", "no_pages")
def test_releases_of_whole_weeks_are_accepted(tmp_path: Path) -> None:
    """Of long rows fewer coordinates are queried than there are slots: that is valid."""
    grid = TimeGrid(split=Split.WEEK)
    weeks = replace(some_profiles(), load_kw=np.tile(some_profiles().load_kw, 7), grid=grid)
    request = EVERYTHING.replace(weights={"clusters": 0.0}, label_epsilon=None, epsilon=0.5)
    release_bundle(weeks, plan_release(request, grid), tmp_path / "bundle")
    (draw,) = (
        one["gaussian"]["numbers"]
        for one in read_manifest(tmp_path / "bundle")["products"][0]["runs"][0]["mechanisms"]
        if one["tag"] == "sums of load"
    )
    assert draw < 2 * grid.cells
    assert not broken(tmp_path / "bundle")
