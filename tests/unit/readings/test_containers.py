"""Containers of meter data: each is read as the plain file in it, or refused by name."""

import bz2
import datetime as dt
import gzip
import io
import json
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import feather

from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.readings import containers, read_readings
from wattveil.readings.binary_files import is_prose

_HOURS = [dt.datetime(2024, 3, 4, tzinfo=None) + dt.timedelta(hours=n) for n in range(48)]  # noqa: DTZ001 -- of a file
_ROWS = [
    (name, hour, round(0.1 + 0.013 * (7 * n % 24), 3))  # not as a register rises
    for name in "ab"
    for n, hour in enumerate(_HOURS)
]
_NAMES = ("customer_id", "timestamp", "kwh")
_XLS = Path(__file__).parents[2] / "data" / "workbooks" / "two_homes.xls"


def _csv(rows: list[tuple[str, dt.datetime, float]] = _ROWS) -> bytes:
    return "\n".join([",".join(_NAMES), *(f"{c},{t},{v}" for c, t, v in rows)]).encode() + b"\n"


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _zipped(path: Path) -> None:
    path.write_bytes(_zip({"export/readings.csv": _csv(), "readme.pdf": b"%PDF-"}))


def _bzip2(path: Path) -> None:
    path.write_bytes(bz2.compress(_csv()))


def _table() -> pa.Table:
    columns = list(zip(*_ROWS, strict=True))
    return pa.table(dict(zip(_NAMES, columns, strict=True)))


def _arrow(path: Path) -> None:
    feather.write_feather(_table(), path, chunksize=10)


def _json_lines(path: Path) -> None:
    records = (dict(zip(_NAMES, (c, str(t), v), strict=True)) for c, t, v in _ROWS)
    path.write_text("\n".join(json.dumps(record) for record in records))


def _json_list(path: Path) -> None:
    path.write_text(
        json.dumps([dict(zip(_NAMES, (c, str(t), v), strict=True)) for c, t, v in _ROWS])
    )


def _json_compressed(path: Path) -> None:
    _json_lines(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def _duckdb(path: Path, *tables: str) -> None:
    with duckdb.connect(str(path)) as connection:
        readings = _table()  # noqa: F841 -- DuckDB finds it by name
        for table in tables or ("readings",):
            connection.execute(f'CREATE TABLE "{table}" AS FROM readings')
        connection.execute("CREATE VIEW recent AS SELECT 1 AS one")


def _sqlite(path: Path, *tables: str) -> None:
    connection = sqlite3.connect(path)
    for table in tables or ("readings",):
        connection.execute(f'CREATE TABLE "{table}" (customer_id, timestamp, kwh)')
        rows = [(c, str(t), v) for c, t, v in _ROWS]
        connection.executemany(f'INSERT INTO "{table}" VALUES (?, ?, ?)', rows)
    connection.commit()
    connection.close()


def _workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[object]]] | None = None) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    notes: list[list[object]] = [["Export of", "2024-05-01"], [], ["contact", "nobody"]]
    for name, rows in (sheets or {"Notes": notes, "Data": [_NAMES, *_ROWS]}).items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)


def _old_workbook(path: Path) -> None:
    pytest.importorskip("xlrd")
    shutil.copy(_XLS, path)


def _nested(path: Path) -> None:
    """A workbook in an archive in an archive."""
    _workbook(path)
    path.write_bytes(_zip({"inner.zip": _zip({"home.xlsx": path.read_bytes()})}))


MAKERS: list[Callable[[Path], None]] = [
    _zipped,
    _bzip2,
    _arrow,
    _json_lines,
    _json_list,
    _json_compressed,
    _duckdb,
    _sqlite,
    _workbook,
    _old_workbook,
    _nested,
]


def _rows_of(source: object, **options: object) -> list[tuple[str, dt.datetime, float]]:
    readings = read_readings(source, timezone="UTC", **options)  # type: ignore[call-overload]
    found = readings.to_arrow().select(["customer_id", "start_utc", "kwh"]).to_pylist()
    readings.close()
    return [
        (row["customer_id"], row["start_utc"].replace(tzinfo=None), row["kwh"]) for row in found
    ]


