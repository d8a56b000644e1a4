"""Verify the content: the manifest against itself, tables and pages against the manifest.

What follows from public choices is built again by the products and compared; so are the numbers
that follow from other released numbers, the card and the report. Values that were filtered from
unpublished noisy sums cannot be recomputed.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from wattveil.bundle.bundle_files import read_footer, read_table
from wattveil.bundle.card import card_text
from wattveil.bundle.manifest import (
    GUARANTEE_SCOPES,
    PROOFS,
    achieved_record,
    choice_of,
    customer_list_sha256,
    fixed_words,
    product_record,
    request_sha256,
)
from wattveil.bundle.plan import requested_products, stated_request
from wattveil.bundle.report import report_page
from wattveil.bundle.statistical_bias import bias_record
from wattveil.declaration import to_plain
from wattveil.errors import InvalidFileError
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.products.findings import Finding, gathered
from wattveil.products.product import Choice, Contents, Product
from wattveil.products.public_estimate import KW_ROUNDING_RULE, ROUNDING_RULE
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Column, Table, TableLayout
from wattveil.web.formatting import format_count

_ROUNDING = 1.0 + 1e-9
_KEYS = ("group", "cluster")
WRITERS = ("wattveil", "plotly")
_PLACE = 0.01
"""To which places in a drawing are rounded."""
_PLOT = re.compile(r'<div class="plot".*?</div>', re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.#-])-?\d+(?:\.\d+)?(?![\w.])")
"""A number as a drawing has it, and no part of a name."""

Tables = dict[str, Table]


def consistency(manifest: dict[str, Any]) -> Finding:
    """Compare fields of the manifest that follow from others."""
    return gathered(
        "the manifest is consistent",
        _contradictions(manifest),
        "guarantee, texts, request and products",
    )


def content_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check tables and pages against the manifest."""
    choice = choice_of(manifest)
    products = requested_products(choice.request)
    yield from _record_findings(manifest, products, choice)
    layouts = {layout.name: layout for product in products for layout in product.layouts(choice)}
    findings, tables = _table_findings(bundle, manifest, layouts.values())
    yield from findings
    records = {record["name"]: record for record in manifest["products"]}
    yield gathered(
        "each draw has one number per cell",
        (text for product in products for text in _size_problems(product, records, choice)),
        "segments by groups, groups by slots",
    )
    for product in products:
        record = records[product.name]
        yield from _achieved_findings(product, record, tables)
        yield from product.recompute(
            Contents(record=record, tables=tables, choice=choice, folder=bundle)
        )
    if choice.request.real_ids and "labels" in tables:
        listed = customer_list_sha256(tables["labels"].data["customer"].to_pylist())
        seen = "customer_list_sha256, of the published ids"
        is_same = listed == manifest["customer_list_sha256"]
        yield Finding("labels are about the stated customer list", is_same, seen)
    if layouts.keys() == tables.keys():
        due = bias_record(manifest, tables)
        seen = f"{len(due)} numbers and texts"
        yield Finding(
            "bias and errors follow from the tables", _same_bias(manifest["bias"], due), seen
        )
        yield from _page_findings(bundle, manifest, tables)


def _same_bias(stated: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, Any]]) -> bool:
    """Whether texts are equal, and numbers to five digits: machines round the last ones apart."""
    words = [[{**one, "value": one["value"] is None} for one in side] for side in (stated, due)]
    found, right = ([float(one["value"] or 0.0) for one in side] for side in (stated, due))
    return words[0] == words[1] and np.allclose(found, right, rtol=1e-5)


def is_same_software(manifest: dict[str, Any]) -> bool:
    """Whether texts and pages were written by the installed versions."""
    software = manifest.get("implementation", {}).get("software", {})
    return all(software.get(name) == version(name) for name in WRITERS)


