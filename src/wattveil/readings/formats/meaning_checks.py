"""Refusals of files whose names of columns, letterhead or sensors may mean other than one home.

A format of common names (``generic``) is recognised by little. Before such a file is read as the
load of one home, nothing in it may speak of other energy (feed-in, production, gas, a remainder),
and its meters must be of one home. Sensors of a home system are added only if their names show that
they are parts of one whole.
"""

import re
from collections.abc import Mapping, Sequence

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.known_formats import (
    Recognised,
    direction_of,
    sensor_of,
    words_of,
)
from wattveil.readings.formats.table_columns import FoundLayout, plain_name
from wattveil.readings.options import ReadOptions

_MIN_LETTERS = 3  # shorter words, such as b or 19, are codes in a column of directions only
_LIMITED = "columns={'value': …} if one column is the whole load of the home from the grid"
_TARIFF = re.compile(r"tar(iff?|ief)_\d|(^|_)(t\d|low|high|peak|off_?peak|day|night|normal)(_|$)")
_PHASE = re.compile(r"(^|_)(l[123]|phase_?[123])(_|$)")
_COUNTED = {"delivered", "received"}


_AS_UNIT = {"Wh × 10^3": "kWh", "Wh × 10^6": "MWh", "W × 10^3": "kW"}


def refuse_unit(found: FoundLayout, options: ReadOptions, path: object) -> None:
    """Reject a stated unit that is not that of the files, whose format states it."""
    unit = found.file_unit or found.unit.value
    if options.unit is not None and options.unit != _AS_UNIT.get(unit, unit):
        told = (path, "unit", unit, options.unit.value)
        name = found.assumptions[0].removeprefix("format: ")
        problem = f": the file states {unit} ({name})"
        raise InvalidFileError(*told, problem=problem, remedy="Omit `unit`")


def other_energy(found: Recognised) -> tuple[str, str, str] | None:
    """Return where a file of one home speaks of other energy, what is expected, and the text."""
    if not (found.format.generic or found.format.unknown):
        return None
    return _in_columns(found) or (_in_letterhead(found) if found.format.generic else None)


def _in_columns(found: Recognised) -> tuple[str, str, str] | None:
    patterns = words_of("others")
    plain = found.header.plain
    for name in found.roles.get("delivered", ()):
        if re.search(patterns["remainder"], plain[name]):
            return "header", f"the whole load, not a remainder of it; {_LIMITED}", name
    taken = {name for names in found.roles.values() for name in names}
    for name, short in plain.items():
        if name in taken or re.fullmatch(found.format.ignored, short):
            continue
        if re.search(patterns["export"], short) or (
            found.format.generic and _is_other_column(short, patterns["column"])
        ):
            expected = f"a unit in the name of each energy, such as 'Export (kWh)'; {_LIMITED}"
            return "header", expected, name
    return None


def _in_letterhead(found: Recognised) -> tuple[str, str, str] | None:
    """Search the lines above the names; a direction that is read as such is no contradiction."""
    pattern = words_of("others")["letterhead"]
    direction = found.format.letterhead.get("direction", "")
    for cells in found.header.above:
        name, *values = cells if len(cells) > 1 else ("", *cells)
        is_direction = re.fullmatch(direction, plain_name(name))
        if is_direction and any(direction_of(value) for value in values if value):
            continue
        if any(re.search(pattern, plain_name(cell)) for cell in cells) or any(
            plain_name(value).replace("_", " ") in _other_words() for value in values
        ):
            shown = ": ".join(cell.strip() for cell in cells if cell.strip())
            expected = "electricity that a home takes from the grid; if it is, skip_lines=… and"
            return "letterhead", f"{expected} columns={{'value': …}}", shown
    return None


def _other_words() -> set[str]:
    directions = words_of("directions")
    words = {*directions["received"], *directions["gas"]}
    return {word for word in words if len(word) >= _MIN_LETTERS and not re.search(r"\d", word)}


def _is_other_column(plain: str, pattern: str) -> bool:
    phrase = f" {plain.replace('_', ' ')} "
    return bool(re.search(pattern, plain)) or any(f" {word} " in phrase for word in _other_words())


def homes_of(sensors: Sequence[str], words: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sensors of energy from and to the grid, by what their names say beside that."""
    known = {word for some in words_of("sensors").values() for word in some}
    known |= {*words_of("tariffs")["ignored"], *words_of("tariffs")["neutral"]}
    homes: dict[str, list[str]] = {}
    for name in sensors:
        plain = plain_name(name)
        if plain in words or sensor_of(name) not in _COUNTED:
            continue
        rest = re.sub(r"(tar(iff?|ief)|phase)_\d", "", plain)
        left = "_".join(word for word in rest.split("_") if word not in known)
        homes.setdefault(left, []).append(name)
    return homes


def sums_beside_parts(sensors: Sequence[str]) -> tuple[str, str] | None:
    """Return why sensors of one home cannot be added, and which; None if they can.

    Those of one direction add up only if all are its tariffs, or all its phases.
    """
    for direction in sorted(_COUNTED):
        names = [name for name in sensors if sensor_of(name) == direction]
        kinds = {(bool(_TARIFF.search(n)), bool(_PHASE.search(n))) for n in map(plain_name, names)}
        if len(names) > 1 and kinds not in ({(True, False)}, {(False, True)}):
            expected = (
                f"sensors of {direction} energy that are all its tariffs or all its phases;"
                f" export no total beside them, or words={{SENSOR: {direction!r}}} for each to add"
            )
            return expected, ", ".join(names[:4])
    return None
