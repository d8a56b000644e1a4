"""Synthetic customers: in the bundle, checked against their model, and in every format."""

import json
import shutil
from html import unescape
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

from wattveil import Profiles, profiles_from_readings, read_readings
from wattveil.bundle.bundle_files import MANIFEST, read_table
from wattveil.bundle.customer_files import write_customers
from wattveil.bundle.verify import verify_bundle
from wattveil.cli import app
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.products.synthesis import FIRST_SEED, FIRST_SET, MODEL, read_model

CHECK = "the synthetic customers come from the model"


def test_the_first_set_comes_from_the_model(whole: Path) -> None:
    """A seed repeats the customers; each belongs to a cluster, none is beyond the bound."""
    table = read_table(whole, "synthetic")
    load_kw, clusters = read_model(whole).sample(FIRST_SET, random_state=FIRST_SEED)
    assert np.array_equal(table["load_kw"].to_numpy().reshape(FIRST_SET, -1), load_kw)
    assert np.array_equal(table["cluster"].to_numpy()[::24], clusters)
    assert np.sqrt(np.square(load_kw).mean(axis=1)).max() <= 5.0 * (1 + 1e-9)


@pytest.mark.parametrize("spoil", ["centroids", "means", "shape", "nothing"])
def test_customers_of_another_model_are_found(
    copy: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    """The check fails for a changed, an invalid and a missing model."""
    monkeypatch.setattr(verify_bundle, "budget_findings", lambda _: [])
    model = json.loads((copy / MODEL).read_text())
    if spoil == "shape":
        model["means"] = model["means"][:-1]
    elif spoil != "nothing":
        model[spoil][0] = [value + 0.5 for value in model[spoil][0]]
    (copy / MODEL).write_text(json.dumps(model))
    if spoil == "nothing":
        (copy / MODEL).unlink()
    findings = {one.check: one for one in verify_bundle.verify_bundle(copy).findings}
    assert not findings[CHECK].holds
    assert not findings["every file is the one that was published"].holds


def test_every_format_has_the_same_values(whole: Path, tmp_path: Path) -> None:
    """Parquet reads as profiles; CSV, OpenDSS and Green Button hold the same loads."""
    for kind in ("parquet", "csv", "dss", "xml"):
        write_customers(whole, tmp_path / f"some.{kind}", customers=40, seed=7)
    assert not list(tmp_path.glob("*.part"))
    load_kw, clusters = read_model(whole).sample(40, random_state=7)
    profiles = Profiles.read_parquet(tmp_path / "some.parquet")
    assert np.array_equal(profiles.load_kw, load_kw)
    assert profiles.attributes["cluster"] == tuple(map(str, clusters))
    table = pc.read_csv(tmp_path / "some.csv")
    assert np.array_equal(np.column_stack([table[name] for name in profiles.grid.labels]), load_kw)
    comment, *lines = (tmp_path / "some.dss").read_text().splitlines()
    assert comment.startswith("! Synthetic customers")
    assert lines[3].startswith("New LoadShape.S000000003 npts=24 interval=1 useactual=yes mult=(")
    mult = np.array(lines[3].split("(")[1].rstrip(")").split(), dtype=float)
    assert np.abs(mult - load_kw[3]).max() <= 0.5e-4 + 1e-12
    readings = read_readings([str(tmp_path / "some.xml")], timezone="UTC")
    again = profiles_from_readings(readings, timezone="UTC", min_days=1)
    assert len(again) == 40
    assert np.abs(again.load_kw - load_kw).max() <= 0.5e-3 + 1e-12  # whole Wh


def test_customers_at_buses_are_a_random_group(whole: Path, tmp_path: Path) -> None:
    """Their segments are drawn by chance, so that files of several seeds differ as streets do."""
    buses = tmp_path / "buses.csv"
    buses.write_text("bus,kv\nlane,0.23\n")
    write_customers(whole, tmp_path / "street", customers=9, seed=7, kind="series", buses=buses)
    table = pc.read_csv(tmp_path / "street" / "series.csv")
    written = np.column_stack([table[name] for name in table.column_names[1:]]).T
    model = read_model(whole)
    load_kw, clusters = model.sample(9, random_state=7, random_mix=True)
    assert np.abs(written - load_kw).max() <= 0.5e-4 + 1e-12
    assert not np.array_equal(clusters, model.sample(9, random_state=7)[1])


def test_files_state_their_origin(whole: Path, tmp_path: Path) -> None:
    """Release, guarantee, customers, seed and version; a manifest cannot add a command."""
    bundle = tmp_path / "bundle"
    shutil.copytree(whole, bundle)
    manifest = json.loads((bundle / MANIFEST).read_text())
    manifest["release_id"] = "a --> </title>\nNew Circuit.b"
    (bundle / MANIFEST).write_text(json.dumps(manifest))
    expected = {
        "release_id": manifest["release_id"],
        "guarantee": manifest["guarantee"],
        "customers": 2,
        "group": None,
        "seed": 7,
        "years": False,
        "wattveil": version("wattveil"),
    }
    loads = {**expected, "power_factor": 0.9}
    for name in ("some.parquet", "some.xml"):
        write_customers(bundle, tmp_path / name, customers=2, seed=7)
    for name in ("some.dss", "pandapower", "simbench", "gridlabd", "series"):
        kind = None if name == "some.dss" else name
        write_customers(bundle, tmp_path / name, customers=2, seed=7, kind=kind, power_factor=0.9)
    assert Profiles.read_parquet(tmp_path / "some.parquet").rules == {"synthetic": expected}
    title = (tmp_path / "some.xml").read_text().split("title>")[1].removesuffix("</")
    first = (tmp_path / "some.dss").read_text().splitlines()[0]
    model = (tmp_path / "gridlabd" / "customers.glm").read_text().splitlines()[0]
    for text, stated in ((first, loads), (model, loads), (unescape(title), expected)):
        assert json.loads(text[text.index("{") :]) == stated
    for kind in ("pandapower", "simbench", "series"):
        assert json.loads((tmp_path / kind / "origin.json").read_text()) == loads


def test_the_command(whole: Path, tmp_path: Path) -> None:
    """It draws the requested number, and reports it as text and JSON."""
    out = tmp_path / "many.parquet"
    command = ["synthesize", str(whole), "--customers", "70000", "--out", str(out)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert "70,000 synthetic customers" in " ".join(told.output.split())
    assert len(Profiles.read_parquet(out)) == 70_000  # more than a batch
    command[3] = "5"
    assert (
        json.loads(CliRunner().invoke(app, [*command, "--force", "--json"]).stdout)["customers"]
        == 5
    )


def test_the_command_states_the_load(whole: Path, tmp_path: Path) -> None:
    """Mean load and peak of all customers together, as in the file, whatever its format."""
    load_kw = read_model(whole).sample(30, random_state=1)[0].mean(axis=0)
    for kind, ending in (("parquet", ".parquet"), ("series", "")):
        command = ["synthesize", str(whole), "--customers", "30", "--format", kind]
        command += ["--out", str(tmp_path / f"some-{kind}{ending}"), "--json"]
        found = json.loads(CliRunner().invoke(app, command).stdout)["load"]
        assert found["mean_kw"] == pytest.approx(load_kw.mean())
        assert found["peak_kw"] == pytest.approx(load_kw.max())
        assert found["peak_time"] == f"{load_kw.argmax():02}:00"
    command = ["synthesize", str(whole), "--customers", "30", "--out", str(tmp_path / "third.dss")]
    told = CliRunner().invoke(app, command)
    assert f"at {load_kw.argmax():02}:00." in " ".join(told.output.split())


def test_what_cannot_be_drawn_is_refused(whole: Path, tmp_path: Path) -> None:
    """Another ending, no customers, no bundle, no model; nothing is left behind."""
    with pytest.raises(InvalidParameterError, match=r"ends in \.parquet or"):
        write_customers(whole, tmp_path / "some.xlsx", customers=1, seed=1)
    with pytest.raises(InvalidParameterError, match="customers"):
        write_customers(whole, tmp_path / "some.csv", customers=0, seed=1)
    with pytest.raises(InvalidParameterError, match="seed"):
        write_customers(whole, tmp_path / "some.parquet", customers=1, seed=-1)
    with pytest.raises(InvalidFileError, match="the folder has no manifest"):
        write_customers(tmp_path, tmp_path / "some.csv", customers=1, seed=1)
    (tmp_path / MANIFEST).write_bytes((whole / MANIFEST).read_bytes())
    with pytest.raises(InvalidFileError, match="released with synthesis"):
        write_customers(tmp_path, tmp_path / "some.csv", customers=1, seed=1)
    (tmp_path / MODEL).write_text("[]")
    with pytest.raises(InvalidFileError, match="a synthetic model"):
        write_customers(tmp_path, tmp_path / "some.csv", customers=1, seed=1)
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, MODEL}


def test_an_unknown_format_is_named_by_its_option(whole: Path, tmp_path: Path) -> None:
    """The message has the option, not the argument of Python."""
    command = ["synthesize", str(whole), "--customers", "3", "--out", str(tmp_path / "x")]
    refused = CliRunner().invoke(app, [*command, "--format", "pandapwr"], terminal_width=300)
    assert refused.exit_code == 2
    assert "--format must be one of" in refused.output


def test_warnings_begin_alike(whole: Path, tmp_path: Path) -> None:
    """Of a voltage, as of all else."""
    buses = tmp_path / "buses.csv"
    buses.write_text("bus,kv,phases\nmain,0.4,1\n")
    command = ["synthesize", str(whole), "--customers", "3", "--out", str(tmp_path / "x.dss")]
    told = CliRunner().invoke(app, [*command, "--buses", str(buses)], env={"COLUMNS": "300"})
    assert "Warning: Bus main: phases is 1 and kv is 0.4." in told.output


def test_nothing_is_overwritten_without_the_option(whole: Path, tmp_path: Path) -> None:
    """An existing file is kept unless --force is given."""
    out = tmp_path / "mine.csv"
    out.write_text("mine")
    command = ["synthesize", str(whole), "--customers", "3", "--out", str(out)]
    refused = CliRunner().invoke(app, command, terminal_width=300)
    assert refused.exit_code == 2
    assert "out must be a new file unless --force is given" in refused.output
    assert out.read_text() == "mine"
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    assert out.read_text().count("\n") == 4


def test_customers_of_a_group_have_its_shares(whole: Path, tmp_path: Path) -> None:
    """The mix of clusters is the released one of the group; other names are refused."""
    table = read_table(whole, "cluster_shares").to_pandas()
    for group in ("home", "shop"):
        out = tmp_path / f"{group}.parquet"
        command = ["synthesize", str(whole), "--customers", "1000", "--out", str(out)]
        told = CliRunner().invoke(app, [*command, "--group", group])
        assert told.exit_code == 0, told.output
        assert f"Group {group}: " in told.output
        clusters = Profiles.read_parquet(out).attributes["cluster"]
        own = table[table["group"] == group].set_index("cluster")["share"]
        for cluster, share in own.items():
            assert abs(clusters.count(str(cluster)) / 1000 - share / own.sum()) <= 0.0011
    with pytest.raises(InvalidParameterError, match="group must be one of: home, shop"):
        write_customers(whole, tmp_path / "n.csv", customers=1, seed=1, group="none")
