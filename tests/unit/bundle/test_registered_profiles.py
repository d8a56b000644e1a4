"""Profiles from several files, and from a query: one file, of one kind, never changed."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.sample_bundles import some_profiles
from wattveil import Profiles
from wattveil.bundle.registered_profiles import describe
from wattveil.cli import app
from wattveil.products.request import ReleaseRequest

REQUEST = ReleaseRequest(epsilon=1.0, delta=1e-6, clip_kw=5.0)


def part(rows: slice) -> Profiles:
    """Return some of the profiles."""
    whole = some_profiles(30)
    return replace(
        whole,
        customer_ids=whole.customer_ids[rows],
        load_kw=np.array(whole.load_kw[rows]),
        attributes={name: values[rows] for name, values in whole.attributes.items()},
    )


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    command = ["admin", "profiles", *map(str, arguments)]
    result = CliRunner().invoke(app, command, terminal_width=200)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_a_folder_is_the_file_that_it_was_cut_from(tmp_path: Path) -> None:
    """The same fingerprint as the whole; for its owner alone; never written over."""
    regions = tmp_path / "regions" / "deep"
    regions.mkdir(parents=True)
    part(slice(0, 10)).write_parquet(regions / "north.parquet")
    part(slice(10, 30)).write_parquet(regions.parent / "south.parquet")
    code, said = run(tmp_path / "regions", "--data", tmp_path, "--name", "homes")
    assert (code, "Private" in said) == (0, True), said
    out = tmp_path / "profiles" / "homes.parquet"
    assert out.stat().st_mode & 0o777 == 0o600
    some_profiles(30).write_parquet(tmp_path / "whole.parquet")
    whole = describe(tmp_path / "whole.parquet", key=b"k", request=REQUEST)
    assert describe(out, key=b"k", request=REQUEST) == whole
    code, said = run(tmp_path / "regions", "--data", tmp_path, "--name", "homes")
    assert (code, "a new file" in said) == (2, True)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (replace(part(slice(10, 20)), timezone="UTC"), "timezone"),
        (replace(part(slice(10, 20)), rules={"min_days": 3}), "rules"),
        (replace(part(slice(10, 20)), attributes={}), "attributes"),
        (part(slice(5, 20)), "one profile per customer"),
    ],
)
def test_files_of_several_kinds_are_refused(tmp_path: Path, other: Profiles, word: str) -> None:
    """Nothing is left behind."""
    for name, profiles in (("a", part(slice(0, 10))), ("b", other)):
        profiles.write_parquet(tmp_path / f"{name}.parquet")
    files = (tmp_path / "a.parquet", tmp_path / "b.parquet")
    code, said = run(*files, "--data", tmp_path, "--name", "homes")
    assert (code, word in said) == (1, True), said
    assert not list((tmp_path / "profiles").iterdir())


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a database with profiles in a table."""
    path = tmp_path / "customers.db"
    connect = sqlite3.connect if request.param == "sqlite" else duckdb.connect
    connection = connect(str(path))
    loads = ", ".join(f"kw_{slot} DOUBLE" for slot in range(1, 25))
    connection.execute(f"CREATE TABLE p (customer_id VARCHAR, class VARCHAR, {loads})")
    for name, kind, row in zip(
        some_profiles(30).customer_ids,
        some_profiles(30).attributes["class"],
        some_profiles(30).load_kw.tolist(),
        strict=True,
    ):
        places = ", ".join("?" * (2 + len(row)))
        connection.execute(f"INSERT INTO p VALUES ({places})", [name, kind, *row])
    connection.commit()
    connection.close()
    return f"{request.param}:///{path}"


def test_a_query_is_materialised(tmp_path: Path, database: str) -> None:
    """To the last bit, with attributes; a row that is added later does not reach the file."""
    sql = "SELECT * FROM p"
    arguments = ("--data", tmp_path, "--timezone", "Europe/London")
    code, said = run(database, "--sql", sql, "--name", "queried", *arguments)
    assert code == 0, said
    kept = Profiles.read_parquet(tmp_path / "profiles" / "queried.parquet")
    order = np.argsort(kept.customer_ids)
    assert np.array_equal(kept.load_kw[order], some_profiles(30).load_kw)
    kinds = [kept.attributes["class"][row] for row in order]
    assert kinds == [*some_profiles(30).attributes["class"]]
    assert describe(
        tmp_path / "profiles" / "queried.parquet", key=b"k", request=REQUEST
    ).attributes == ("class",)
    for wrong, word in (
        ("SELECT customer_id FROM p", "kw_1"),
        ("SELECT customer_id, class AS kw_0, * FROM nothing", "a valid query"),
        (sql.replace("*", "* REPLACE ('x' AS kw_3)") if "duckdb" in database else "SELECT", "quer"),
    ):
        code, said = run(database, "--sql", wrong, "--name", "wrong", *arguments)
        assert code in (1, 2)
        assert word in said or "kw_3" in said
    assert run(database, "--sql", sql, "--name", "w", "--data", tmp_path)[0] == 2


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    """Of sources, and of servers."""
    (tmp_path / "empty").mkdir()
    assert "Parquet files" in run(tmp_path / "empty", "--data", tmp_path, "--name", "x")[1]
    assert run(tmp_path / "empty", "--data", tmp_path / "none", "--name", "x")[0] == 2
    assert run(tmp_path / "empty", "--data", tmp_path, "--name", "../x")[0] == 2