def _contradictions(manifest: dict[str, Any]) -> Iterator[str]:
    guarantee, public = Guarantee.from_json(manifest["guarantee"]), manifest["request"]
    is_global = guarantee.tier is Tier.GLOBAL
    if manifest["guarantee_text"] != guarantee.sentence:
        yield "guarantee_text does not state guarantee"
    for field in ("epsilon", "delta", "tier"):
        if public[field] != manifest["guarantee"][field]:
            yield f"{field} was requested as {public[field]}"
    if manifest["request_sha256"] != request_sha256(manifest):
        yield "request_sha256 is not that of request, profiles and customer_list_sha256"
    words = ("approximate" if is_global else "instance", GUARANTEE_SCOPES[guarantee.tier])
    if (manifest["variant"], manifest["guarantee_scope"]) != words:
        yield "variant and guarantee_scope are those of another tier"
    choice = choice_of(manifest)
    yield from _request_problems(public, choice.request)
    names = [record["name"] for record in manifest["products"]]
    products = requested_products(choice.request)
    due = [product.name for product in products]
    if names != due:
        yield f"the products are {names}, requested were {due}"
        return
    is_listed = any(product.needs_customer_list for product in products)
    if is_listed != (manifest["customer_list_sha256"] is not None):
        yield "customer_list_sha256 must be stated with labels, and only then"
    for product, record in zip(products, manifest["products"], strict=True):
        for problem in _record_problems(product, record, choice):
            yield f"{product.name}: {problem}"


def _request_problems(stated: dict[str, Any], request: ReleaseRequest) -> Iterator[str]:
    """Compare the request as stated with the one that it reads as."""
    rules = {"customers": ROUNDING_RULE, "typical_kw": KW_ROUNDING_RULE}
    unrounded = [name for name in rules if float(stated[name]) != getattr(request, name)]
    for name in unrounded:
        yield f"{name} is {stated[name]}, not {rules[name]}"
    if not unrounded and {**stated, "about": to_plain(request.about)} != stated_request(request):
        yield "the request is not written in canonical form"


def _record_problems(product: Product, record: dict[str, Any], choice: Choice) -> Iterator[str]:
    """Compare runs, draws and budget of a product with those that it has."""
    request = choice.request
    groups = [run["group"] for run in record["runs"]]
    if groups != [*product.run_groups(request)]:
        yield f"runs of {groups}; only disjoint groups are composed in parallel"
    drawn = [one for run in record["runs"] for one in run["mechanisms"]]
    used = {one["mechanism"] for one in drawn}
    if not used <= product.mechanisms:
        yield f"draws by {sorted(used - product.mechanisms)}, which it does not use"
    if any(one["proof"] != PROOFS[one["mechanism"]] for one in drawn):
        yield "another proof than that of its mechanism"
    n_labels = product.n_labels(choice)
    if len(record.get("channel", [])) != (0 if n_labels is None else n_labels + 1):
        yield f"the channel is not one of {n_labels or 'no'} labels"
    for run in record["runs"]:
        tags = [one["tag"] for one in run["mechanisms"]]
        due = {*product.draws(tags, choice)}
        if missing := sorted(due - {*tags}):
            yield f"no draw is stated for {missing}"
        if {*tags} - due or len({*tags}) < len(tags):
            yield "draws that it does not make"
    yield from _budget_problems(product, record, choice)


def _budget_problems(product: Product, record: dict[str, Any], choice: Choice) -> Iterator[str]:
    """Compare epsilon and delta with those that the request fixes.

    In the instance tier all of the grant is charged for one draw: the noise is private, so nothing
    else would reveal a charge that is too small.
    """
    allotment = product.fixed_allotment(choice.request)
    if allotment is None:
        # An epsilon at another delta could not be compared with that of the release.
        if record["delta"] != repr(choice.request.delta):
            yield f"its epsilon is at delta {record['delta']}, not at that of the release"
        return
    guarantee, grant = allotment.guarantee, allotment.grant
    if (record["epsilon"], record["delta"]) != (repr(guarantee.epsilon), repr(guarantee.delta)):
        yield "another epsilon or delta than the request sets aside for it"
    if product.tier is Tier.INSTANCE:
        cost = {"response_epsilon": repr(grant.response_epsilon)}
        if grant.rho_units:
            cost = {"rho_units": str(grant.rho_units)}
        stated = [record["grant"], *(one for run in record["runs"] for one in run["mechanisms"])]
        if any(one.get(field) != due for one in stated for field, due in cost.items()):
            yield "another cost than that of the epsilon that was requested"


