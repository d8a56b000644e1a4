"""Feeders from files: what is read, and what is refused with its place."""

import dataclasses
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from wattveil.errors import IgnoredColumnsWarning, InvalidFileError, InvalidParameterError
from wattveil.grid import Feeder, read_feeder

BUSES = """bus,base_kv,slack_pu,p_kw,q_kvar
a,11,1.02,0,0
b,11,,800,300
c,11,,1200,500
"""
BRANCHES = """from_bus,to_bus,r_ohm,x_ohm,rated_a
a,b,0.6,0.9,300
c,b,1.1,1.2,
"""

# The same feeder. Its tables are in ohm and kVA at power factor 0.8, as MATPOWER's own cases are.
CASE = """function mpc = three
%THREE  a comment; with a semicolon and a [bracket
mpc.version = '2';
mpc.baseMVA = 10;
mpc.bus = [  % number type load ...
    1  3     0  0  0  0  1  1  0  11  1  1.1  0.9;
    2  1   800  0  0  0  1  1  0  11  1  1.1  0.9;
    3  1  1200  0  0  0  1  1  0  11  1  1.1  0.9;
];
mpc.gen = [ 1 0 0 10 -10 1.02 100 1 10 0 ];
mpc.branch = [
    1  2  0.6  0.9  0  0  0  0  0  0  1  -360  360
    3  2  1.1  1.2  0  0  0  0  1  0  1  -360  360
    1  3  9.9  9.9  0  0  0  0  0  0  0  -360  360   % an open switch
];
mpc.gencost = [2 0 0 3 0 20 0];
[PQ, PV, REF, NONE, BUS_I, ...
    BUS_TYPE, PD, QD] = idx_bus;
Vbase = mpc.bus(1, BASE_KV) * 1e3;
Sbase = mpc.baseMVA * 1e6;
mpc.branch(:, [BR_R BR_X]) = mpc.branch(:, [BR_R BR_X]) / (Vbase^2 / Sbase);
mpc.bus(:, [PD, QD]) = mpc.bus(:, [PD, QD]) / 1e3;
pf = 0.8;
mpc.bus(:, QD) = mpc.bus(:, PD) * sin(acos(pf));
mpc.bus(:, PD) = mpc.bus(:, PD) * pf;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a feeder of three buses."""
    (tmp_path / "buses.csv").write_text(BUSES)
    (tmp_path / "branches.csv").write_text(BRANCHES)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "buses", "loaded", "kw", "kvar"),
    [("case141", 141, 84, 11944.6, 7402.6), ("ieee123", 123, 85, 3490.0, 1920.0)],
)
def test_built_in_feeders(name: str, buses: int, loaded: int, kw: float, kvar: float) -> None:
    """Both feeders of the paper come with the package, radial, with their published loads."""
    feeder = read_feeder(name)
    assert (feeder.name, feeder.buses, feeder.radial) == (name, buses, True)
    assert np.count_nonzero(feeder.nominal_kw) == loaded
    assert feeder.nominal_kw.sum() == pytest.approx(kw, abs=0.1)
    assert feeder.nominal_kvar.sum() == pytest.approx(kvar, abs=0.1)
    assert feeder.distance_ohm[feeder.slack] == 0.0
    assert (files("wattveil.grid") / "data" / "PROVENANCE.md").is_file()


def test_tables(folder: Path) -> None:
    """A folder of two tables is a feeder; a rating that is not given is unknown."""
    feeder = read_feeder(folder)
    assert feeder.bus_names == ("a", "b", "c")
    assert (feeder.slack, feeder.slack_pu, feeder.base_kv) == (0, 1.02, 11.0)
    assert feeder.nominal_kvar.tolist() == [0.0, 300.0, 500.0]
    assert feeder.b_us.tolist() == feeder.capacitor_kvar[:2].tolist() == [0.0, 0.0]
    assert feeder.rated_a[0] == 300.0
    assert np.isnan(feeder.rated_a[1])
    assert feeder.distance_ohm.tolist() == pytest.approx(
        [0.0, np.hypot(0.6, 0.9), np.hypot(0.6, 0.9) + np.hypot(1.1, 1.2)]
    )


