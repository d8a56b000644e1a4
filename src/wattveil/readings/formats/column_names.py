"""Names of columns: slots of the day, units, and energy in one direction."""

import itertools
import re
from difflib import SequenceMatcher

from wattveil.readings.options import MeasuredIn

# Distinguishes a broken name of a slot from an attribute such as ZIP_CODE, PLC_VALUE or address_2.
_LIKE_A_SLOT, _LIKE_A_SLOT_IF_NUMBERED = 0.8, 0.6

_DIRECTIONS = {
    *("import", "imported", "export", "exported", "delivered", "received", "returned", "surplus"),
    *("injection", "injected", "injectie", "afname", "teruglevering", "bezug", "einspeisung"),
    *("prelievo", "immissione", "vertida", "excedente", "feedin", "generation", "production"),
}
_OF_FILES = {"at", "on", "by", "date", "time", "timestamp", "ts", "file", "id", "batch"}


def evenly_spaced(numbers: list[int], minutes: int) -> bool:
    """Accept 0, 1, 2, … or 1, 2, 3, … or times of day such as 0030, 0100, …: no slot left out."""
    places = [number - numbers[0] for number in numbers]
    times = [number // 100 * 60 + number % 100 for number in numbers]
    steps = [minutes * place for place in range(len(numbers))]
    counted = numbers[0] <= 1 and places == list(range(len(numbers)))
    timed = times[0] in {0, minutes} and [time - times[0] for time in times] == steps
    return counted or timed


def may_be_slot(plain: str, slot: str) -> bool:
    """Return whether a name is empty or close to those of slots, apart from numbers."""
    letters, slot_letters = (re.sub("[^a-z]", "", name) for name in (plain, slot))
    if len(letters) <= 1:
        return True
    alike = SequenceMatcher(None, letters, slot_letters, autojunk=False).ratio()
    has_number = re.search(r"\d", plain) is not None
    return alike >= (_LIKE_A_SLOT_IF_NUMBERED if has_number else _LIKE_A_SLOT)


def names_direction(plain: str) -> bool:
    """Return whether a name is that of energy in one direction, not of a date or a file."""
    words = plain.split("_")
    return not _DIRECTIONS.isdisjoint(words) and _OF_FILES.isdisjoint(words)


_UNIT_WORDS = {unit.value.lower(): unit for unit in MeasuredIn} | {
    "kilowatthours": MeasuredIn.KWH,
    "watts": MeasuredIn.W,
    "watt": MeasuredIn.W,
}


def unit_in_name(plain: str) -> MeasuredIn | None:
    """Return the unit that the name of a column contains as a word, if it is one."""
    words = plain.split("_")
    joined = [first + second for first, second in itertools.pairwise(words)]
    found = {
        _UNIT_WORDS[word]
        for word in joined
        if word in {"kwh", "mwh", "watthours"} & _UNIT_WORDS.keys()
    }
    if {"watt", "hours"} <= set(words):
        return MeasuredIn.WH
    found = found or {_UNIT_WORDS[word] for word in words if word in _UNIT_WORDS}
    return found.pop() if len(found) == 1 else None
