"""Energy as SQL: in kWh, within reason, and in whole units for sums.

Floating-point sums depend on the order of rows, and so, by their last bits, on who else is in the
file. Whole units do not: a reading is rounded to the nearest 1e-7 kWh (a third of a joule, less
than any meter tells), and sums of whole numbers are exact as long as they have room.

They always have. A load beyond a gigawatt is no customer's and is dropped with its reason, so that
a reading is at most 1e13 units, and 2e13 when two channels are netted. A slot of the calendar sums
at most 128 readings in a double: 128 * 2e13 < 2^53. A cell of a profile sums in 64 bits the hours
of at most 110 years: 110 * 366 * 2e13 < 2^63.
"""

from wattveil.ingest.options import MeasuredIn
from wattveil.ingest.schema import MOST_KW

UNITS_A_KWH = 10_000_000


def kwh(unit: MeasuredIn, minutes: str) -> str:
    """Write the energy of a column ``value``; that of a register is its state."""
    return {
        MeasuredIn.KWH: "value",
        MeasuredIn.REGISTER: "value",
        MeasuredIn.WH: "value / 1000",
        MeasuredIn.KW: f"value * {minutes} / 60",
    }[unit]


def possible(energy: str, minutes: str) -> str:
    """Write the test that a load is at most `MOST_KW`; NaN and infinity fail it."""
    return f"(abs({energy}) * 60 <= {MOST_KW}::DOUBLE * {minutes})"


def units(energy: str) -> str:
    """Write the whole units of an energy in kWh, as a double."""
    return f"round(({energy}) * {UNITS_A_KWH}::DOUBLE)"
