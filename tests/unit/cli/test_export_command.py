"""`wattveil export`: standard load profiles and maps of released tables."""

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from wattveil.bundle.bundle_files import MANIFEST, read_table
from wattveil.bundle.table_exports import _part, write_map, write_standard_profiles
from wattveil.cli import app
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split


def test_a_standard_profile_consumes_1000_kwh_a_year(whole: Path, tmp_path: Path) -> None:
    """365 days of a profile are 1,000 kWh; times its annual consumption it is the released load."""
    names, omitted, *_ = write_standard_profiles(whole, tmp_path / "profiles.parquet")
    table = pq.read_table(tmp_path / "profiles.parquet").to_pandas()
    assert set(table["profile"]) == set(names)
    assert not set(names) & set(omitted)
    for _, own in table.groupby("profile"):
        assert own["watt_per_1000_kwh"].sum() / 1000.0 * 365.0 == pytest.approx(1000.0)
    released = read_table(whole, "load_shapes").to_pandas()
    for group, curve in released.groupby("group"):
        own = table[table["profile"] == f"group {group}"]
        kw = own["watt_per_1000_kwh"] / 1000.0 * own["annual_kwh"] / 1000.0
        assert np.allclose(kw, curve.sort_values("slot")["load_kw"])


@pytest.mark.parametrize("split", list(Split))
def test_the_parts_of_a_grid_are_a_year(split: Split) -> None:
    """The days that cells stand for add up to 365, slot by slot."""
    grid = TimeGrid(split=split)
    days = np.array([_part(grid, cell)[2] for cell in range(grid.cells)])
    assert np.allclose(days.reshape(-1, 24).sum(axis=0), 365.0)
    seasons = {_part(grid, cell)[0] for cell in range(grid.cells)}
    assert len(seasons) == (4 if "season" in split.value else 1)


def test_a_curve_without_consumption_is_omitted(copy: Path, tmp_path: Path) -> None:
    """A segment that exports more than it uses cannot be scaled; it is named."""
    path = copy / "tables" / "centroids.parquet"
    table = pq.read_table(path)
    column = table.column_names.index("load_kw")
    load_kw = table["load_kw"].to_numpy().copy()
    load_kw[table["cluster"].to_numpy() == 0] = -1.0
    pq.write_table(table.set_column(column, "load_kw", [load_kw]), path)
    told = CliRunner().invoke(
        app, ["export", str(copy), "--out", str(tmp_path / "some.csv"), "--json"]
    )
    assert told.exit_code == 0, told.output
    omitted = json.loads(told.stdout)["omitted"]
    assert omitted
    assert all(name.startswith("segment 0") for name in omitted)
    written = set(pc.read_csv(tmp_path / "some.csv")["profile"].to_pylist())
    assert not written & set(omitted)


def changed_load(bundle: Path, group: str, **columns: list[float]) -> None:
    """Change the released curve of a group."""
    path = bundle / "tables" / "load_shapes.parquet"
    table = pq.read_table(path).to_pandas()
    for name, values in columns.items():
        table.loc[table["group"] == group, name] = values
    table.to_parquet(path)


def test_curves_that_noise_may_dominate_are_flagged(copy: Path, tmp_path: Path) -> None:
    """Below 5 standard errors of the annual consumption, or of both signs; planted in groups."""
    curve = [0.5] * 23 + [0.4]
    changed_load(copy, "home", load_kw=curve, std_kw=[0.1] * 24)
    changed_load(copy, "shop", load_kw=[-0.01, *curve[1:]], std_kw=[0.01] * 24)
    found = write_standard_profiles(copy, tmp_path / "some.parquet")
    assert found.flagged["group home"] == "annual consumption below 5 standard errors"
    assert found.flagged["group shop"] == "load changes sign"
    table = pq.read_table(tmp_path / "some.parquet").to_pandas()
    home = table[table["profile"] == "group home"]
    assert set(home["flag"]) == {found.flagged["group home"]}
    assert np.allclose(home["std_annual_kwh"], 0.1 * 8760.0)
    told = CliRunner().invoke(app, ["export", str(copy), "--out", str(tmp_path / "some.csv")])
    assert "Warning: group shop: load changes sign; check it before use." in told.output
    changed_load(copy, "home", load_kw=curve, std_kw=[0.09] * 24)
    again = write_standard_profiles(copy, tmp_path / "again.parquet")
    assert "group home" not in again.flagged


