"""Mutated files of every layout: a clear error, or an account of every row.

`WATTVEIL_FUZZ=10000 pytest tests/integration/test_reading_fuzz.py` is the long version: that many
files of each layout, of all sample exports together, and of all containers together. The suite
mutates 16 files of each layout, one of each sample and two of each container. A failure names its
seed.
"""

import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.export_fuzz import fuzz_container, fuzz_sample
from tests.export_oracle import expected
from tests.unit.readings.test_containers import MAKERS
from wattveil.errors import InvalidFileError
from wattveil.profiles import build_profiles
from wattveil.readings import read_readings

pytestmark = pytest.mark.untraced  # the tests of each layout cover its lines

_INPUTS = int(os.environ.get("WATTVEIL_FUZZ", "16"))
_FEW = 2  # of each container
_PROFILED = 4  # of so many inputs one becomes profiles too
_CHUNKS = 8  # tests of one layout, so that they run side by side and keep within the time limit

_TOKENS = [b",", b";", b"\n", b'"', b"\r\n", b"\x00", b"\xff", b"-", b"NaN", b"1e999", b"+01:00"]


def _long(draw: random.Random) -> bytes:
    lines = ["customer_id,timestamp,kwh,channel,quality"]
    for name in "ab":
        for hour in range(12):
            kwh = round(draw.random(), 3)
            lines.append(f"{name},2013-10-27 {hour:02}:00:00,{kwh},delivered,A")
    return "\n".join(lines).encode() + b"\n"


def _wide(draw: random.Random) -> bytes:
    lines = ["meter_id,date," + ",".join(f"h{hour:02}" for hour in range(24))]
    for day in range(1, 5):
        values = [f"{draw.random():.3f}" for _ in range(24)]
        lines.append(f"a,2013-01-0{day}," + ",".join(values))
    return "\n".join(lines).encode() + b"\n"


def _comed(draw: random.Random) -> bytes:
    ends = [f"{minute // 60:02}{minute % 60:02}" for minute in range(30, 25 * 60 + 1, 30)]
    header = "ZIP_CODE,ACCOUNT_IDENTIFIER,INTERVAL_READING_DATE,"
    lines = [header + ",".join(f"INTERVAL_HR{end}_ENERGY_QTY" for end in ends)]
    for day in range(1, 31):
        values = [f"{draw.random():.3f}" for _ in range(48)]
        lines.append(f"60601,x,10/{day:02}/2015," + ",".join(values) + ",,")
    return "\n".join(lines).encode() + b"\n"


def _matrix(draw: random.Random) -> bytes:
    lines = ["timestamp;C1;C2;C3"]
    for hour in range(12):
        values = ";".join(f"{draw.random():.3f}".replace(".", ",") for _ in range(3))
        lines.append(f"2013-01-01 {hour:02}:00;{values}")
    return "\n".join(lines).encode() + b"\n"


def _parquet(draw: random.Random) -> bytes:
    hours = pa.array([1_356_998_400 + 3600 * hour for hour in range(24)], pa.int64())
    table = pa.table(
        {
            "id": ["a"] * 24,
            "timestamp": hours.cast(pa.timestamp("s")),
            "kwh": [draw.random() for _ in range(24)],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


_LAYOUTS: dict[str, tuple[Callable[[random.Random], bytes], str, int]] = {
    "long": (_long, "csv", 1),
    "wide": (_wide, "csv", 24),
    "comed": (_comed, "csv", 50),
    "matrix": (_matrix, "csv", 3),
    "parquet": (_parquet, "parquet", 1),
}


def _mutate(content: bytes, draw: random.Random) -> bytes:
    """Change a file in one to four places: bytes, fields, lines, or its end."""
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(content) + 1)
        match draw.randrange(7):
            case 0:
                content = content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
            case 1:
                content = content[:place] + content[place + draw.randint(1, 8) :]
            case 2:
                content = content[:place] + draw.choice(_TOKENS) + content[place:]
            case 3:
                lines = content.split(b"\n")
                draw.shuffle(lines[1:])
                lines.insert(draw.randrange(len(lines)), draw.choice(lines))
                content = b"\n".join(lines)
            case 4:
                content = content[: draw.randrange(len(content) // 2, len(content) + 1)]
            case 5:
                fields = content.split(b",")
                fields[draw.randrange(len(fields))] = draw.choice([b"", b"x", b"-1", b" 2 "])
                content = b",".join(fields)
            case _:
                digit = b"%d" % draw.randrange(10)
                content = content.replace(digit, draw.choice([digit, b"7", b"00"]), 1)
    return content


def _records(content: bytes) -> int | None:
    """Count the records below the header; None where quotes make that a matter of taste."""
    if any(sign in content for sign in (b'"', b"\r", b"\x00")):
        return None
    return sum(1 for line in content.split(b"\n")[1:] if line)


@pytest.mark.parametrize("layout", list(_LAYOUTS))
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_mutated_files(layout: str, chunk: int, tmp_path: Path) -> None:
    """No mutation makes a reader crash, or lose a row that it does not report."""
    make, suffix, readings_per_row = _LAYOUTS[layout]
    path = tmp_path / f"mutated.{suffix}"
    refused = 0
    for number in range(chunk, _INPUTS, _CHUNKS):
        draw = random.Random(f"{layout} {number}")  # noqa: S311 -- files for a test
        content = _mutate(make(draw), draw)
        path.write_bytes(content)
        try:
            readings = read_readings(path, minutes=None if layout in {"wide", "comed"} else 60)
            report = readings.report
            by_profiles = report
            if report.rows_out and number % _PROFILED == 0:
                by_profiles = build_profiles(readings, min_days=1).account.readings
        except InvalidFileError:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"{layout} {number}: {error!r}") from error
        readings.close()
        assert by_profiles == report, f"{layout} {number}"  # computed independently
        records = _records(content) if suffix == "csv" else None
        if records is not None:
            assert report.rows_in == records * readings_per_row, f"{layout} {number}"
    if suffix == "csv" and _INPUTS >= 1000:
        assert refused < _INPUTS // _CHUNKS  # some mutations leave something to read


@pytest.mark.parametrize("name", sorted(expected()))
def test_mutated_samples(name: str, tmp_path: Path) -> None:
    """Every mutant of a sample export is refused, or keeps the rule of `tests.export_fuzz`."""
    mutants = max(1, _INPUTS // len(expected()))
    assert fuzz_sample(name, tmp_path, mutants).total() == mutants


@pytest.mark.parametrize("make", MAKERS)
def test_damaged_containers(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Damaged bytes of a container are refused, or found by a checksum, or read without a crash."""
    mutants = max(_FEW, _INPUTS // len(MAKERS))
    outcomes = fuzz_container(make, tmp_path, mutants)
    assert outcomes.total() == mutants