@pytest.mark.parametrize("make", MAKERS)
def test_container_is_read_as_its_content(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Content decides, not the name of the file; every reading comes out with all its digits."""
    make(path := tmp_path / "any.name")
    assert _rows_of(path) == _ROWS


def test_folder_of_mixed_months(tmp_path: Path) -> None:
    """Plain, compressed and archived files of one layout are one table."""
    months = [_csv(_ROWS[n::5]) for n in range(5)]
    (tmp_path / "1.csv").write_bytes(months[0])
    (tmp_path / "2.csv.gz").write_bytes(gzip.compress(months[1]))
    (tmp_path / "3.csv.bz2").write_bytes(bz2.compress(months[2]))
    (tmp_path / "4.zip").write_bytes(_zip({"a/4.csv": months[3]}))
    _workbook(tmp_path / "5.xlsx", {"S": [_NAMES, *_ROWS[4::5]]})
    assert _rows_of(tmp_path, minutes=60) == _ROWS


def _home(kwh: float) -> bytes:
    """Write two days of a home that no column names."""
    lines = ["timestamp,kwh"]
    lines += [f"2024-03-{day:02} {hour:02}:00,{kwh}" for day in (4, 5) for hour in range(24)]
    return "\n".join(lines).encode()


def _homes(source: object, **options: object) -> dict[str, float]:
    totals: dict[str, float] = {}
    for name, _, kwh in _rows_of(source, **options):
        totals[name] = totals.get(name, 0) + kwh
    return {name: kwh / 48 for name, kwh in totals.items()}


def test_homes_in_equally_named_files_stay_apart(tmp_path: Path) -> None:
    """Folders, archives and members: what differs of the paths is part of the name."""
    for number, folder in enumerate(("north/a", "south/a"), start=1):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "home.csv").write_bytes(_home(number))
        members = {"x/home.csv": _home(number + 2), "y/home.csv": _home(number + 4)}
        (tmp_path / folder / "more.zip").write_bytes(_zip(members))
    (tmp_path / "north" / "other.csv").write_bytes(_home(9))
    assert _homes(tmp_path) == {
        "north/a/home": 1,
        "south/a/home": 2,
        "north/a/more.zip/x/home": 3,
        "south/a/more.zip/x/home": 4,
        "north/a/more.zip/y/home": 5,
        "south/a/more.zip/y/home": 6,
        "other": 9,
    }


def test_endings_that_are_part_of_a_name(tmp_path: Path) -> None:
    """Only endings of meter data are no part of a name, unless they alone differ."""
    for name, kwh in {"home.1.csv": 1, "home.2.csv": 2, "flat.csv": 3}.items():
        (tmp_path / name).write_bytes(_home(kwh))
    (tmp_path / "flat.csv.gz").write_bytes(gzip.compress(_home(4)))
    assert _homes(tmp_path) == {"home.1": 1, "home.2": 2, "flat.csv": 3, "flat.csv.gz": 4}


def test_months_of_one_home_are_joined_by_its_name(tmp_path: Path) -> None:
    """Files are one home if the caller says so; a file that is named twice is read once."""
    lines = _home(1).split(b"\n")
    (tmp_path / "1.csv").write_bytes(b"\n".join(lines[:25]))
    (tmp_path / "2.csv").write_bytes(b"\n".join([lines[0], *lines[25:]]))
    assert _homes(tmp_path) == {"1": 0.5, "2": 0.5}
    assert _homes([tmp_path, tmp_path / "1.csv"], customer="home 7") == {"home 7": 1}


_NOTE = b"""Meter data of the year 2024, in kWh
Period: 2024-01-01, 2024-12-31. Contact us: +43 1 234, or by mail.
"""


def test_what_is_no_meter_data_is_passed_over_and_listed(tmp_path: Path) -> None:
    """Notes, documents and what macOS adds are no dead end, in archives and folders."""
    others = {"readme.txt": _NOTE, "terms.pdf": b"%PDF-1.4", "__MACOSX/._a.csv": b"\0"}
    (tmp_path / "x.zip").write_bytes(_zip({"h1/data.csv": _home(1), **others}))
    (tmp_path / "liesmich.txt").write_bytes(_NOTE)
    for source, names in ((tmp_path / "x.zip", others), (tmp_path, {*others, "liesmich.txt"})):
        assert _homes(source) == {"data": 1}
        readings = read_readings(source, timezone="UTC")
        said = next(one for one in readings.assumptions if one.startswith("files: "))
        assert sum(Path(name).name in said for name in names) == min(3, len(names))
    (tmp_path / "y.zip").write_bytes(_zip({"export.dat": _home(2), **others}))
    assert _homes(tmp_path / "y.zip") == {"export.dat": 2}
    (tmp_path / "z.zip").write_bytes(_zip({"a.dat": _home(2), "b.dat": _home(3)}))
    with pytest.raises(InvalidFileError, match=r"files of readings.*a\.dat"):
        read_readings(tmp_path / "z.zip")
    with pytest.raises(InvalidFileError, match="recognised as customer"):  # named by the caller
        read_readings(tmp_path / "liesmich.txt")


@pytest.mark.parametrize("name", ["cer_30min_daycode.txt", "uci_ld2011_15min_kw.txt"])
def test_tables_in_text_files_are_no_notes(name: str) -> None:
    """Columns without a header, and columns separated by blanks, are tables."""
    assert not is_prose((Path(__file__).parents[2] / "data" / "exports" / name).read_bytes())
    assert is_prose(_NOTE)


@pytest.mark.parametrize("make", [_duckdb, _sqlite])
def test_table_is_named_where_there_are_several(make: Callable[..., None], tmp_path: Path) -> None:
    """The refusal lists the tables; the option picks one, and must name one that exists."""
    make(path := tmp_path / "meters.db", "readings", "old readings")
    with pytest.raises(InvalidFileError, match=r"table=….*'old readings', 'readings'"):
        read_readings(path)
    assert _rows_of(path, table="old readings") == _ROWS
    with pytest.raises(InvalidFileError, match="'nothing'"):
        read_readings(path, table="nothing")


def test_sheet_is_named_where_there_are_several(tmp_path: Path) -> None:
    """Two sheets of readings may be two homes: neither is chosen."""
    sheets = {"Home 1": [_NAMES, *_ROWS], "Home 2": [_NAMES, *_ROWS[:48]]}
    _workbook(path := tmp_path / "homes.xlsx", sheets)
    with pytest.raises(InvalidFileError, match=r"table=….*'Home 1', 'Home 2'"):
        read_readings(path)
    assert _rows_of(path, table="Home 2") == _ROWS[:48]
    with pytest.raises(InvalidFileError, match="'Home 3'"):
        read_readings(path, table="Home 3")


def test_table_without_tables(tmp_path: Path) -> None:
    """The option is refused where it has no meaning."""
    (tmp_path / "a.csv").write_bytes(_csv())
    with pytest.raises(InvalidParameterError, match="table"):
        read_readings(tmp_path / "a.csv", table="readings")


def test_cells_are_written_without_loss(tmp_path: Path) -> None:
    """Stamps, dates, times, durations and numbers as ISO texts with all digits."""
    stamp = dt.datetime(2024, 3, 4, 23, 30)  # noqa: DTZ001 -- of a cell
    drifted = stamp + dt.timedelta(microseconds=3000)
    rows: list[list[object]] = [
        ["stamp", "date", "time", "until", "kwh", "id", "ok", "sum"],
        [dt.datetime(2024, 3, 4), dt.date(2024, 3, 4), dt.time(0, 30), dt.timedelta(hours=24)],  # noqa: DTZ001
        [],
        [drifted, dt.date(2024, 3, 5), dt.time(1), dt.timedelta(hours=1), 1e-7, "007", True, "=1"],
        [stamp, None, dt.time(1, 2), None, 0.123456789012345, 123456789012345, False, "a,b"],
    ]
    _workbook(path := tmp_path / "book.xlsx", {"S": rows})
    from wattveil.readings.workbooks import workbook_sheet  # noqa: PLC0415 -- after the skip

    assert b"".join(workbook_sheet(path, None)).decode().splitlines() == [
        "stamp,date,time,until,kwh,id,ok,sum",
        "2024-03-04 00:00:00,2024-03-04,00:30,24:00,,,,",
        "",
        "2024-03-04 23:30:00,2024-03-05,01:00,01:00,0.0000001,007,true,",
        '2024-03-04 23:30:00,,01:02,,0.123456789012345,123456789012345,false,"a,b"',
    ]


def test_meter_numbers_beyond_15_digits(tmp_path: Path) -> None:
    """Excel rounds them: two customers would become one."""
    rows = [[541448000000000017, *row[1:]] for row in _ROWS]
    _workbook(path := tmp_path / "book.xlsx", {"S": [_NAMES, *rows]})
    with pytest.raises(InvalidFileError, match=r"row 2, column 1.*15 digits"):
        read_readings(path)


def test_one_cell_in_the_last_corner(tmp_path: Path) -> None:
    """A sheet of 17 billion cells is refused before it is read."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = 1, 1
    book.save(path := tmp_path / "book.xlsx")
    with pytest.raises(InvalidFileError, match="16,384 columns"):
        read_readings(path)


@pytest.mark.parametrize("module", ["openpyxl", "xlrd"])
def test_missing_extra(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    path = tmp_path / "book"
    shutil.copy(_XLS, path)
    if module == "openpyxl":
        path.write_bytes(_zip({"xl/workbook.xml": b""}))
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=r"\[excel\]"):
        read_readings(path)


def _bomb() -> bytes:
    return _zip({"zeros.csv": b"0" * (4 << 20)})


def _lying() -> bytes:
    """An archive whose header states fewer bytes than its member has."""
    content = _zip({"readings.csv": _csv()})
    size = struct.pack("<I", len(_csv()))
    return content.replace(size, struct.pack("<I", 10))


_REFUSED = {
    "HDF5": b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "7-Zip": b"7z\xbc\xaf\x27\x1c",
    "RAR": b"Rar!\x1a\x07\x00",
    "xz": b"\xfd7zXZ\0",
    "PDF": b"%PDF-1.4",
    "Feather": b"FEA1",
    "tar": b"\0" * 257 + b"ustar\0",
    "'complete archive|a complete archive": _zip({"a.csv": _csv()})[:-30],
    "password": _zip({"a.csv": _csv()}).replace(
        b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\1\0"
    ),
    "inside it": _zip({"../a.csv": _csv()}),
    "files of readings": _zip({"a.pdf": b"", "b.pdf": b""}),
    "XLSB": _zip({"xl/workbook.bin": b""}),
    "OpenDocument": _zip({"content.xml": b""}),
    "complete workbook": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
    "Arrow": b"ARROW1\0\0" + b"\0" * 100,
    "flat record": b'{"count": 1, "results": [{"kwh": 1}]}',
    "a list": b"[1, 2, 3]",
    "content": b'{"kwh": 1}\n{"kwh": ',
    "compressed file": bz2.compress(_csv())[:-10],
    "SQLite": b"SQLite format 3\0" + b"\0" * 100,
    "DuckDB": b"\0" * 8 + b"DUCK" + b"\0" * 100,
    "complete archive": _lying(),
}


@pytest.mark.parametrize("names", list(_REFUSED))
def test_refused_by_name(names: str, tmp_path: Path) -> None:
    """Broken containers and formats of others get a sentence that names them and the remedy."""
    (path := tmp_path / "export").write_bytes(_REFUSED[names])
    with pytest.raises(InvalidFileError, match=names) as refusal:
        read_readings(path)
    assert "\n" not in str(refusal.value)
    assert "/wattveil-" not in str(refusal.value)


def test_expansion_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the floor and the ratio is refused, by what is stated and by what comes."""
    monkeypatch.setattr(containers, "_GIB", 1 << 20)
    (tmp_path / "bomb.zip").write_bytes(_bomb())
    with pytest.raises(InvalidFileError, match="bytes when unpacked"):
        read_readings(tmp_path / "bomb.zip")
    (tmp_path / "bomb.bz2").write_bytes(bz2.compress(b"0" * (4 << 20)))
    with pytest.raises(InvalidFileError, match="times its size"):
        read_readings(tmp_path / "bomb.bz2")
    with monkeypatch.context() as patched:
        patched.setattr(containers, "_GIB", 1_000)
        patched.setattr(containers, "_MAX_RATIO", 0)
        _json_lines(tmp_path / "records.json")
        with pytest.raises(InvalidFileError, match="as a table"):
            read_readings(tmp_path / "records.json")
    monkeypatch.setattr(containers, "_MIN_FREE_BYTES", 1 << 60)
    (tmp_path / "small.bz2").write_bytes(bz2.compress(b"0"))
    with pytest.raises(InvalidFileError, match="fits in"):
        read_readings(tmp_path / "small.bz2")


def test_depth_is_bounded(tmp_path: Path) -> None:
    """Archives in each other end somewhere."""
    content = _csv()
    for _ in range(5):
        content = _zip({"a.zip": content})
    (tmp_path / "deep.zip").write_bytes(content)
    with pytest.raises(InvalidFileError, match="nested containers"):
        read_readings(tmp_path / "deep.zip")


def test_errors_name_the_container(tmp_path: Path) -> None:
    """A broken line of a member is found by the name of the archive, at opening and at reading."""
    (tmp_path / "a.zip").write_bytes(_zip({"b.csv": b"nothing,here\n1,2\n"}))
    with pytest.raises(InvalidFileError, match=r"^a\.zip/b\.csv has no column"):
        read_readings(tmp_path / "a.zip")
    (tmp_path / "a.zip").write_bytes(_zip({"b.csv": _csv() + b'a,2024-03-07,"1\n'}))
    with pytest.raises(InvalidFileError, match=r"a\.zip"):
        read_readings(tmp_path / "a.zip", minutes=60).to_arrow()


def test_containers_on_spark(tmp_path: Path) -> None:
    """Executors read files as they are: a container is refused by name."""
    _zipped(path := tmp_path / "a.csv")
    with pytest.raises(InvalidFileError, match="ZIP"):
        containers.refuse_containers([path])
    path.write_bytes(_csv())
    containers.refuse_containers([path])


def test_a_view_reads_no_other_file(tmp_path: Path) -> None:
    """A database file from outside could name any file of the custodian in a view."""
    other, evil = tmp_path / "other.csv", tmp_path / "evil.duckdb"
    other.write_bytes(_csv())
    with duckdb.connect(str(evil)) as connection:
        connection.execute(f"CREATE VIEW readings AS FROM read_csv('{other}')")
    with pytest.raises(InvalidFileError, match="a single table of readings"):
        read_readings(evil, timezone="UTC")
    with pytest.raises(InvalidFileError, match="file system operations are disabled"):
        read_readings(evil, timezone="UTC", table="readings")


def test_rows_of_a_database_file_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view of a few bytes can have any number of rows."""
    source = tmp_path / "rows.sqlite"
    _sqlite(source)
    with sqlite3.connect(source) as connection:
        connection.execute(
            "CREATE VIEW many AS WITH RECURSIVE n(kwh) AS"
            " (SELECT 1 UNION ALL SELECT kwh + 1 FROM n LIMIT 400000) SELECT kwh FROM n"
        )
    monkeypatch.setattr(containers, "_GIB", 1_000)
    monkeypatch.setattr(containers, "_MAX_RATIO", 1)
    with pytest.raises(InvalidFileError, match="expand to at most"):
        read_readings(source, timezone="UTC", table="many")


def test_members_whose_names_become_equal_stay_apart(tmp_path: Path) -> None:
    """The name of a file may be that of its customer."""
    archive = tmp_path / "homes.zip"
    archive.write_bytes(_zip({"home:1.csv": _home(1), "home*1.csv": _home(2)}))
    found = {name for name, *_ in _rows_of(archive)}
    assert found == {"home:1", "home*1"}


def test_options_that_name_a_customer_are_not_shown(tmp_path: Path) -> None:
    """Output of a notebook is shared; the option of a file without names holds an id."""
    source = tmp_path / "home.csv"
    source.write_bytes(b"\n".join(line.split(b",", 1)[1] for line in _csv(_ROWS[:48]).splitlines()))
    readings = read_readings(source, timezone="UTC", customer="METER-4711")
    assert "timezone" in repr(readings)
    assert "METER-4711" not in repr(readings) + readings._repr_html_()
