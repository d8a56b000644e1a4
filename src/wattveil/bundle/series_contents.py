"""Verify what the bundles of a series contain: files, tables in both formats, texts, report.

All is written again from the released numbers and the request, and compared. Two kinds of numbers
follow from draws that are not published, and are taken as they are: the first estimate of period 1
(tables ``first_means`` and ``first_groups``), and clusters in the periods in which they were found
(``segment_cells`` and ``segment_centres``).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from wattveil.arrays import Floats
from wattveil.bundle import bundle_files
from wattveil.bundle.series_bundle import (
    DAYS_CHECKED,
    REPORT,
    Manifest,
    build_manifest,
    raw_names,
    read_manifest,
    read_table,
    table_names,
)
from wattveil.bundle.series_report import series_report
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import SeriesResult, raw_tables
from wattveil.bundle.verify.verify_content import page_problems
from wattveil.errors import WattveilError
from wattveil.products.findings import same_numbers
from wattveil.release.load_series import ReleasedSeries

_OF_FILES = {"payload", "signature"}
_OF_WRITING = {"published_at", "software"}
_TEXTS = {"unprotected", "known_limits"}
_ENTRY = {"path", "bytes", "sha256"}


def is_same_software(manifest: Manifest) -> bool:
    """Whether texts and report were written by the installed version."""
    return bool(manifest["software"].get("wattveil") == version("wattveil"))


def listed_problems(manifest: Manifest) -> Iterator[str]:
    """Yield the listed files that a period does not have, and those that it lacks."""
    tables = table_names(manifest)
    due = {REPORT, *(f"tables/{name}.csv" for name in tables)}
    due |= {f"tables/{name}.parquet" for name in (*tables, *raw_names(manifest))}
    listed = [entry["path"] for entry in manifest["payload"]]
    yield from sorted(due ^ {*listed})
    if len({*listed}) < len(listed):
        yield "a file is listed twice"
    if any({*entry} != _ENTRY for entry in manifest["payload"]):
        yield "a list of files with other fields"


def format_problems(bundle: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the tables whose CSV is not their Parquet."""
    for name in table_names(manifest):
        table = read_table(bundle, name)
        try:
            text = bundle_files.read_table(bundle, name, csv_types=table.schema)
        except WattveilError:
            yield f"{name}.csv cannot be read"
            continue
        if not _same_table(text, table, exactly=True):
            yield f"{name}.csv differs from {name}.parquet"


def content_problems(bundles: Sequence[Path], released: ReleasedSeries) -> Iterator[str]:
    """Yield what does not follow from the raw numbers: centres, tables, manifests, reports."""
    by_period = {read_manifest(bundle)["period"] - 1: bundle for bundle in bundles}
    for place, one in enumerate(released.periods):
        past, until = (
            ReleasedSeries(
                design=released.design, first=released.first, periods=released.periods[:number]
            )
            for number in (place, place + 1)
        )
        due = past.next_centres(one.period) if place else released.begun().estimate.mean
        if not same_numbers(one.centres, due):
            yield f"centres of period {one.period + 1}"
        bundle = by_period[one.period]
        manifest = read_manifest(bundle)
        request = SeriesRequest.parse(manifest["request"])
        for problem in _period_problems(bundle, manifest, request, until):
            yield f"{problem} of period {one.period + 1}"


def _period_problems(
    bundle: Path, manifest: Manifest, request: SeriesRequest, until: ReleasedSeries
) -> Iterator[str]:
    """Yield what differs from the period as it would be written now."""
    result = SeriesResult(request=request, released=until)
    tables = {name: result.to_arrow(name) for name in result.tables} | raw_tables(until)
    for name, expected in tables.items():
        if not _same_table(read_table(bundle, name), expected, exactly=False):
            yield f"table {name}"
    for field in _field_problems(manifest, request, until):
        yield f"field {field} of the manifest"
    if is_same_software(manifest):
        page = (bundle / REPORT).read_text("utf-8")
        for problem in page_problems(page, series_report(manifest, result)):
            yield f"{REPORT} ({problem})"


def _field_problems(
    manifest: Manifest, request: SeriesRequest, until: ReleasedSeries
) -> Iterator[str]:
    """Yield the fields that are not those of such a period; the cost accrued is checked apart."""
    due = build_manifest(
        request, until, series=manifest["series"], previous=manifest["previous_sha256"]
    )
    yield from sorted((manifest.keys() - _OF_FILES - {DAYS_CHECKED}) ^ due.keys())
    if not isinstance(manifest.get(DAYS_CHECKED, False), bool):
        yield DAYS_CHECKED
    skipped = {"accrued", *_OF_WRITING, *(set() if is_same_software(manifest) else _TEXTS)}
    for name in due.keys() - skipped:
        if manifest.get(name) != due[name]:
            yield name
    accrued, least = manifest["accrued"], due["accrued"]
    if {*accrued} != {*least} or float(accrued["epsilon"]) < float(least["epsilon"]):
        yield "accrued"
    if {*manifest["software"]} != {*due["software"]}:
        yield "software"
    if datetime.fromisoformat(manifest["published_at"]).tzinfo is None:
        yield "published_at"


def _same_table(found: pa.Table, due: pa.Table, *, exactly: bool) -> bool:
    """Whether two tables have the same columns and rows: numbers exactly, or to six digits."""
    if not found.schema.equals(due.schema, check_metadata=not exactly):
        return False
    return all(
        _same(found[name].to_numpy(), due[name].to_numpy(), exactly=exactly)
        for name in found.column_names
    )


def _same(found: Floats, due: Floats, *, exactly: bool) -> bool:
    if np.asarray(due).dtype.kind != "f":
        return bool(np.array_equal(found, due))
    if exactly:
        return bool(np.array_equal(found, due, equal_nan=True))
    return same_numbers(found, due)