def _record_findings(
    manifest: dict[str, Any], products: Sequence[Product], choice: Choice
) -> Iterator[Finding]:
    """Compare the tables that the manifest describes with those of the products."""
    for product, stated in zip(products, manifest["products"], strict=True):
        fixed = product_record(product, choice)
        problems = [
            f"{field} is not that of such a release"
            for field in ("postprocessing", "documents")
            if stated.get(field) != fixed.get(field)
        ]
        tables = [{**table, "rows": None} for table in stated["tables"]]
        layouts = product.layouts(choice)
        due = [
            {
                "name": layout.name,
                "text": layout.text,
                "rows": None,
                "columns": [column.to_json() for column in layout.columns],
            }
            for layout in layouts
        ]
        if tables != due:
            problems += ["tables, columns or their limits are not those of such a release"]
        names = ", ".join(layout.name for layout in layouts)
        yield gathered(f"contents of product {product.name}", problems, names)


def _achieved_findings(
    product: Product, record: dict[str, Any], tables: Tables
) -> Iterator[Finding]:
    """Count again in the released values what the manifest states as achieved."""
    due = achieved_record(product, record, tables).get("achieved", [])
    stated = record.get("achieved", [])
    if due or stated:
        seen = ", ".join(f"{one['quantity']}: {one['count']} of {one['of']}" for one in due)
        check = f"quality achieved by product {product.name}"
        yield Finding(check, stated == due, seen or "not in its tables")


def _size_problems(product: Product, records: Mapping[str, Any], choice: Choice) -> Iterator[str]:
    """Compare the size of each draw with the minimum for the cells of the product."""
    for run in records[product.name]["runs"]:
        due = product.draws([one["tag"] for one in run["mechanisms"]], choice)
        for mechanism in run["mechanisms"]:
            numbers = mechanism.get("gaussian", {"numbers": math.inf})["numbers"]
            if numbers < due[mechanism["tag"]]:
                minimum = due[mechanism["tag"]]
                counted = format_count(numbers, "number")
                yield f"{mechanism['tag']}: {counted}, at least {minimum} needed"


def _table_findings(
    bundle: Path, manifest: dict[str, Any], layouts: Iterable[TableLayout]
) -> tuple[list[Finding], Tables]:
    """Check every table: shape, keys, ranges, grid, both formats; return those that are intact."""
    findings, tables = [], {}
    rows = {
        table["name"]: table["rows"]
        for record in manifest["products"]
        for table in record["tables"]
    }
    for layout in layouts:
        found, data = _checked(bundle, layout, rows.get(layout.name))
        findings += [found]
        if data is not None:
            tables[layout.name] = Table(
                name=layout.name, text=layout.text, columns=layout.columns, data=data
            )
    return findings, tables


def _checked(
    bundle: Path, layout: TableLayout, rows: int | None
) -> tuple[Finding, pa.Table | None]:
    """Check one table; return it if it is intact."""
    check = f"table {layout.name}"
    try:
        unread = list(_footer_problems(layout, read_footer(bundle, layout.name), rows))
        if unread:
            return gathered(check, unread, "none"), None
        data = read_table(bundle, layout.name)
        text = read_table(bundle, layout.name, csv_types=layout.schema)
    except InvalidFileError as error:
        return Finding(check, holds=False, seen=f"cannot be read: {error.where}"), None
    size = f"{format_count(data.num_rows, 'row')} of {format_count(data.num_columns, 'column')}"
    fine = f"{size}, within range, both formats"
    found = gathered(check, _table_problems(layout, data, text, rows), fine)
    return found, data if found.holds else None


def _footer_problems(
    layout: TableLayout, footer: pq.FileMetaData, rows: int | None
) -> Iterator[str]:
    """Check the footer before any value: values may take thousands of times as many bytes."""
    if not footer.schema.to_arrow_schema().equals(layout.schema, check_metadata=True):
        yield "columns are not those of such a release"
        return
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    stated = {sum(group.num_rows for group in groups)} | {
        sum(group.column(place).num_values for group in groups)
        for place in range(footer.num_columns)
    }
    if footer.num_rows != rows:
        yield f"{format_count(footer.num_rows, 'row')}, and {rows} in the manifest"
    elif stated != {rows}:
        yield f"{format_count(footer.num_rows, 'row')}, and other numbers of values"


