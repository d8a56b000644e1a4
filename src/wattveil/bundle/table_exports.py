"""Released tables in the forms that planners load: standard load profiles, and maps.

Post-processing of the tables of a bundle, at no privacy cost.

A standard load profile states the load of a customer class by season and kind of day, scaled to an
annual consumption of 1,000 kWh, as the profiles of BDEW are: a planner multiplies it by the annual
consumption of the customer. Curves that privacy noise may dominate, or that feed in at times, are
flagged, and so are readings that do not cover a year.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from wattveil import checks
from wattveil.bundle.bundle_files import read_complete_manifest, read_table
from wattveil.bundle.card import stated_days
from wattveil.bundle.drawn_customers import remove
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split

_SCALED_TO_KWH = 1000.0
AREA_PROPERTY = "name"
"""Property of an area that has the name of its group, unless another is named."""
_ALL = "all"
"""Group of a release without groups."""
_YEAR_DAYS = 365.0
_SEASON_DAYS = {"Dec-Feb": 90.0, "Mar-May": 92.0, "Jun-Aug": 92.0, "Sep-Nov": 91.0}
_DAY_SHARES = {"weekday": 5.0 / 7.0, "weekend": 2.0 / 7.0}
_COLUMNS = pa.schema(
    [
        ("profile", pa.string()),
        ("season", pa.string()),
        ("day_type", pa.string()),
        ("time", pa.string()),
        ("watt_per_1000_kwh", pa.float64()),
        ("std_watt_per_1000_kwh", pa.float64()),
        ("annual_kwh", pa.float64()),
        ("std_annual_kwh", pa.float64()),
        ("flag", pa.string()),
        ("period", pa.string()),
    ]
)
_DIGITS = 4
"""Decimals of the numbers in files."""
_MIN_ERRORS = 5.0
"""Standard errors of the annual consumption below which a curve is flagged."""


class StandardProfiles(NamedTuple):
    """Names of standard load profiles that were written, and what a planner must know of them."""

    written: tuple[str, ...]
    omitted: tuple[str, ...]
    """Curves whose annual consumption is not positive, because of noise or of generation."""
    flagged: dict[str, str]
    """Profiles written that should not be used unchecked, with the reason."""
    notice: str
    """That readings do not cover a year, or that their period is not stated; else empty."""


def write_standard_profiles(bundle: Path, out: Path, *, force: bool = False) -> StandardProfiles:
    """Write the standard load profile of every group and segment; return the names of profiles.

    A curve whose annual consumption is not positive cannot be scaled, and is omitted.

    Parameters
    ----------
    bundle
        Folder of a release with load by group, or with clusters in kW.
    out
        New .csv or .parquet file: profile, season, kind of day, time, load in W for an annual
        consumption of 1,000 kWh with its standard error, the annual consumption in kWh of the
        profile itself with its standard error, a flag, and the period of the readings. The standard
        error of a value is that of its own load: the annual consumption, a mean over all slots, is
        taken as exact. For the error of the annual consumption, those of slots are taken as
        perfectly correlated, which is the largest that it can be.
    force
        Overwrite an existing file.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise InvalidParameterError("out", "a file that ends in .csv or .parquet", str(out))
    manifest = read_complete_manifest(bundle)
    grid = TimeGrid.from_json(manifest["profiles"]["grid"])
    curves = {name: curve[: grid.cells] for name, curve in _curves(bundle)}  # no closing midnight
    if not curves:
        expected = "load by group, or clusters that are not normalised"
        raise InvalidFileError(bundle, "tables", expected, None)
    annual_kwh = {name: _annual_kwh(curve, grid, "load_kw") for name, curve in curves.items()}
    std_kwh = {name: _annual_kwh(curve, grid, "std_kw") for name, curve in curves.items()}
    written = tuple(name for name, kwh in annual_kwh.items() if kwh > 0.0)
    flags = {name: _flag(curves[name], annual_kwh[name], std_kwh[name]) for name in written}
    days = stated_days(manifest)
    period = "not stated" if days is None else f"{days[0]} to {days[1]}"
    rows = [
        {
            "profile": name,
            "annual_kwh": round(annual_kwh[name], _DIGITS),
            "std_annual_kwh": round(std_kwh[name], _DIGITS),
            "flag": flags[name],
            "period": period,
            **row,
        }
        for name in written
        for row in _standard_profile(curves[name], grid, annual_kwh[name])
    ]
    table = pa.Table.from_pylist(rows, schema=_COLUMNS)

    def write(path: Path) -> None:
        if out.suffix == ".csv":
            pc.write_csv(table, path)
        else:
            pq.write_table(table, path)

    _write_file(out, write, force=force)
    return StandardProfiles(
        written,
        tuple(name for name in curves if name not in written),
        {name: flag for name, flag in flags.items() if flag},
        _period_notice(days),
    )


