"""Mutations of sample exports and containers, and the rule that every mutant must keep.

A mutant is refused with a `WattveilError`, or it is read, and then:

* where its meaning is unchanged (line ends, byte-order mark, blank lines at the end, a container
  around it), the reading is that of the original;
* where a few lines with readings were damaged, only readings of these lines differ. A damaged stamp
  may collide with one other reading, so at most twice as many intervals change as the lines hold,
  and beyond them as many as the report counts as dropped or merged in addition;
* where all lines were changed (a column dropped, doubled or emptied, delimiters or encoding
  swapped), the reading is that of the original, or the report or the inferred options differ: the
  change has been said.

A sample that is refused stays refused when a few of its lines are damaged.
"""

import bz2
import gzip
import io
import math
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.export_oracle import SAMPLES, expected
from wattveil.errors import WattveilError
from wattveil.readings import read_readings
from wattveil.readings.row_checks import ReadingReport

_STATED = expected()
_DAMAGED_LINES = 2
_TOKENS = ("", "-1", "1e999", "99999999", "x", "NaN", '"', "\0", "2024-13-45", ";", ",")

_Slots = dict[tuple[str, object], float]


@dataclass(frozen=True)
class _Reading:
    slots: _Slots
    counted: int  # rows dropped or merged
    said: ReadingReport

    def changed(self, other: "_Reading") -> int:
        """Count intervals that differ."""
        return sum(
            not math.isclose(
                self.slots.get(at, math.nan),
                other.slots.get(at, math.nan),
                rel_tol=1e-9,
                abs_tol=1e-9,
            )
            for at in self.slots.keys() | other.slots.keys()
        )


def fuzz_sample(name: str, folder: Path, mutants: int, seed: int = 0) -> Counter[str]:
    """Mutate a sample and check every mutant; return the number of outcomes of each kind."""
    content = (SAMPLES / name).read_bytes()
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    is_text = not name.endswith((".zip", ".xml"))
    zone = str(_STATED[name]["timezone"])
    path = folder / re.sub(r"\.gz$", "", name)
    path.write_bytes(content)
    original = _read(path, zone)
    outcomes: Counter[str] = Counter()
    for number in range(mutants):
        draw = random.Random(f"{name} {seed} {number}")  # noqa: S311 -- files for a test
        rules = [_check_same, _check_damaged_lines, _check_said] if is_text else [_check_same]
        outcome = draw.choice(rules)(content, path, zone, original, draw)
        assert outcome is None or outcome in {"refused", "read"}, f"{name} {number}: {outcome}"
        outcomes[outcome or "refused"] += 1
        path.unlink(missing_ok=True)
    return outcomes


def fuzz_container(make: Callable[[Path], None], folder: Path, mutants: int) -> Counter[str]:
    """Damage the bytes of a container: it is refused or read, and nothing else happens."""
    make(path := folder / "container")
    content = path.read_bytes()
    original = _read(path, "UTC")
    assert original is not None
    outcomes: Counter[str] = Counter()
    for number in range(mutants):
        draw = random.Random(f"{make.__name__} {number}")  # noqa: S311 -- files for a test
        path.write_bytes(_damaged_bytes(content, draw))
        found = _read(path, "UTC")
        outcomes["refused" if found is None else "read"] += 1
        if found is not None and content.startswith((b"PK", b"BZh")):  # they have checksums
            assert not original.changed(found), f"{make.__name__} {number}"
    return outcomes


def _read(path: Path, zone: str) -> _Reading | None:
    """Read a file; None where it is refused. Any other error fails the test."""
    try:
        readings = read_readings(path, timezone=zone)
        table, report = readings.to_arrow(), readings.report
    except WattveilError as refusal:
        if "\n" in str(refusal):
            raise AssertionError("a refusal is one sentence") from refusal
        return None
    if not table.num_rows:
        return None  # `wattveil profiles` refuses an empty table
    slots: _Slots = {}
    for row in table.select(["customer_id", "start_utc", "kwh"]).to_pylist():
        at = (row["customer_id"], row["start_utc"])
        slots[at] = slots.get(at, 0.0) + row["kwh"]
    readings.close()
    counted = sum(report.dropped.values()) + sum(report.merged.values())
    return _Reading(slots, counted, replace(report, files=()))


def _check_same(
    content: bytes, path: Path, zone: str, original: _Reading | None, draw: random.Random
) -> str | None:
    mutant = draw.choice(_SAME)(content, path.name)
    path.write_bytes(mutant)
    found = _read(path, zone)
    if found is None:
        return "refused"
    if original is None:
        return "a refused sample is read"
    changed = original.changed(found)
    return f"{changed} intervals changed in a container" if changed else "read"


def _check_damaged_lines(
    content: bytes, path: Path, zone: str, original: _Reading | None, draw: random.Random
) -> str | None:
    text = content.decode("utf-8-sig")
    lines = text.split("\n")
    rows = _reading_lines(lines)
    damaged = sorted(draw.sample(rows, min(_DAMAGED_LINES, len(rows))), reverse=True)
    for at in damaged:
        draw.choice(_LINE_MUTATIONS)(lines, at, draw)
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    found = _read(path, zone)
    if found is None:
        return "refused"
    if original is None:
        return "a refused sample is read"
    per_line = math.ceil(2 * len(original.slots) / len(rows))
    allowed = 2 * per_line * len(damaged) + max(0, found.counted - original.counted)
    changed = original.changed(found)
    return f"{changed} intervals changed, {allowed} allowed" if changed > allowed else "read"


