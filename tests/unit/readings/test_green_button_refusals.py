"""Green Button feeds that are refused, compressed or large."""

import gzip
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import batches
from wattveil.readings.formats.green_button import green_button_batches

GOOD = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<entry><id>urn:uuid:1</id><link rel="self" href="UsagePoint/1"/>
<content><UsagePoint xmlns="http://naesb.org/espi"/></content></entry>
<entry><link rel="self" href="UsagePoint/1/MeterReading/1"/>
<link rel="up" href="UsagePoint/1/MeterReading"/><link rel="related" href="ReadingType/1"/>
<content><MeterReading xmlns="http://naesb.org/espi"/></content></entry>
<entry><link rel="self" href="ReadingType/1"/>
<content><ReadingType xmlns="http://naesb.org/espi">
<powerOfTenMultiplier>0</powerOfTenMultiplier>
<uom>72</uom>
</ReadingType></content></entry>
<entry><link rel="up" href="UsagePoint/1/MeterReading/1/IntervalBlock"/>
<content><IntervalBlock xmlns="http://naesb.org/espi">
<interval><duration>86400</duration><start>1300000000</start></interval>
<IntervalReading><timePeriod>
<duration>900</duration>
<start>1300000900</start>
</timePeriod>
<value>385</value>
</IntervalReading>
</IntervalBlock></content></entry>
</feed>"""

POINT = '<UsagePoint xmlns="http://naesb.org/espi"/>'


class Silence:
    """Takes problems and forgets them."""

    def count(self, reason: str, where: str, row: Mapping[str, object] | None = None) -> None:
        """Take a problem."""


def rows_of(tmp_path: Path, content: bytes) -> list[dict[str, object]]:
    """Read a feed given as bytes."""
    path = tmp_path / "feed.xml"
    path.write_bytes(content)
    batch = next(green_button_batches(path, problems=Silence()))
    rows: list[dict[str, object]] = batch.to_pylist()
    return rows


def refusal(tmp_path: Path, content: str | bytes) -> InvalidFileError:
    """Give the error that a feed raises."""
    with pytest.raises(InvalidFileError) as caught:
        rows_of(tmp_path, content.encode() if isinstance(content, str) else content)
    return caught.value


def test_the_unchanged_feed_is_read(tmp_path: Path) -> None:
    """The feed that the refusals start from is good: 385 Wh are 0.385 kWh."""
    (row,) = rows_of(tmp_path, GOOD.encode())
    assert (row["kwh"], row["customer_id"]) == (0.385, "UsagePoint/1")


@pytest.mark.parametrize(
    ("old", "new", "where", "expected", "found"),
    [
        ("</feed>", "", "line 23", "well-formed XML", "no element found"),
        ("</timePeriod>", "", "line 21", "well-formed XML", "mismatched tag"),
        ("UTF-8", "UTF-77", "line 1", "well-formed XML", "unknown encoding"),
        ("2005/Atom", "2005/Atoms", "line 2", "an Atom feed", "2005/Atoms feed"),
        ("naesb.org/espi", "naesb.org/esp", "line 4", "UsagePoint in the namespace", "/esp"),
        ("IntervalBlock", "IntervalBlocks", "line 16", "/IntervalBlock/", "IntervalReading"),
        ("ReadingType>", "ReadingTypes>", "line 12", "well-formed XML", "mismatched tag"),
        ("<uom>72", "<uom>65535", "line 11, uom", "a unit code from 0 to 255", "65535"),
        ("<uom>72", "<uom>Wh", "line 11, uom", "a whole number", "Wh"),
        ("<uom>", "<uom>72</uom><uom>", "line 11, uom", "one element", "a second one"),
        ("r>0<", "r>4096<", "line 10, powerOfTenMultiplier", "from -12 to 12", "4096"),
        (">900<", ">15 min<", "line 17, duration", "a whole number", "15 min"),
        (">1300000900<", ">1300000900000<", "line 18, start", "before the year 2100", "900000"),
        ("385", "3x5", "line 20, value", "a number", "3x5"),
        ("385", "nan", "line 20, value", "a number", "nan"),
        ("385", "1_0", "line 20, value", "a number", "1_0"),
        ("385", "<b>385</b>", "line 20", "text without elements", "b"),
        ("</value>", "</value><value>1</value>", "line 20, value", "one element", "a second"),
        ("<MeterReading", "<IntervalReading/><MeterReading", "line 7", "feed/entry", "Interval"),
        ("<IntervalBlock", "<IntervalReading/><IntervalBlock", "line 14", "feed/entry", "Inter"),
        ("<interval>", "<interval><IntervalReading/>", "line 15", "feed/entry", "Interval"),
        ("<MeterReading", f"{POINT}<MeterReading", "line 7", "one resource", "UsagePoint and"),
        ("<MeterReading", "<UsagePoint/><MeterReading", "line 7", "UsagePoint in", "Atom"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(  # noqa: PLR0917 -- one per column
    tmp_path: Path, old: str, new: str, where: str, expected: str, found: str
) -> None:
    """The error names the file, the line and element, what was expected and what was found."""
    assert old in GOOD
    error = refusal(tmp_path, GOOD.replace(old, new))
    assert error.path == tmp_path / "feed.xml"
    assert error.where.startswith(where)
    assert expected in error.expected
    assert found in str(error.found)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "well-formed XML"),
        (b"id,time,kwh\n1,2,3\n", "well-formed XML"),
        (b"\x00\x01\x02", "well-formed XML"),
        (b'<feed xmlns="http://www.w3.org/2005/Atom"/>', "a feed with an IntervalBlock"),
        (b"<feed><entry/></feed>", "an Atom feed (http://www.w3.org/2005/Atom)"),
    ],
)
def test_what_is_no_feed_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    """An empty file, another format, an empty feed, a feed without namespace."""
    assert refusal(tmp_path, content).expected == expected


def test_a_feed_without_reading_type_is_refused(tmp_path: Path) -> None:
    """Without any ReadingType there is no unit, and none is assumed."""
    start, end = (
        GOOD.index('<entry><link rel="self" href="ReadingType'),
        GOOD.index('<entry><link rel="up"'),
    )
    assert refusal(tmp_path, GOOD[:start] + GOOD[end:]).expected == "a feed with a ReadingType"


@pytest.mark.parametrize(
    "attack",
    [
        '<!DOCTYPE feed [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>',
        '<!DOCTYPE feed [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE feed SYSTEM "http://127.0.0.1:9/feed.dtd">',
    ],
)
def test_document_types_are_refused(tmp_path: Path, attack: str) -> None:
    """Entities, inner or outer, need a document type declaration, and that is refused."""
    error = refusal(tmp_path, GOOD.replace("<feed", attack + "<feed"))
    assert error.expected == "XML without a document type declaration"


@pytest.mark.parametrize("place", ["<entry>", "<interval>"])
@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        ("<a>" * 100_000, "at most 32 levels of elements"),
        (f'<a b="{"x" * 3_000_000}"/>', "tags of at most 1048576 bytes"),
        ("".join(f"<a{i}/>" for i in range(30_000)), "at most 10000 different names"),
    ],
    ids=["deep", "long", "many"],
)
def test_elements_without_end_are_refused(
    tmp_path: Path, attack: str, expected: str, place: str
) -> None:
    """Depth, length and number of names are bounded, in entries and in blocks."""
    assert refusal(tmp_path, GOOD.replace(place, place + attack, 1)).expected == expected


@pytest.mark.parametrize("place", ["urn:uuid:1", "385"])
def test_text_without_end_is_refused(tmp_path: Path, place: str) -> None:
    """No more of a text is kept than a field can need."""
    error = refusal(tmp_path, GOOD.replace(place, "1" * 1_000_000))
    assert error.expected == "at most 8192 characters of text"


@pytest.mark.parametrize("method", ["gzip", "zstd"])
def test_compressed_files(tmp_path: Path, method: str) -> None:
    """Gzip and zstd files read as the plain one, and a cut one is refused."""
    packed = gzip.compress(GOOD.encode()) if method == "gzip" else _zstd(GOOD.encode())
    assert rows_of(tmp_path, packed) == rows_of(tmp_path, GOOD.encode())
    assert refusal(tmp_path, packed[:-12]).expected == "a complete compressed file"
    assert refusal(tmp_path, packed[:9]).expected == "a complete compressed file"


def _zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def test_a_file_that_grows_between_the_passes_is_refused(tmp_path: Path) -> None:
    """A block that the first pass did not see has no unit."""

    class Meddler(Silence):
        def count(self, *_problem: object, **_more: object) -> None:
            entry = text[text.rindex("<entry>") : text.rindex("</feed>")]
            path.write_text(text.replace("</feed>", f"{entry}</feed>"), encoding="utf-8")

    path = tmp_path / "feed.xml"
    text = GOOD.replace('"related"', '"other"')  # the missing link is noted between the passes
    assert text != GOOD
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFileError, match="the file of the first pass"):
        list(green_button_batches(path, problems=Meddler()))


def test_memory_does_not_grow_with_the_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight times the readings need no more memory than one time."""
    monkeypatch.setattr(batches, "BATCH_ROWS", 500)
    head, rest = GOOD.split("<IntervalReading>")
    reading, tail = f"<IntervalReading>{rest}".split("</IntervalBlock>")
    path = tmp_path / "feed.xml"
    peaks = []
    for readings in (1000, 1000, 8000):  # the first run pays for what is loaded once
        text = head + reading * readings + "</IntervalBlock>" + tail
        path.write_text(text, encoding="utf-8")
        tracemalloc.start()
        rows = sum(batch.num_rows for batch in green_button_batches(path, problems=Silence()))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == readings
    assert peaks[2] < 1.1 * peaks[1] + 50_000