def _flag(curve: list[Mapping[str, Any]], annual_kwh: float, std_kwh: float) -> str:
    """Return why a profile should not be used unchecked; empty if nothing is known."""
    reasons = []
    if annual_kwh < _MIN_ERRORS * std_kwh:
        reasons.append(f"annual consumption below {_MIN_ERRORS:g} standard errors")
    if min(float(row["load_kw"]) for row in curve) < 0.0:
        reasons.append("load changes sign")
    return "; ".join(reasons)


def _period_notice(days: tuple[date, date] | None) -> str:
    """Return that readings do not cover a year, or that their period is not stated."""
    if days is None:
        return (
            "The period of the readings is not stated: annual consumption is that of a year of"
            " days like theirs."
        )
    n_days = (days[1] - days[0]).days + 1
    if n_days >= _YEAR_DAYS:
        return ""
    return (
        f"The readings cover {n_days} days, {days[0]} to {days[1]}, and not a year: annual"
        " consumption is that of a year of days like theirs."
    )


def _curves(bundle: Path) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Return the load curves of groups and segments, each as its rows in order of the slots."""
    tables = {path.stem for path in (bundle / "tables").glob("*.parquet")}
    for table, what in (("load_shapes", "group"), ("centroids", "cluster")):
        if table not in tables:
            continue
        data = read_table(bundle, table)
        if "load_kw" not in data.column_names:  # normalised clusters have shapes without a unit
            continue
        curves: dict[str, list[Mapping[str, Any]]] = {}
        for row in data.to_pylist():
            name = f"group {row['group']}"
            if what == "cluster":
                name = f"segment {row['cluster']}"
                name += "" if row["group"] == "all" else f" of {row['group']}"
            curves.setdefault(name, []).append(row)
        for name, rows in curves.items():
            if all(row["load_kw"] is not None for row in rows):  # not suppressed by a rule
                yield name, sorted(rows, key=lambda row: int(row["slot"]))


def _annual_kwh(curve: list[Mapping[str, Any]], grid: TimeGrid, column: str) -> float:
    """Return the annual sum of a column: hours of a slot, times days of its part, times kW."""
    hours = grid.minutes / 60.0
    return sum(
        hours * _part(grid, place)[2] * float(row[column]) for place, row in enumerate(curve)
    )


def _standard_profile(
    curve: list[Mapping[str, Any]], grid: TimeGrid, annual_kwh: float
) -> Iterator[dict[str, Any]]:
    """Return a curve in W for an annual consumption of 1,000 kWh."""
    scale = 1000.0 * _SCALED_TO_KWH / annual_kwh
    for place, row in enumerate(curve):
        season, day_type, _ = _part(grid, place)
        yield {
            "season": season,
            "day_type": day_type,
            "time": grid.labels[place].split(" ")[-1],
            "watt_per_1000_kwh": round(scale * row["load_kw"], _DIGITS),
            "std_watt_per_1000_kwh": round(scale * row["std_kw"], _DIGITS),
        }


def _part(grid: TimeGrid, cell: int) -> tuple[str, str, float]:
    """Return season, kind of day, and days per year that a cell of the grid stands for."""
    words = grid.labels[cell].split(" ")[:-1]  # the last word is the time
    season = next((word for word in words if word in _SEASON_DAYS), "year")
    day_type = next((word for word in words if word not in _SEASON_DAYS), "every day")
    days = _SEASON_DAYS.get(season, _YEAR_DAYS)
    if grid.split is Split.WEEK:
        return season, day_type, days / 7.0
    return season, day_type, days * _DAY_SHARES.get(day_type, 1.0)


def write_map(
    bundle: Path, geometry: Path, out: Path, *, area_property: str, force: bool = False
) -> int:
    """Join load by group to areas of a public GeoJSON file; return the number of matched areas.

    Each feature whose property equals the name of a group receives the released number of
    customers, mean load and peak, with standard errors. Features without a group, and groups that
    a rule suppressed, keep their geometry and have null values.

    Parameters
    ----------
    bundle
        Folder of a release with load by group (`wattveil release --by`).
    geometry
        GeoJSON feature collection of public areas.
    out
        New .geojson file.
    area_property
        Property of the features that has the name of the group.
    force
        Overwrite an existing file.
    """
    if out.suffix not in (".geojson", ".json"):
        raise InvalidParameterError("out", "a file that ends in .geojson or .json", str(out))
    try:
        areas = json.loads(geometry.read_text("utf-8"))
        features = [dict(feature) for feature in dict(areas).get("features", ())]
        names = [str(feature["properties"][area_property]) for feature in features]
    except KeyError:
        expected = f"the property {area_property!r} in every feature"
        found = sorted({str(name) for one in features for name in one.get("properties") or ()})
        raise InvalidFileError(geometry, "properties", expected, ", ".join(found)) from None
    except (OSError, ValueError, TypeError) as error:
        expected = "a GeoJSON feature collection"
        raise InvalidFileError(geometry, "content", expected, str(error)) from error
    values = _area_values(bundle)
    shown = {name for name, own in values.items() if own["mean_kw_per_customer"] is not None}
    unknown = sorted(shown - set(names) - {_ALL})
    if unknown or values.keys().isdisjoint(names):
        missing = (unknown or sorted(values))[0]
        rule = f"a property with the names of all groups; there is no area {missing!r}"
        raise InvalidParameterError("area", rule, area_property)
    empty = dict.fromkeys(next(iter(values.values())))
    for feature, name in zip(features, names, strict=True):
        feature["properties"] = {**feature["properties"], **values.get(name, empty)}
    text = json.dumps({**areas, "features": features}, ensure_ascii=False) + "\n"
    _write_file(out, lambda path: path.write_text(text, "utf-8"), force=force)
    return sum(name in values for name in names)


def _area_values(bundle: Path) -> dict[str, dict[str, float | None]]:
    """Return the released values of each group: customers, mean load and peak."""
    counts = {row["group"]: row for row in read_table(bundle, "groups").to_pylist()}
    curves = {name.removeprefix("group "): rows for name, rows in _curves(bundle)}
    found: dict[str, dict[str, float | None]] = {}
    for group, row in counts.items():
        curve = curves.get(group, [])
        peak = max(curve, key=lambda one: float(one["load_kw"]), default=None)
        mean = sum(one["load_kw"] for one in curve) / len(curve) if curve else None
        found[group] = {
            "customers": _rounded(row.get("customers")),
            "customers_std": _rounded(row.get("customers_std")),
            "mean_kw_per_customer": _rounded(mean),
            "peak_kw_per_customer": _rounded(peak["load_kw"] if peak else None),
            "peak_std_kw": _rounded(peak["std_kw"] if peak else None),
        }
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)


def _write_file(out: Path, write: Callable[[Path], object], *, force: bool) -> None:
    """Write a file, which appears under its name when it is complete."""
    checks.local_path("out", out)
    if out.exists() and not force:
        raise InvalidParameterError("out", "a new file unless --force is given", str(out))
    part = out.with_name(out.name + ".part")
    try:
        write(part)
        part.replace(out)
    finally:
        remove(part)
