"""Readings out of a real PostgreSQL server."""

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings

psycopg = pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")


def test_a_query_gives_readings(database: str) -> None:
    """Rows come through a cursor on the server, with instants and decimals as they are."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE reads (id int, ts timestamptz, kwh numeric(8, 3))")
        connection.execute("""
            INSERT INTO reads
            SELECT i % 3, timestamptz '2013-01-01 00:00+00' + i / 3 * interval '1 hour', 0.125
            FROM generate_series(0, 299) AS i
        """)
    query = "SELECT id AS customer_id, ts AS start_utc, kwh FROM reads"
    readings = read_readings(database, sql=query)
    table = readings.to_arrow()
    assert (readings.report.rows_in, table.num_rows) == (300, 300)
    assert set(table["kwh"].to_pylist()) == {0.125}
    assert str(table["start_utc"][0]) == "2013-01-01 00:00:00+00:00"


def test_a_query_that_fails_hides_the_password(database: str) -> None:
    """The error names the server and the fault, not the user."""
    address = database.replace("tester@", "tester:hunter2@")
    with pytest.raises(InvalidFileError, match="a valid query") as caught:
        read_readings(address, sql="SELECT * FROM nothing")
    assert "nothing" in str(caught.value)
    assert "hunter2" not in str(caught.value)
