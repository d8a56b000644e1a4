"""The command `profiles` and the page on data quality."""

import datetime as dt
import json
import re
import zoneinfo
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer
from typer.testing import CliRunner

from wattveil.errors import (
    AssumedTimeZoneWarning,
    InvalidParameterError,
    NoUsableReadingError,
    UnmatchedAttributesWarning,
)
from wattveil.profiles import Profiles, build_profiles, profiles_from_readings
from wattveil.profiles.quality import missing_share
from wattveil.readings import read_readings

_FIRST = dt.datetime(2013, 1, 7, tzinfo=dt.UTC)


def unboxed(text: str) -> str:
    """Return what was printed without the box around an error and its line breaks."""
    return " ".join(text.replace("│", " ").split())


def test_the_command_reports_what_was_inferred_and_dropped(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """The command prints inferred options, reasons and the output path; the file can be read."""
    out = tmp_path / "profiles.parquet"
    result = CliRunner().invoke(
        app, [str(source), "--out", str(out), "--timezone", "Europe/London"]
    )
    assert result.exit_code == 0, result.output
    for words in (
        "inferred minutes: 60",
        "unreadable time stamp",
        "readings on fewer than 14 days",
        "1 profile of 24 columns (Europe/London)",
    ):
        assert words in " ".join(result.output.split())
    assert Profiles.read_parquet(out).customer_ids == ("a",)


def test_a_median_load_of_a_few_watts_is_warned_of(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """Energy in kWh that is read as Wh; the right unit has no warning."""
    header, *rows = (line.rpartition(",") for line in source.read_text().splitlines())
    tenths = [f"{head},{float(value) / 10}" for head, _, value in rows]
    source.write_text("\n".join(["".join(header), *tenths]), encoding="utf-8")
    given = [str(source), "--out", str(tmp_path / "p.parquet"), "--timezone", "UTC"]
    for unit, warns in (("Wh", True), ("kWh", False)):
        result = CliRunner().invoke(app, [*given, "--unit", unit])
        shown = "below 0.01 kW: the unit may be wrong" in " ".join(result.output.split())
        assert shown is warns


def test_a_missing_time_zone_is_warned_of(app: typer.Typer, source: Path, tmp_path: Path) -> None:
    """Summary, explanation and page say that UTC was assumed; with a zone none does."""
    page = tmp_path / "quality.html"
    command = [str(source), "--out", str(tmp_path / "p.parquet"), "--report", str(page)]
    for zone, warns in (([], True), (["--timezone", "Europe/London"], False)):
        runs = [CliRunner().invoke(app, [*command, *zone, *more]) for more in ([], ["--explain"])]
        for run in runs:
            assert ("Warning: timezone: UTC" in " ".join(run.output.split())) is warns
        assert ("no time zone was given" in page.read_text(encoding="utf-8")) is warns
    on_json = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(on_json.stdout)
    assert "Warning" in on_json.stderr


def test_json_is_nothing_but_json(app: typer.Typer, source: Path, tmp_path: Path) -> None:
    """With --json, what goes to standard output can be parsed, and holds rules and account."""
    out = tmp_path / "p.parquet"
    options = ["--split", "weekday-weekend", "--min-days", "1", "--column", "value=kwh"]
    result = CliRunner().invoke(app, [str(source), "--out", str(out), "--json", *options])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["private"] is True
    assert (record["customers"], record["profiles"], record["columns"]) == (2, 1, 48)
    assert record["rules"]["min_days"] == 1
    assert record["account"]["readings"]["rows_in"] == 482
    assert record["account"]["customers_dropped"] == {
        "no reading for at least one hour of the profile": 1
    }


def test_errors_are_one_sentence(app: typer.Typer, source: Path, tmp_path: Path) -> None:
    """A wrong option and a wrong file end with a sentence and a code, without a traceback."""
    out = ["--out", str(tmp_path / "p.parquet")]
    for options, code, words in (
        ([str(source), *out, "--unit", "BTU"], 2, "BTU"),
        ([str(source), *out, "--column", "kwh"], 2, "--column must be role=name"),
        ([str(tmp_path / "none.csv"), *out], 1, "does not exist; check the path"),
        ([str(source), "--out", "/nowhere/p.parquet"], 2, "a file in a folder that exists"),
        ([str(source), "--out", str(source)], 2, "--out must differ from the source file"),
        ([str(source), *out, "--sql", "x", str(source)], 2, "one database"),
        (
            [str(source), *out, "--register-rollover", "9"],
            2,
            "omitted unless values are cumulative",
        ),
        ([str(source), "--out", str(tmp_path)], 1, "Error:"),
        ([str(source), "--out", str(tmp_path / "p.csv")], 2, "--out must be a Parquet file"),
    ):
        result = CliRunner().invoke(app, options)
        assert result.exit_code == code
        assert words in unboxed(result.output)
        assert "Traceback" not in result.output


@pytest.mark.parametrize("output", ["--out", "--report", "--problems-to"])
@pytest.mark.parametrize("read", ["source", "--attributes", "--meters"])
def test_no_output_replaces_what_is_read(
    app: typer.Typer, source: Path, tmp_path: Path, output: str, read: str
) -> None:
    """Nor by another path to it; nothing is written."""
    listed = tmp_path / "listed.csv"
    listed.write_text("meter_id,customer_id\na,a\n", encoding="utf-8")
    kept = source if read == "source" else listed
    given = [str(source)] if read == "source" else [str(source), read, str(listed)]
    outputs = {"--out": str(tmp_path / "p.parquet"), output: str(tmp_path / "." / kept.name)}
    before = {path: path.read_bytes() for path in (source, listed)}
    result = CliRunner().invoke(app, [*given, *(one for pair in outputs.items() for one in pair)])
    assert result.exit_code == 2
    name = "the source file" if read == "source" else f"the file of {read}"
    assert f"{output} must differ from {name}" in unboxed(result.output)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_no_output_replaces_another(app: typer.Typer, source: Path, tmp_path: Path) -> None:
    """Two options with one file are refused before anything is written."""
    before = sorted(tmp_path.iterdir())
    for one, other in (("--out", "--report"), ("--report", "--problems-to")):
        given = {"--out": "p.parquet", one: "z.parquet", other: "z.parquet"}
        typed = [word for name, file in given.items() for word in (name, str(tmp_path / file))]
        result = CliRunner().invoke(app, [str(source), *typed])
        assert result.exit_code == 2
        assert f"{other} must differ from the file of {one}" in unboxed(result.output)
    assert sorted(tmp_path.iterdir()) == before


def test_the_quality_page_is_private_and_whole(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """The page carries its warning, figures and script, and makes no network request."""
    page = tmp_path / "quality.html"
    out = str(tmp_path / "p.parquet")
    result = CliRunner().invoke(app, [str(source), "--out", out, "--report", str(page)])
    assert result.exit_code == 0, result.output
    html = page.read_text(encoding="utf-8")
    assert "INTERNAL: exact figures" in html
    assert "unreadable time stamp" in html
    assert "readings on fewer than 14 days" in html
    assert "<script src=" not in html
    assert "default-src 'none'" in html
    assert html.count("data-figure=") == 4
    assert '<meta name="viewport"' in html
    assert "<td>dropped: unreadable time stamp</td>" in html
    assert '<td>readings: conflicts</td><td class="number">drop</td>' in html
    assert "<td>value: column &#39;kwh&#39;</td>" in html


@pytest.mark.parametrize("lost", [(), (3,), (3, 4, 5)])
def test_missing_readings_are_shown_in_their_hours(tmp_path: Path, lost: tuple[int, ...]) -> None:
    """Half the days lack some hours; the hour that clocks show twice makes no other look short."""
    first = dt.datetime(2013, 10, 20, tzinfo=dt.UTC)
    zone = zoneinfo.ZoneInfo("Europe/London")
    hours = [first + dt.timedelta(hours=hour) for hour in range(-1, 24 * 20)]
    lines = [
        f"a,{hour:%Y-%m-%d %H:%M},1"
        for hour in hours
        if (here := hour.astimezone(zone)).hour not in lost or here.day % 2
    ]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
    shares = missing_share(build_profiles(read_readings(path), timezone="Europe/London"))
    assert shares == pytest.approx([0.5 if hour in lost else 0.0 for hour in range(24)])


def test_too_little_memory_is_reported(
    app: typer.Typer, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When DuckDB runs out of memory, the message names the option."""

    def fail(*_: object, **__: object) -> None:
        raise duckdb.OutOfMemoryException

    monkeypatch.setattr("wattveil.cli.data.build_profiles", fail)
    result = CliRunner().invoke(app, [str(source), "--out", str(tmp_path / "p.parquet")])
    assert result.exit_code == 1
    assert "--memory-mb must be larger than 600" in result.output


def test_readings_that_no_cell_can_take_are_reported(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """An hour from half past lies in two cells, which is printed."""
    with source.open("a", encoding="utf-8") as file:
        file.write("\na,2013-01-08 12:30,7\n")
    result = CliRunner().invoke(app, [str(source), "--out", str(tmp_path / "p.parquet")])
    assert "not used: 1 reading that spans two slots" in " ".join(result.output.split())
    page = tmp_path / "q.html"
    CliRunner().invoke(
        app, [str(source), "--out", str(tmp_path / "p.parquet"), "--report", str(page)]
    )
    used = (480 + 1) / (480 + 1 + 1 + 1)  # neither that reading nor the one without a stamp
    assert f"{100 * used:.2f}" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_dropped_customers_are_listed_by_id(
    app: typer.Typer, source: Path, tmp_path: Path, suffix: str
) -> None:
    """With the reason, after the dropped rows; the file is one table."""
    listed = tmp_path / f"problems.{suffix}"
    words = [str(source), "--out", str(tmp_path / "p.parquet"), "--problems-to", str(listed)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    rows = duckdb.sql(f"SELECT reason, written FROM '{listed}'").fetchall()
    assert rows[0][0] == "unreadable time stamp"
    assert rows[1:] == [("customer dropped: readings on fewer than 14 days", "b")]


def test_customers_of_another_unit_are_named(app: typer.Typer, tmp_path: Path) -> None:
    """They are named and stay: their rows change nothing about the others."""
    hours = [_FIRST + dt.timedelta(hours=hour) for hour in range(480)]

    def made(*unusual: str) -> tuple[str, Profiles]:
        rows = [
            f"{name},{hour:%Y-%m-%d %H:%M},{0.5 * (1000 if name in unusual else 1)}"
            for name in ("a", "b", "c", "d", "e")
            for hour in hours
        ]
        (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
        out = tmp_path / "p.parquet"
        result = CliRunner().invoke(app, [str(path), "--out", str(out), "--timezone", "UTC"])
        return " ".join(result.output.split()), Profiles.read_parquet(out)

    usual, before = made()
    assert "Warning" not in usual
    assert "(replaced)" not in usual
    warned, after = made("c")
    assert "1 customer with over 100 times the median load: c;" in warned
    assert "(replaced)" in warned
    others = [0, 1, 3, 4]
    assert (before.load_kw[others] == after.load_kw[others]).all()


def test_profiles_of_utc_that_nobody_stated_are_warned_of(app: typer.Typer, tmp_path: Path) -> None:
    """Stamps that are instants have no zone that profiles could take."""
    hours = [_FIRST + dt.timedelta(hours=hour) for hour in range(480)]
    rows = [f"a,{hour:%Y-%m-%dT%H:%M}+10:00,1" for hour in hours]
    (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
    words = [str(path), "--out", str(tmp_path / "p.parquet")]
    assert "No --timezone given: the profiles are in UTC. State it, such as --timezone" in " ".join(
        CliRunner().invoke(app, words).output.split()
    )
    stated = CliRunner().invoke(app, [*words, "--timezone", "UTC"])
    assert "Warning" not in stated.output
    with pytest.warns(AssumedTimeZoneWarning, match="No timezone given: the profiles are in UTC"):
        build_profiles(read_readings(path))


def test_latin_1_is_named(app: typer.Typer, tmp_path: Path) -> None:
    """In a header as in a row, with the command that converts it."""
    for text in (
        "Zählpunkt;Zeit;Verbrauch\n1;2025-01-01 00:00;1\n",
        "id,timestamp,kwh\nä,2025-01-01 00:00,1\n",
    ):
        (path := tmp_path / "r.csv").write_bytes(text.encode("latin-1"))
        result = CliRunner().invoke(app, [str(path), "--out", str(tmp_path / "p.parquet")])
        remedy = "If it is Latin-1, convert it: iconv -f latin1 -t utf8 FILE > NEW."
        assert "is not UTF-8" in result.output
        assert result.output.rstrip().endswith(remedy)


def test_a_length_that_the_file_contradicts_is_refused(app: typer.Typer, tmp_path: Path) -> None:
    """In options of the command line; nothing is written."""
    rows = [f"a,2025-01-{day:02} {hour:02}:00,1.{hour}" for day in (1, 2) for hour in range(24)]
    (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
    words = [str(path), "--timezone", "UTC", "--out", str(tmp_path / "p.parquet")]
    result = CliRunner().invoke(app, [*words, "--minutes", "30"])
    assert result.exit_code == 1
    assert (
        "--minutes 30 contradicts the file: 100 % of the readings of a customer are 60 minutes"
        " apart. Omit --minutes, or pass --implausible accept if half of the readings are missing."
    ) in result.output
    assert not (tmp_path / "p.parquet").exists()


def test_what_is_neither_path_nor_table_is_refused_with_what_to_do() -> None:
    """Readings are read from files, or from a table that exports Arrow."""
    given: Any = 7
    with pytest.raises(InvalidParameterError, match="such as a DataFrame, got source='int'"):
        read_readings(given)


def test_a_period_without_readings_states_their_days(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """The days that the readings span, which a wrong year is seen by."""
    words = [str(source), "--out", str(tmp_path / "p.parquet"), "--timezone", "UTC"]
    result = CliRunner().invoke(app, [*words, "--period", "2031-01-01", "2031-02-01"])
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert f"no reading is within --period; readings span {_FIRST.date()} to" in told


@pytest.mark.parametrize("as_json", [False, True])
def test_no_customer_left_is_a_failure(
    app: typer.Typer, source: Path, tmp_path: Path, *, as_json: bool
) -> None:
    """The account and the page state why; nothing is written that a release could take for data."""
    out, page = tmp_path / "p.parquet", tmp_path / "quality.html"
    words = [str(source), "--out", str(out), "--min-days", "300", "--report", str(page)]
    result = CliRunner().invoke(app, [*words, "--json"] if as_json else words)
    assert result.exit_code == 1
    assert "no customer is left" in " ".join(result.stderr.split())
    if as_json:
        record = json.loads(result.stdout)
        assert {"error", "message", "field", "rule", "value", "account"} <= record.keys()
        assert record["out"] is None
        assert "no customer is left" in record["message"]
    assert not out.exists()
    assert "readings on fewer than 300 days" in page.read_text(encoding="utf-8")
    if as_json:
        assert json.loads(result.stdout)["profiles"] == 0
    else:
        assert "readings on fewer than 300 days" in " ".join(result.stdout.split())


_HOUR = "a,2013-01-01 00:00,1"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"x,timestamp,kwh\n{_HOUR}\n", "--column customer=NAME"),
        (f"id,timestamp,x\n{_HOUR}\n", "--column value=NAME"),
        ("id,timestamp,kwh\na,01/02/2013 00:00,1\n", 'column "timestamp": expected time stamps'),
        (
            "id,timestamp,kwh\na,01/02/2013 00:00,1\n",
            "or --stamp-format FORMAT (it may be %d/%m/%Y %H:%M or %m/%d/%Y",
        ),
        (f"id,timestamp,kwh\n{_HOUR}\n", "minutes apart, or --minutes MINUTES"),
        (f"id,timestamp,register\n{_HOUR}\n", "--unit UNIT"),
        ("id;timestamp;kwh\na;2013-01-01 00:00;1,500\n", "or --decimal point or --decimal comma"),
        ("id,timestamp,kwh\n", "all rows: expected a reading."),
        (f"x,when,y\n{_HOUR}\n", "--column customer=NAME --column stamp=NAME --column value=NAME"),
    ],
)
def test_messages_name_options(app: typer.Typer, tmp_path: Path, content: str, words: str) -> None:
    """Messages of the command name options, neither Python nor SQL."""
    path = tmp_path / "readings.csv"
    path.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(app, [str(path), "--out", str(tmp_path / "p.parquet")])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert words in said
    assert "={" not in said
    assert "trim(" not in said


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(app: typer.Typer, source: Path, tmp_path: Path, encoding: str) -> None:
    """Excel saves it as Unicode text."""
    path = tmp_path / "wide.csv"
    path.write_text(source.read_text(encoding="utf-8"), encoding=encoding)
    result = CliRunner().invoke(app, [str(path), "--out", str(tmp_path / "p.parquet")])
    assert result.exit_code == 1
    assert "is UTF-16, not UTF-8. Convert it: iconv" in " ".join(result.output.split())


def test_the_first_line_of_excel_can_be_skipped(
    app: typer.Typer, source: Path, tmp_path: Path
) -> None:
    """As the message advises."""
    path, out = tmp_path / "excel.csv", tmp_path / "p.parquet"
    path.write_text("sep=,\n" + source.read_text(encoding="utf-8"), encoding="utf-8")
    result = CliRunner().invoke(app, [str(path), "--out", str(out), "--skip-lines", "1"])
    assert result.exit_code == 0, result.output
    assert out.exists()


def test_explain_prints_how_a_file_is_understood(app: typer.Typer, tmp_path: Path) -> None:
    """Format, reason, columns and the first five readings; nothing is written."""
    path = tmp_path / "datadis.csv"
    rows = [f"ES1;21/10/2024;{hour};0,5;R" for hour in range(1, 25)]
    header = "CUPS;Fecha;Hora;Consumo_kWh;Metodo_obtencion"
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    options = [str(path), "--timezone", "Europe/Madrid", "--explain"]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0, shown.output
    assert "Datadis" in shown.output
    assert "column 'CUPS'" in " ".join(shown.output.split())
    found = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    starts = [row["start_utc"] for row in found["readings"]]
    assert starts[0] == "2024-10-20 22:00:00+00:00"  # hour 1 begins at local midnight
    assert len(starts) == 5
    assert found["minutes"] == [60]
    assert list(tmp_path.iterdir()) == [path]
    path.write_text("x,y\n1,2\n3,4\n", encoding="utf-8")
    refused = CliRunner().invoke(app, options)
    assert refused.exit_code == 1
    assert CliRunner().invoke(app, [str(path)]).exit_code == 2  # without --out


def _homes(path: Path, names: list[str]) -> Path:
    """Write 14 days of hourly readings of each home."""
    stamps = [f"2025-01-{day:02} {hour:02}:00" for day in range(1, 15) for hour in range(24)]
    rows = [f"{name},{stamp},1.{n % 7}" for name in names for n, stamp in enumerate(stamps)]
    path.write_text("\n".join(["id,timestamp,kwh", *rows]))
    return path


def test_attributes_of_other_customers_are_named(app: typer.Typer, tmp_path: Path) -> None:
    """None matches, or leading zeros are lost: a warning with one id of each side, and a row."""
    names = [f"0{n}" for n in range(10)]
    path = _homes(tmp_path / "r.csv", names)
    words = [str(path), "--timezone", "UTC", "--out", str(tmp_path / "p.parquet"), "--attributes"]
    lost = tmp_path / "lost.csv"
    lost.write_text("\n".join(["customer_id,class", *(f"{n},a" for n in range(10))]))
    result = CliRunner().invoke(app, [*words, str(lost)])
    output = " ".join(result.output.split())
    assert "no customer of the readings is in lost.csv; compare the ids (for example 00 and 0)" in (
        output
    )
    assert re.search(r"of these: without attributes │ +10 │", output)
    few = tmp_path / "few.csv"
    few.write_text("\n".join(["customer_id,class", *(f"{name},a" for name in names[1:]), "x,a"]))
    result = CliRunner().invoke(app, [*words, str(few), "--json"])
    expected = "1 customer (10 %) is not in few.csv; compare the ids (for example 00 and x)"
    assert json.loads(result.stdout)["warnings"] == [expected]
    readings = read_readings(path, timezone="UTC")
    with pytest.warns(UnmatchedAttributesWarning, match="no customer of the readings is in lost"):
        build_profiles(readings, attributes=lost)
    right = tmp_path / "right.csv"
    right.write_text("\n".join(["customer_id,class", *(f"{name},a" for name in names)]))
    result = CliRunner().invoke(app, [*words, str(right)])
    assert "Warning" not in result.output
    assert "without attributes" not in result.output


def test_values_of_attributes_are_listed(app: typer.Typer, tmp_path: Path) -> None:
    """With counts, the most frequent ten of each, so that groups are spelled like them."""
    names = [f"h{n:02}" for n in range(13)]
    path, table = _homes(tmp_path / "r.csv", names), tmp_path / "a.csv"
    rows = [f"{name},{number > 2},f{number}" for number, name in enumerate(names)]
    table.write_text("\n".join(["customer_id,has_ev,feeder", *rows, "elsewhere,odd,f99"]))
    words = [str(path), "--timezone", "UTC", "--out", str(tmp_path / "p.parquet")]
    told = CliRunner().invoke(app, [*words, "--attributes", str(table)]).output
    assert re.search(r"has_ev +│ True +│ +10 │", told)
    assert re.search(r"has_ev +│ False +│ +3 │", told)
    assert "(values not listed: 3)" in told
    assert "odd" not in told  # of a customer without readings
    record = json.loads(
        CliRunner().invoke(app, [*words, "--attributes", str(table), "--json"]).stdout
    )
    found = record["attribute_values"]
    assert found["has_ev"] == {"customers": {"True": 10, "False": 3}, "values_not_listed": 0}
    assert len(found["feeder"]["customers"]) == 10
    without = CliRunner().invoke(app, words).output
    assert "Use exactly these spellings" not in without


def test_a_missing_table_of_attributes_is_refused_first(app: typer.Typer, tmp_path: Path) -> None:
    """Before readings are read, which may take minutes."""
    words = [str(tmp_path / "no.csv"), "--timezone", "UTC", "--out", str(tmp_path / "p.parquet")]
    result = CliRunner().invoke(app, [*words, "--attributes", str(tmp_path / "a.csv")])
    assert result.exit_code == 1
    assert "a.csv does not exist; check the path" in result.output
    assert "no.csv" not in result.output


def test_stamps_of_another_zone_have_a_hint(app: typer.Typer, tmp_path: Path) -> None:
    """A local hour that does not exist; conflicts are mentioned only if there are any."""
    stamps = [f"2025-03-{day:02} {hour:02}:00" for day in range(1, 16) for hour in range(24)]
    rows = [f"a,{stamp},1.{n % 7}" for n, stamp in enumerate(stamps)]
    (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
    words = [str(path), "--timezone", "America/New_York", "--out", str(tmp_path / "p.parquet")]
    output = " ".join(CliRunner().invoke(app, words).output.split())
    assert (
        "1 reading is in an hour that does not exist in America/New_York. If the stamps are in UTC"
        " or another zone, add --stamps-in UTC"
    ) in output
    assert "conflicting" not in output
    (warning,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["warnings"]
    assert "1 reading is in an hour that does not exist" in warning
    output = CliRunner().invoke(app, [*words, "--stamps-in", "UTC"]).output
    assert "does not exist" not in output


def test_no_customer_left_is_one_error_in_python_and_the_command(
    app: typer.Typer, tmp_path: Path
) -> None:
    """With the reasons; before, Python returned no profiles without a word."""
    rows = [f"a,2025-01-01 {hour:02}:00,1.{hour}" for hour in range(24)]
    (path := tmp_path / "r.csv").write_text("\n".join(["id,timestamp,kwh", *rows]))
    left = "no customer is left: 1 had readings on fewer than 14 days"
    with pytest.raises(NoUsableReadingError, match=left):
        profiles_from_readings(read_readings(path, timezone="UTC"))
    words = [str(path), "--timezone", "UTC", "--out", str(tmp_path / "p.parquet")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert left in " ".join(result.output.split())
