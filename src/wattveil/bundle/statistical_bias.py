"""Statistical bias and errors of a release: numbers for manifest and report, from released tables.

Two kinds of error are stated apart. *Privacy noise* is how far a released number is from that of
the customers in the data. *Sampling error* is how far these customers are from the population, if
they are a sample of it. An interval for the population covers both::

    load ± 1.96 sqrt(noise^2 + sampling^2)

Everything here is post-processing of released tables and public statements: it costs no budget.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.products.mean_load import why_no_mean_load
from wattveil.products.request import ALL_CUSTOMERS_SELECTED, NOT_STATED
from wattveil.products.ruled_load import published
from wattveil.products.tables import Table
from wattveil.web.charts import TWO_SIDED_95

CLIPPING, SHRINKAGE = "clipping", "shrinkage"
EXCLUDED, NOISE, SAMPLING = "excluded customers", "privacy noise", "sampling"
BOUND, LIMIT, INCLUDED = "upper bound", "clipping limit", "included in std_kw"
STANDARD_ERROR, SHARE = "standard error", "share"
"""Kinds of numbers: a bound is not an estimate; only a standard error is part of an interval."""
_DISPERSION = 1.25
"""Spread of customers over that of synthetic ones, whose largest are clipped: 1.24 for 500
simulated homes at epsilon 12 (150 releases), 1.26 for 1,000 at epsilon 4 (120 releases)."""
_BY_GROUP = ("groups", "load_shapes")


def bias_record(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Return the bias section of a manifest; a number that is not known is None.

    Parameters
    ----------
    manifest
        Request, processing and publisher's texts.
    tables
        Every released table, by name.
    """
    shown = _published(tables)
    return [*_clipping(manifest, shown), *_coverage(manifest, shown), *_errors(manifest, shown)]