@pytest.mark.parametrize(
    ("period", "words"),
    [
        (["2025-03-03", "2025-03-31"], "cover 28 days, 2025-03-03 to 2025-03-30, and not a year"),
        (["2025-01-01", "2026-01-01"], ""),
        (None, "period of the readings is not stated"),
    ],
)
def test_a_period_shorter_than_a_year_is_stated(
    copy: Path, tmp_path: Path, period: list[str] | None, words: str
) -> None:
    """Annual consumption is extrapolated from such readings."""
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["profiles"]["reading_rules"]["period"] = period
    (copy / MANIFEST).write_text(json.dumps(manifest))
    out = tmp_path / "some.parquet"
    command = ["export", str(copy), "--out", str(out), "--json"]
    notice = json.loads(CliRunner().invoke(app, command).stdout)["notice"]
    assert words in (notice or "")
    assert bool(notice) == bool(words)
    stated = set(pq.read_table(out)["period"].to_pylist())
    last = {"2025-03-31": "2025-03-30", "2026-01-01": "2025-12-31"}
    assert stated == ({"not stated"} if period is None else {f"{period[0]} to {last[period[1]]}"})


def areas(path: Path, names: list[str]) -> Path:
    """Write areas of public geometry."""
    features = [
        {
            "type": "Feature",
            "properties": {"ward": name},
            "geometry": {"type": "Point", "coordinates": [place, 51.5]},
        }
        for place, name in enumerate(names)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_a_map_has_the_released_numbers(whole: Path, tmp_path: Path) -> None:
    """Areas with a group have its numbers, to 4 decimals, others none; geometry is unchanged."""
    groups = read_table(whole, "groups").to_pylist()
    names = [row["group"] for row in groups] + ["elsewhere"]
    path = areas(tmp_path / "areas.json", names)
    out = tmp_path / "map.geojson"
    command = ["export", str(whole), "--geometry", str(path), "--area", "ward", "--out", str(out)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert f"{len(groups)} areas" in told.output
    before, after = (json.loads(one.read_text())["features"] for one in (path, out))
    assert [one["geometry"] for one in before] == [one["geometry"] for one in after]
    curves = read_table(whole, "load_shapes").to_pandas()
    for row, feature in zip(groups, after, strict=False):
        values = feature["properties"]
        own = curves[curves["group"] == row["group"]]["load_kw"]
        assert values["customers"] == round(row["customers"], 4)
        assert values["peak_kw_per_customer"] == round(own.max(), 4)
        assert values["mean_kw_per_customer"] == pytest.approx(own.mean(), abs=6e-5)
    assert after[-1]["properties"]["customers"] is None


def test_what_cannot_be_exported_is_refused(whole: Path, tmp_path: Path) -> None:
    """Another ending, an existing file, areas of other groups, geometry that is none."""
    with pytest.raises(InvalidParameterError, match=r"csv or \.parquet"):
        write_standard_profiles(whole, tmp_path / "some.xlsx")
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(InvalidParameterError, match="new file"):
        write_standard_profiles(whole, tmp_path / "mine.csv")
    out = tmp_path / "map.geojson"
    with pytest.raises(InvalidParameterError, match="geojson"):
        write_map(whole, tmp_path / "areas.json", tmp_path / "map.csv", area_property="ward")
    with pytest.raises(InvalidFileError, match="a GeoJSON feature collection"):
        write_map(whole, tmp_path / "mine.csv", out, area_property="ward")
    path = areas(tmp_path / "areas.json", ["elsewhere"])
    with pytest.raises(InvalidParameterError, match="names of all groups"):
        write_map(whole, path, out, area_property="ward")
    with pytest.raises(
        InvalidFileError, match="the property 'zone' in every feature, found 'ward'"
    ):
        write_map(whole, path, out, area_property="zone")
    assert not out.exists()


def test_a_bundle_without_curves_is_refused(copy: Path, tmp_path: Path) -> None:
    """Nothing to scale."""
    for name in ("load_shapes", "centroids"):
        (copy / "tables" / f"{name}.parquet").unlink()
    with pytest.raises(InvalidFileError, match="load by group"):
        write_standard_profiles(copy, tmp_path / "some.csv")