def test_all_problems_of_a_header_are_named_at_once(folder: Path) -> None:
    """Two missing columns and one that occurs twice."""
    header = "bus,kv,pu,p_kw,q_kvar,p_kw"
    (folder / "buses.csv").write_text(BUSES.replace("bus,base_kv,slack_pu,p_kw,q_kvar", header))
    with pytest.raises(InvalidFileError) as refused:
        read_feeder(folder)
    for words in ("a column base_kv (nominal", "a column slack_pu (volt", "a single column p_kw"):
        assert words in refused.value.expected


def test_a_missing_table_is_named_with_the_other(folder: Path) -> None:
    """A folder without one of them is no feeder: the message has both names."""
    (folder / "branches.csv").unlink()
    with pytest.raises(InvalidFileError, match=r"branches\.csv, file") as refused:
        read_feeder(folder)
    assert "contains buses.csv and branches.csv" in str(refused.value)


def test_other_columns_are_not_used_and_named(folder: Path) -> None:
    """A rating under another name is not read: the warning has it, and the names that are."""
    (folder / "branches.csv").write_text(BRANCHES.replace("rated_a", "rating"))
    with pytest.warns(IgnoredColumnsWarning, match=r"not used: rating\. .* b_us, rated_a"):
        feeder = read_feeder(folder)
    assert np.isnan(feeder.rated_a).all()


@pytest.mark.parametrize(
    ("table", "old", "new", "words"),
    [
        ("buses", "p_kw", "p_mw", "header: expected a column p_kw"),
        ("buses", "base_kv", "kv", "a column base_kv (nominal voltage in kV, phase to phase"),
        ("buses", "slack_pu", "pu", "a column slack_pu (voltage of the substation"),
        ("buses", "1.02", "", "slack_pu: expected a value in one row, found 0"),
        ("buses", "b,11,,", "b,11,1.0,", "expected a value in one row, found 2"),
        ("buses", "c,11", "c,0.4", "expected one voltage level in every row, found [0.4, 11.0]"),
        ("buses", "11,", "11000,", "base_kv: expected between 0.1 and 500 kV"),
        ("buses", "1200", "many", "line 4, column p_kw: expected a number, found 'many'"),
        ("buses", "1200", "nan", "buses.csv, line 4, column p_kw: expected finite numbers"),
        ("buses", "1200,500", "1200,500\nb,11,,0,0", "different from each other, found 'b'"),
        ("branches", "c,b", "c,d", "line 3, column to_bus: expected a bus of buses.csv, found 'd'"),
        ("branches", "c,b", "a,b", "a path from the slack to every bus, found 'c'"),
        (
            "branches",
            "c,b",
            "c,c",
            "branches.csv, line 3, column to_bus: expected another bus than",
        ),
        (
            "branches",
            "1.1,1.2",
            "-1.1,1.2",
            "branches.csv, line 3, column r_ohm: expected at least 0, found -1.1",
        ),
        (
            "branches",
            "1.1,1.2",
            "0,0",
            "branches.csv, line 3, column x_ohm: expected above 0 where r_ohm is 0",
        ),
        ("branches", "1.1,1.2", ",1.2", "line 3, column r_ohm: expected finite numbers"),
        ("branches", "300", "0", "branches.csv, line 2, column rated_a: expected above 0"),
        ("branches", "1.2,", "1.2,,,", "line 3: expected 5 cells"),
        ("branches", BRANCHES, "from_bus,to_bus,r_ohm,x_ohm\n", "expected at least one row"),
        ("buses", "800,300", "-800,300", "buses.csv, line 3, column p_kw: expected at least 0"),
    ],
)
def test_what_is_no_feeder_is_refused(
    folder: Path, table: str, old: str, new: str, words: str
) -> None:
    """Each broken table is refused with the place, the rule and what stands there."""
    path = folder / f"{table}.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidFileError) as caught:
        read_feeder(folder)
    assert words in str(caught.value)


def test_missing_tables_and_names_are_refused(tmp_path: Path) -> None:
    """A folder without tables, and a name that is neither feeder nor file."""
    with pytest.raises(InvalidFileError, match=r"buses\.csv, file: .* found nothing"):
        read_feeder(tmp_path)
    (tmp_path / "circuit").mkdir()
    (tmp_path / "circuit" / "Master.dss").touch()
    for circuit in (tmp_path / "circuit", tmp_path / "circuit" / "Master.dss"):
        with pytest.raises(InvalidParameterError, match="OpenDSS circuits are not read: use"):
            read_feeder(circuit)
    with pytest.raises(InvalidParameterError, match="feeder must be one of: case141"):
        read_feeder("case142")