def _table_problems(
    layout: TableLayout, data: pa.Table, text: pa.Table, rows: int | None
) -> Iterator[str]:
    if data.num_rows != rows:
        yield "other rows than the footer states"
    if not text.equals(data):
        yield "CSV and Parquet differ"
    if layout.keys and not data.select([column.name for column in layout.keys]).equals(
        layout.known
    ):
        yield "rows are not those of the requested segments, groups and slots"
        return
    for column in layout.columns:
        yield from _column_problems(data[column.name], column)
    if layout.max_rms is not None:
        yield from _rms_problems(data, layout.max_rms)


def _column_problems(values: pa.ChunkedArray, column: Column) -> Iterator[str]:
    if values.null_count and not column.may_be_empty:
        yield f"{column.name} has empty cells"
    if column.type == "string":
        return
    numbers = values.drop_null().to_numpy()
    if not np.isfinite(numbers).all():
        yield f"{column.name} is not finite"
        return
    least = -np.inf if column.minimum is None else column.minimum
    most = np.inf if column.maximum is None else column.maximum
    if numbers.size and (numbers.min() < least or numbers.max() > most):
        yield f"{column.name} is out of its range"
    if column.grid_step is not None and np.mod(numbers, column.grid_step).any():
        yield f"{column.name} is off its grid"


def _rms_problems(data: pa.Table, most: float) -> Iterator[str]:
    """Compare the curves of clusters or groups with the bound on customers."""
    keys = [data[name].cast(pa.string()) for name in _KEYS if name in data.column_names]
    curve = compute.binary_join_element_wise(*keys, " ").to_numpy(zero_copy_only=False)
    squares = np.square(data["load_kw"].to_numpy())
    _, place, times = np.unique(curve.astype(str), return_inverse=True, return_counts=True)
    rms = np.sqrt(np.bincount(place, weights=squares) / times)
    if (rms > most * _ROUNDING).any():
        yield f"a mean load is beyond the bound of {most:g} kW on customers"


def _page_findings(bundle: Path, manifest: dict[str, Any], tables: Tables) -> Iterator[Finding]:
    """Write texts, card and report again, and compare.

    Only the same version of the software writes the same texts: of another, nothing is compared.
    """
    if not is_same_software(manifest):
        return
    counted = not isinstance(manifest["cumulative"], str)
    products = requested_products(choice_of(manifest).request)
    due = fixed_words(manifest, products, counted=counted)
    made = manifest["implementation"]
    stated = {**manifest, "implementation": {name: made[name] for name in due["implementation"]}}
    yield gathered(
        "the texts of the manifest are those of the software",
        (field for field, words in due.items() if stated[field] != words),
        format_count(len(due), "field"),
    )
    card, page = _text(bundle / "CARD.md"), _text(bundle / "report.html")
    yield gathered(
        "the card agrees with the manifest",
        _card_problems(card, card_text(manifest)),
        "derived again",
    )
    yield gathered(
        "the report agrees with the tables",
        page_problems(page, report_page(manifest, tables)),
        "texts compared exactly, figures to the last digit drawn",
    )


def _card_problems(card: str, due: str) -> Iterator[str]:
    """Yield where a card differs first from the text that the manifest gives."""
    pairs = zip_longest(card.split("\n"), due.split("\n"))
    for number, (found, right) in enumerate(pairs, start=1):
        if found != right:
            yield (
                f"CARD.md differs from the text derived from the manifest, first in line {number:,}"
            )
            return


def page_problems(page: str, due: str) -> Iterator[str]:
    """Yield how a page differs from the one that is due."""
    if _PLOT.sub("plot", page) != _PLOT.sub("plot", due):
        yield "its text differs"
    elif not all(map(_same_plot, _PLOT.findall(page), _PLOT.findall(due))):
        yield "a figure shows different numbers"


def _same_plot(shown: str, due: str) -> bool:
    """Whether two drawings agree, numbers to their last digit: machines may round apart."""
    found, right = _NUMBER.findall(shown), _NUMBER.findall(due)
    return (
        _NUMBER.sub("number", shown) == _NUMBER.sub("number", due)
        and len(found) == len(right)
        and all(map(_same_number, found, right))
    )


def _same_number(shown: str, due: str) -> bool:
    step = min(_PLACE, 10.0 ** -len(due.partition(".")[2]))
    return abs(float(shown) - float(due)) <= step * _ROUNDING


def _text(path: Path) -> str:
    """Read a page; empty if it is missing or no text."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
