"""Mutated files are rejected with a clear error, or every reading in them is accounted for.

``benchmarks/fuzz_readers.py`` runs `fuzz` on more mutants and bounds their time and memory.
"""

import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.reported_problems import ReportedProblems
from wattveil.errors import InvalidFileError
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.formats.nem12 import nem12_batches

MUTANTS = 200

Reader = Callable[..., Iterator[pa.RecordBatch]]


@dataclass
class Tally:
    """Outcomes of the mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    readings: int = 0
    slowest_seconds: float = 0.0


def fuzz(name: str, folder: Path, *, mutants: int, seed: int) -> Tally:
    """Mutate a good file many times and check the outcome of every mutant."""
    good, reader, readings_in = SUBJECTS[name]
    rng = np.random.default_rng(seed)
    tally = Tally()
    path = folder / name
    for _ in range(mutants):
        mutant = good()
        for _ in range(rng.integers(1, 4)):
            mutant = MUTATIONS[rng.integers(len(MUTATIONS))](mutant, rng)
        path.write_bytes(mutant)
        began = time.process_time()  # bounded by benchmarks/fuzz_readers.py only
        _check(path, mutant, reader, readings_in, tally)
        tally.slowest_seconds = max(tally.slowest_seconds, time.process_time() - began)
    return tally


def _check(
    path: Path, mutant: bytes, reader: Reader, readings_in: Callable[[bytes], int], tally: Tally
) -> None:
    problems = ReportedProblems()
    rows = 0
    refused: InvalidFileError | None = None
    try:
        rows = sum(batch.num_rows for batch in reader(path, problems=problems))
    except InvalidFileError as error:
        refused = error
    if refused is not None:
        assert refused.path == path
        assert refused.where.startswith("line ")
        assert refused.expected
        tally.outcomes["refused"] += 1
        return
    lost = problems.lost.total()
    assert rows + lost == readings_in(mutant), mutant
    tally.outcomes["read in part" if lost else "read in full"] += 1
    tally.readings += rows + lost


# --- good files, and how to count their readings without the reader -------------------------------


def _green_button() -> bytes:
    def entry(links: str, inside: str) -> str:
        hrefs = (link.split("=") for link in links.split())
        tags = "".join(f'<link rel="{rel}" href="{href}"/>\n' for rel, href in hrefs)
        return f"<entry>\n{tags}<content>\n{inside}\n</content>\n</entry>\n"

    text = '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
    for i, direction, unit in ((1, 1, 72), (2, 19, 72), (3, 4, 38), (4, 1, 63)):
        point, kind = f"RetailCustomer/{i}/UsagePoint/{i}", f"ReadingType/{i}"
        meter = f"{point}/MeterReading/1"
        readings = "\n".join(
            f"<IntervalReading>\n<ReadingQuality><quality>{8 if j == 1 else 0}</quality>"
            f"</ReadingQuality>\n<timePeriod>\n<duration>900</duration>\n"
            f"<start>{1_300_000_000 + 900 * j}</start>\n</timePeriod>\n"
            f"<value>{100 * i + j}</value>\n</IntervalReading>"
            for j in range(4)
        )
        inside = {
            f"self={point}": "<UsagePoint><ServiceCategory><kind>0</kind></ServiceCategory>"
            "</UsagePoint>",
            f"self={meter} up={point}/MeterReading related={kind}": "<MeterReading/>",
            f"self={kind}": f"<ReadingType>\n<flowDirection>{direction}</flowDirection>\n"
            f"<powerOfTenMultiplier>0</powerOfTenMultiplier>\n<uom>{unit}</uom>\n</ReadingType>",
            f"up={meter}/IntervalBlock": f"<IntervalBlock>\n<interval>\n"
            f"<duration>3600</duration>\n</interval>\n{readings}\n</IntervalBlock>",
        }
        for links, resource in inside.items():
            spaced = re.sub(r"^<(\w+)", r'<\1 xmlns="http://naesb.org/espi"', resource)
            text += entry(links, spaced)
    return f"{text}</feed>\n".encode()


def _green_button_readings(content: bytes) -> int:
    root = ET.fromstring(content)  # noqa: S314 -- made here
    return sum(element.tag.endswith("IntervalReading") for element in root.iter())


def _nem12() -> bytes:
    records = ["100,NEM12,202001010000,MDA1,Ret1"]
    streams = "6305856194 E1, 6305856194 E2, 6305856194 B1, 6305856195 E1, 6305856195 K1"
    for stream in streams.split(", "):
        nmi, suffix = stream.split()
        records.append(f"200,{nmi},E1E2B1,1,{suffix},N1,METER1,kWh,30,20200201")
        for day in ("20200101", "20200102"):
            values = ",".join(f"{i / 8:.3f}" for i in range(48))
            variable = suffix == "E1" and day == "20200102"
            records.append(f"300,{day},{values},{'V' if variable else 'A'},,,20200103120000,")
            if variable:
                records += ["400,1,20,A,,", "400,21,48,S14,32,"]
        records.append("500,O,S01009,20200103120000,")
    return "\r\n".join([*records, "900", ""]).encode()


def _nem12_readings(content: bytes) -> int:
    readings = values = 0
    for line in content.decode("utf-8-sig").split("\n"):
        fields = [part.strip(' \r\t"') for part in line.split(",")]
        if fields[0] == "200":
            values = 1440 // int(fields[8])
        elif fields[0] == "300":
            readings += values
    return readings


SUBJECTS: dict[str, tuple[Callable[[], bytes], Reader, Callable[[bytes], int]]] = {
    "green button": (_green_button, green_button_batches, _green_button_readings),
    "nem12": (_nem12, nem12_batches, _nem12_readings),
}


# --- mutations ------------------------------------------------------------------------------------

Mutation = Callable[[bytes, np.random.Generator], bytes]

_TOKENS = (
    *(b"", b"-1", b"4096", b"65535", b"NaN", b"1e9", b"99999999999999999999", b"0", b"20", b"1.5"),
    *(b"<", b">", b"&x;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"\x00", b"\xff", b'"', b","),
    *(b"<IntervalReading/>", b"<IntervalBlock/>", b"<value>1</value>", b"<uom>38</uom>"),
    *(
        b"\n900\n",
        b"\n300,20200101,A\n",
        b"\n400,1,48,A,,\n",
        b"V",
        b"E3",
        b"15",
        b"\r",
        b"\xef\xbb\xbf",
    ),
)


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + bytes([rng.integers(256)]) + content[at + 1 :]


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content) + 1)]


def _drop(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + content[at + int(rng.integers(1, 200)) :]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + _TOKENS[rng.integers(len(_TOKENS))] + content[at:]


def _number(content: bytes, rng: np.random.Generator) -> bytes:
    """Put something else where a number stands."""
    numbers = list(re.finditer(rb"\d+", content))
    if not numbers:
        return content
    start, end = numbers[rng.integers(len(numbers))].span()
    return content[:start] + _TOKENS[rng.integers(len(_TOKENS))] + content[end:]


def _lines(content: bytes, rng: np.random.Generator) -> bytes:
    """Remove, repeat or exchange lines, or move a run of them."""
    lines = content.split(b"\n")
    a, b = sorted(int(at) for at in rng.integers(len(lines), size=2))
    match rng.integers(4):
        case 0:
            del lines[a]
        case 1:
            lines.insert(b, lines[a])
        case 2:
            lines[a], lines[b] = lines[b], lines[a]
        case _:
            run = lines[a : a + 10]
            del lines[a : a + 10]
            lines[b:b] = run
    return b"\n".join(lines)


def _entries(content: bytes, rng: np.random.Generator) -> bytes:
    """Exchange two entries or records, which keeps the file well formed."""
    parts = re.split(rb"(?=<entry>|</feed>|\n[1-9]00)", content)
    a, b = rng.integers(len(parts), size=2)
    parts[a], parts[b] = parts[b], parts[a]
    return b"".join(parts)


def _names(content: bytes, rng: np.random.Generator) -> bytes:
    """Rename an element everywhere, which keeps the file well formed."""
    names = sorted(set(re.findall(rb"<([A-Za-z]+)", content)))
    if len(names) < 2:
        return content
    a, b = (names[rng.integers(len(names))] for _ in range(2))
    return re.sub(rb"(?<=[</])" + a + rb"(?=[ >/])", b, content)


MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _cut, _drop, _insert, _number, _number, _lines, _entries, _names),
)


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_the_good_file_is_read_in_full(name: str, tmp_path: Path) -> None:
    """The file that mutants come from has readings to lose, and none is lost."""
    good, reader, readings_in = SUBJECTS[name]
    tally = Tally()
    path = tmp_path / name
    path.write_bytes(good())
    _check(path, good(), reader, readings_in, tally)
    assert tally.readings >= 16


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_mutants_are_refused_or_accounted_for(name: str, tmp_path: Path) -> None:
    """Readings in the file = rows + readings counted, or an InvalidFileError with its place."""
    tally = fuzz(name, tmp_path, mutants=MUTANTS, seed=20_260_711)
    assert tally.outcomes.total() == MUTANTS
    assert min(tally.outcomes["refused"], MUTANTS - tally.outcomes["refused"]) > MUTANTS // 20