def test_shapes_and_loads_are_checked(four_buses: Feeder) -> None:
    """A feeder made in Python is held to the same rules."""
    for change, words in (
        ({"r_ohm": np.ones(2)}, r"r_ohm must be of shape \(3,\)"),
        ({"nominal_kw": np.zeros(4)}, "nominal_kw must be above 0 at one or more buses"),
        ({"slack": 4}, "slack must be a whole number"),
        ({"slack_pu": 0.5}, "slack_pu must be between 0.8 and 1.2 per unit"),
        ({"to_bus": np.array([1, 1, 7])}, r"to_bus\[2\] must be positions of buses"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            dataclasses.replace(four_buses, **change)


def test_matpower_conversions_are_done(folder: Path) -> None:
    """The code at the end of a case file is followed: the feeder is that of the tables."""
    (folder / "three.m").write_text(CASE)
    case, tables = read_feeder(folder / "three.m"), read_feeder(folder)
    assert case.name == "three"
    assert (case.slack, case.slack_pu, case.base_kv) == (0, 1.02, 11.0)
    assert case.from_bus.tolist() == tables.from_bus.tolist()  # the open switch is not there
    assert case.r_ohm == pytest.approx(tables.r_ohm)
    assert case.x_ohm == pytest.approx(tables.x_ohm)
    assert case.nominal_kw.tolist() == pytest.approx([0.0, 640.0, 960.0])
    assert case.nominal_kvar.tolist() == pytest.approx([0.0, 480.0, 720.0])
    assert np.isnan(case.rated_a).all()


def test_matpower_tables_without_code_are_per_unit(tmp_path: Path) -> None:
    """Without that code the same tables are per unit and MW: another feeder by far."""
    path = tmp_path / "plain.m"
    path.write_text(CASE[: CASE.index("[PQ")].replace("0.9  0  0  0", "0.9  0  25  0", 1))
    case = read_feeder(path)
    assert case.r_ohm[0] == pytest.approx(0.6 * 11.0**2 / 10.0)
    assert case.nominal_kw[1] == pytest.approx(800e3)
    assert case.rated_a[0] == pytest.approx(25e6 / (np.sqrt(3.0) * 11e3))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "pf = 0.8;",
            "pf = 0.8; mpc.bus(:, 3) = 2;",
            "line 23: expected a table or one of",
        ),
        ("/ 1e3;\npf", "/ 1e6;\npf", "line 22: expected a table or one of MATPOWER's unit"),
        ("1  3     0", "1  1     0", "one reference bus (type 3), found [0]"),
        ("2  1   800", "2  3   800", "one reference bus (type 3), found [2]"),
        ("2  1   800", "2  4   800", "types 1, 2 and 3, found [2.0]"),
        ("0  11  1  1.1  0.9;\n]", "0  0.4  1  1.1  0.9;\n]", "one base voltage, found [3.0]"),
        ("1 0 0 10", "2 0 0 10", "its generator at the reference bus, found [2.0]"),
        ("100 1 10", "100 0 10", "one generator in service, found [0]"),
        ("0.9  0  0  0  0  0  0", "0.9  0  0  0  0  0.95  0", "no transformers (ratio 0 or 1)"),
        ("0.9  0  0  0  0  0  0", "0.9  0  0  0  0  0  30", "no phase shift, found [30.0]"),
        ("800  0  0", "800  0  7", "no shunt conductance, found [2.0]"),
        ("800", "much", "line 5: expected numbers alone"),
        ("  1  -360  360\n    3", "\n    3", "rows of at least 11 numbers in mpc.branch"),
        ("mpc.baseMVA = 10;", "", "mpc.baseMVA: expected a number above 0"),
        ("mpc.gen = ", "mpc.generators = ", "expected a table mpc.gen above it"),
        ("1  2  0.6", "1  2  -0.6", "r_ohm[0]: expected at least 0"),
    ],
)
def test_matpower_cases_that_are_no_feeder(tmp_path: Path, old: str, new: str, words: str) -> None:
    """A case that the power flow here would misread is refused with its line or table."""
    assert old in CASE
    path = tmp_path / "case.m"
    path.write_text(CASE.replace(old, new, 1))
    with pytest.raises(InvalidFileError) as caught:
        read_feeder(path)
    assert words in str(caught.value)
