"""What a Green Button block of readings measures: its unit, direction and customer.

Codes are those of the ESPI schema (NAESB REQ.21). `interpret` turns one ReadingType into a
`Measure`, which either gives kWh for a reading or says why its readings cannot be used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

ELECTRICITY = 0
HIGHEST_UNIT = 255
WIDEST_MULTIPLIER = 12

_WATT_HOUR, _WATT = 72, 38
_NOT_STATED = 0
_ELECTRIC_COMMODITIES = (0, 1, 2)  # not stated, metered on the secondary or on the primary side
_REGISTERS = (1, 2, 3, 9)  # bulk, continuous cumulative, cumulative, summation
_EXTREMES = (8, 9)  # maximum, minimum
_CHANNELS = {0: "delivered", 1: "delivered", 4: "net", 19: "received"}

QUALITIES = {
    0: "valid",
    7: "edited",
    8: "estimated",  # from a reference day
    9: "estimated",  # by linear interpolation
    10: "questionable",
    11: "derived",
    12: "projected",
    13: "mixed",
    14: "raw",
    15: "derived",  # normalised for the weather
    16: "other",
    17: "valid",  # validated
    18: "valid",  # verified
    19: "valid",  # revenue quality
}

# A reading with several flags is as good as its worst.
WORST_FIRST = (
    "projected",
    "questionable",
    "other",
    "mixed",
    "estimated",
    "derived",
    "edited",
    "raw",
    "valid",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """How to read the values of one ReadingType.

    Attributes
    ----------
    unusable
        Why readings of the type cannot be used; empty if they can.
    remarks
        What was assumed.
    channel
        ``delivered``, ``received`` or ``net``.
    multiplier
        Power of ten of the values.
    per_second
        Whether values are power, to be multiplied by the length of the interval.
    interval_seconds
        Length of an interval for readings that do not say theirs; 0 if unknown.
    """

    unusable: str = ""
    remarks: tuple[str, ...] = ()
    channel: str = "delivered"
    multiplier: int = 0
    per_second: bool = False
    interval_seconds: int = 0

    def kwh(self, value: int | Fraction, seconds: int) -> float:
        """Convert a value to kWh, negative if received; exact but for one rounding."""
        scaled = value * seconds if self.per_second else value
        per_kwh = 3_600_000 if self.per_second else 1000
        if self.multiplier >= 0:
            scaled *= 10**self.multiplier
        else:
            per_kwh *= 10**-self.multiplier
        energy = float(scaled / per_kwh)
        return 0.0 - energy if self.channel == "received" else energy


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The readings of one block: whose they are and how to read them."""

    customer_id: str
    measure: Measure


def interpret(codes: Mapping[str, int]) -> Measure:
    """Read the codes of a ReadingType, by their element names."""
    direction = codes.get("flowDirection", _NOT_STATED)
    unit = codes.get("uom", _NOT_STATED)
    unusable = _why_unusable(codes, unit, direction)
    if unusable:
        return Measure(unusable=unusable)
    remarks = []
    if direction == _NOT_STATED:
        remarks.append("flow direction is not stated, read as delivered")
    if unit == _WATT:
        remarks.append("power is read as the mean of its interval")
    return Measure(
        remarks=tuple(remarks),
        channel=_CHANNELS[direction],
        multiplier=codes.get("powerOfTenMultiplier", 0),
        per_second=unit == _WATT,
        interval_seconds=codes.get("intervalLength", 0),
    )


def _why_unusable(codes: Mapping[str, int], unit: int, direction: int) -> str:
    if codes.get("commodity", _NOT_STATED) not in _ELECTRIC_COMMODITIES:
        return "commodity is not electricity"
    if unit not in {_WATT_HOUR, _WATT}:
        return "unit is neither Wh nor W"
    if codes.get("accumulationBehaviour", _NOT_STATED) in _REGISTERS:
        return "register read, not the energy of an interval"
    if codes.get("dataQualifier", _NOT_STATED) in _EXTREMES:
        return "maximum or minimum, not the energy of an interval"
    if direction not in _CHANNELS:
        return "flow direction is neither delivered, received nor net"
    return ""