def population_std_kw(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> Floats | None:
    """Return the sampling error of each mean load, by group and slot; None if it is not known.

    The spread of customers in a slot is that of the released synthetic customers, times a constant,
    since they are less dispersed than customers. The error of the mean of n customers out of N is
    ``spread / sqrt(n) sqrt(1 - n / N)``, where N, if stated, is the number of all meters and n the
    released number of customers. Of groups it is not known: synthetic customers have none.
    """
    if _unknown_because(manifest, tables):
        return None
    tables = _published(tables)
    counts = tables["groups"].column("customers")
    slots = tables["load_shapes"].column("load_kw").size // counts.size
    if manifest["selection"] == ALL_CUSTOMERS_SELECTED:
        return np.zeros((counts.size, slots))
    made_kw = tables["synthetic"].column("load_kw").reshape(-1, slots)
    spread = _DISPERSION * made_kw.std(axis=0, ddof=1)
    customers = np.maximum(counts, 1.0)
    rest = 1.0 - min(customers.sum() / _all_meters(manifest), 1.0)
    errors: Floats = spread[None, :] * np.sqrt(rest / customers)[:, None]
    return errors


def population_intervals(
    manifest: Mapping[str, Any], tables: Mapping[str, Table]
) -> tuple[Floats, Floats] | None:
    """Return 95 % intervals of the mean load of the population, by group and slot.

    None without synthetic customers, whose spread is that of the population.
    """
    sampling = population_std_kw(manifest, tables)
    if sampling is None:
        return None
    shapes = _published(tables)["load_shapes"]
    mean, noise = (shapes.column(name).reshape(sampling.shape) for name in ("load_kw", "std_kw"))
    reach = TWO_SIDED_95 * np.hypot(noise, sampling)
    return mean - reach, mean + reach


def population_table(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> pa.Table:
    """Return the intervals of `population_intervals` as a table by group and slot."""
    found = population_intervals(manifest, tables)
    if found is None:
        rule = "of a release from which they can be computed"
        text = _unknown_because(manifest, tables)
        raise InvalidParameterError("bundle", rule, manifest["title"], text=text)
    low, high = found
    kept = ("group", "slot", "time", "load_kw")
    shown = _published(tables)["load_shapes"].data.select(kept)
    return shown.append_column("low_kw", pa.array(low.ravel())).append_column(
        "high_kw", pa.array(high.ravel())
    )


_BECAUSE = "the sampling error is not known, because "


def _unknown_because(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """Return the condition for a known sampling error that fails first; empty if none fails."""
    if missing := why_no_mean_load(manifest["request"], tables):
        return missing
    selection = manifest["selection"]
    if selection == ALL_CUSTOMERS_SELECTED:
        return ""
    if selection == NOT_STATED:
        reason = "this release does not state how customers were selected (--selection)"
    elif manifest["request"]["levels"]:
        reason = (
            "this release is by group: it is computed from the variation of synthetic customers,"
            " who belong to no group"
        )
    elif "synthetic" not in tables:
        reason = (
            "it is computed from the variation of synthetic customers, and this release has none"
        )
    else:
        return ""
    return f"{_BECAUSE}{reason}"


def _entry(
    source: str, quantity: str, kind: str, value: float | None, basis: str
) -> dict[str, Any]:
    number = None if value is None or not math.isfinite(value) else repr(float(f"{value:.6g}"))
    return {
        "source": source,
        "quantity": quantity,
        "kind": kind,
        "value": number,
        "unit": "" if kind == SHARE else "kW",
        "basis": basis,
    }


def _clipping(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> Iterator[dict[str, Any]]:
    names = {part["name"] for part in manifest["products"]}
    if "groups" in tables:
        for name, value in _by_group(tables, "max_clipping_bias_kw"):
            basis = (
                "upper bound, valid in 97.5 % of releases, on what undetected very large customers"
                " could add to the mean beyond its band; computed from noisy sizes without further"
                " budget; not an estimate"
            )
            yield _entry(CLIPPING, f"mean load, {name}", BOUND, value, basis)
    if "load_shapes" in tables:
        basis = "estimated from noisy sizes and added back; std_kw covers the error of the estimate"
        yield _entry(CLIPPING, "mean load, as estimated", INCLUDED, None, basis)
        basis = "included in std_kw, together with the noise"
        yield _entry(SHRINKAGE, "shrinkage of the mean load by the filter", INCLUDED, None, basis)
    if "clusters" in names:
        clip_kw = manifest["request"]["clip_kw"]
        known = "public bound: a larger customer is clipped to this size"
        unknown = "not bounded publicly: clip_kw was not given"
        bound = None if clip_kw is None else float(clip_kw)
        basis = unknown if bound is None else known
        yield _entry(CLIPPING, "load curves of segments", LIMIT, bound, basis)


def _coverage(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> Iterator[dict[str, Any]]:
    """Return the share of all meters that the release covers."""
    whole, value = _all_meters(manifest), None
    basis = (
        "not known: the number of all meters is not stated (--all-meters), or no number of"
        " customers was released"
    )
    if "groups" in tables and math.isfinite(whole):
        counts = np.nan_to_num(tables["groups"].column("customers"))
        value = min(float(counts.sum()) / whole, 1.0)
        basis = "released number of customers over the stated number of all meters"
    yield _entry(EXCLUDED, "share of all meters that is covered", SHARE, value, basis)


def _errors(manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> Iterator[dict[str, Any]]:
    """Return both kinds of error of a mean load, as root mean square over slots."""
    if any(name not in tables for name in _BY_GROUP):
        return
    sampling = population_std_kw(manifest, tables)
    groups = tables["groups"].data["group"].to_pylist()
    noise = tables["load_shapes"].column("std_kw").reshape(len(groups), -1)
    selection = manifest["selection"]
    if sampling is None:
        reason = _unknown_because(manifest, tables).removeprefix(_BECAUSE)
        basis = f"not known: {reason}"
    elif selection == ALL_CUSTOMERS_SELECTED:
        basis = "0, because all customers were selected"
    else:
        basis = (
            "from the variation of synthetic customers and the released numbers of customers;"
            f" selection: {selection}"
        )
    for place, group in enumerate(groups):
        level = float(np.sqrt(np.square(noise[place]).mean()))
        known = "known noise, with shrinkage and the expected error of the clipping correction"
        yield _entry(NOISE, f"mean load, {group}", STANDARD_ERROR, level, known)
        value = None if sampling is None else float(np.sqrt(np.square(sampling[place]).mean()))
        yield _entry(SAMPLING, f"mean load, {group}", STANDARD_ERROR, value, basis)


def _published(tables: Mapping[str, Table]) -> Mapping[str, Table]:
    """Return the tables without cells that an aggregation rule hides; none if it hides all."""
    if "groups" not in tables or "status" not in tables["groups"].data.column_names:
        return tables
    shown = published(tables)
    if not shown["groups"].data.num_rows:
        return {name: table for name, table in tables.items() if name not in shown}
    return {**tables, **shown}


def _by_group(tables: Mapping[str, Table], column: str) -> Iterator[tuple[str, float]]:
    groups = tables["groups"]
    yield from zip(groups.data["group"].to_pylist(), groups.column(column).tolist(), strict=True)


def _all_meters(manifest: Mapping[str, Any]) -> float:
    """Return the stated number of all meters; infinite if none is stated."""
    stated = manifest["all_meters"]
    return math.inf if stated == NOT_STATED else float(stated)