def _check_said(
    content: bytes, path: Path, zone: str, original: _Reading | None, draw: random.Random
) -> str | None:
    text = content.decode("utf-8-sig")
    path.write_bytes(draw.choice(_WHOLE_MUTATIONS)(text, draw))
    found = _read(path, zone)
    if found is None or original is None:
        return "refused"
    if original.changed(found) and found.said == original.said:
        return "readings changed without a word"
    return "read"


def _reading_lines(lines: list[str]) -> list[int]:
    """Return the lines with readings: of the most common number of delimiters, with digits."""
    counts = Counter(_delimiters(line) for line in lines if line.strip())
    common = counts.most_common(1)[0][0]
    return [
        n
        for n, line in enumerate(lines)
        if n and _delimiters(line) == common and sum(map(str.isdigit, line)) >= 4
    ]


def _delimiters(line: str) -> int:
    return (
        sum(line.count(sign) for sign in ",;\t|") if set(line) & set(",;\t|") else line.count(" ")
    )


def _zip(content: bytes, name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"folder/{name}", content)
    return buffer.getvalue()


def _with_mark(content: bytes, _: str) -> bytes:
    return content if content.startswith((b"\xef\xbb\xbf", b"PK")) else b"\xef\xbb\xbf" + content


def _other_line_ends(content: bytes, _: str) -> bytes:
    if content.startswith(b"PK"):
        return content
    plain = content.replace(b"\r\n", b"\n")
    return plain if plain != content else plain.replace(b"\n", b"\r\n")


_SAME: list[Callable[[bytes, str], bytes]] = [
    _zip,
    _with_mark,
    _other_line_ends,
    lambda content, _: gzip.compress(content),
    lambda content, _: bz2.compress(content),
    lambda content, _: content if content.startswith(b"PK") else content + b"\n\n",
]


def _drop_line(lines: list[str], at: int, _: random.Random) -> None:
    del lines[at]


def _double_line(lines: list[str], at: int, _: random.Random) -> None:
    lines.insert(at, lines[at])


def _cut_line(lines: list[str], at: int, draw: random.Random) -> None:
    lines[at] = lines[at][: draw.randrange(len(lines[at]))]


def _replace_cell(lines: list[str], at: int, draw: random.Random) -> None:
    cells = re.split(r"([,;\t|])", lines[at])
    cells[2 * draw.randrange(len(cells) // 2 + 1)] = draw.choice(_TOKENS)
    lines[at] = "".join(cells)


def _replace_digit(lines: list[str], at: int, draw: random.Random) -> None:
    digits = [n for n, sign in enumerate(lines[at]) if sign.isdigit()]
    place = draw.choice(digits)
    lines[at] = f"{lines[at][:place]}{draw.randrange(10)}{lines[at][place + 1 :]}"


def _move_line(lines: list[str], at: int, _: random.Random) -> None:
    lines.append(lines.pop(at))


_LINE_MUTATIONS: list[Callable[[list[str], int, random.Random], None]] = [
    _drop_line,
    _double_line,
    _cut_line,
    _replace_cell,
    _replace_digit,
    _move_line,
]


def _columns(text: str, change: Callable[[list[str], int], None], draw: random.Random) -> bytes:
    """Change one column of every line that has it."""
    delimiter = max(",;\t|", key=text.count)
    lines = [line.split(delimiter) for line in text.split("\n")]
    widest = Counter(len(cells) for cells in lines).most_common(1)[0][0]
    column = draw.randrange(widest)
    for cells in lines:
        if len(cells) > column:
            change(cells, column)
    return "\n".join(delimiter.join(cells) for cells in lines).encode()


def _drop_column(cells: list[str], column: int) -> None:
    del cells[column]


def _double_column(cells: list[str], column: int) -> None:
    cells.insert(column, cells[column])


def _empty_column(cells: list[str], column: int) -> None:
    cells[column] = ""


def _swap_delimiters(text: str, draw: random.Random) -> bytes:
    old = max(",;\t|", key=text.count)
    return text.replace(old, draw.choice(",;\t|")).encode()


_WHOLE_MUTATIONS: list[Callable[[str, random.Random], bytes]] = [
    lambda text, draw: _columns(text, _drop_column, draw),
    lambda text, draw: _columns(text, _double_column, draw),
    lambda text, draw: _columns(text, _empty_column, draw),
    _swap_delimiters,
    lambda text, _: text.encode("utf-16"),
    lambda text, _: text.encode("latin-1", errors="replace"),
]


def _damaged_bytes(content: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                content = content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
            case 1:
                content = content[: max(place, 1)]
            case 2:
                content = content[:place] + draw.randbytes(8) + content[place + 8 :]
            case _:
                content = content[:place] + content[place + draw.randint(1, 8) :] or b"x"
    return content
