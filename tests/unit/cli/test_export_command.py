"""`wattveil export`: standard load profiles and maps of released tables."""

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from wattveil.bundle.bundle_files import read_table
from wattveil.bundle.table_exports import _part, write_map, write_standard_profiles
from wattveil.cli import app
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split


def test_a_standard_profile_consumes_1000_kwh_a_year(whole: Path, tmp_path: Path) -> None:
    """365 days of a profile are 1,000 kWh; times its annual consumption it is the released load."""
    names, omitted = write_standard_profiles(whole, tmp_path / "profiles.parquet")
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
    """Areas with a group have its numbers, others have none; the geometry is unchanged."""
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
        assert values["customers"] == row["customers"]
        assert values["peak_kw_per_customer"] == own.max()
        assert values["mean_kw_per_customer"] == pytest.approx(own.mean())
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
