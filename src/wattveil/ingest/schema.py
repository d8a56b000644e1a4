"""The one table that all readings become, and the words for what happens to a row on the way.

=============  ====================================================================================
customer_id    whose reading it is
start_utc      start of the interval
minutes        its length: 5, 10, 15, 20, 30 or 60
kwh            energy of the interval; energy received from the customer is negative
channel        ``delivered`` to the customer, ``received`` from there, or ``net`` of the two
quality        one of `QUALITIES`
=============  ====================================================================================

Inside, channel and quality travel as their place in `CHANNELS` and `QUALITIES`.
"""

from enum import IntEnum, StrEnum
from unicodedata import category

import pyarrow as pa

READINGS_SCHEMA = pa.schema(
    [
        pa.field("customer_id", pa.string()),
        pa.field("start_utc", pa.timestamp("us", tz="UTC")),
        pa.field("minutes", pa.int16()),
        pa.field("kwh", pa.float64()),
        pa.field("channel", pa.string()),
        pa.field("quality", pa.string()),
    ]
)

ALLOWED_MINUTES = (5, 10, 15, 20, 30, 60)

SPACES = "".join(sign for sign in map(chr, range(1 << 16)) if category(sign) == "Zs")
"""What DuckDB's trim takes off a name."""
EARLIEST_YEAR, LATEST_YEAR = 1990, 2099  # a stamp outside is a clock that was never set
MOST_KW = 1_000_000  # no customer has a gigawatt; `energy` says what needs the limit

CHANNELS = ("delivered", "received", "net")
DELIVERED, RECEIVED, NET = range(3)

# From best to worst: of two reads of one interval, only the better ones compete.
QUALITIES = (
    "valid",
    "raw",
    "edited",
    "mixed",
    "estimated",
    "derived",
    "projected",
    "questionable",
    "other",
    "missing",
)
FIRST_ESTIMATED = QUALITIES.index("mixed")
MISSING = QUALITIES.index("missing")

QUALITY_WORDS = {
    **{name: code for code, name in enumerate(QUALITIES)},
    **dict.fromkeys(("", "a", "actual", "r", "r0", "measured", "ok", "good", "v", "0"), 0),
    **dict.fromkeys(("e", "est", "s", "substituted", "f", "estimate"), FIRST_ESTIMATED + 1),
    **dict.fromkeys(("n", "null", "m", "miss"), MISSING),
}
OTHER = QUALITIES.index("other")

CHANNEL_WORDS = {
    **dict.fromkeys(("delivered", "import", "consumption", "e", "1", "to customer"), DELIVERED),
    **dict.fromkeys(("received", "export", "generation", "b", "19", "from customer"), RECEIVED),
    **dict.fromkeys(("net", "4", ""), NET),
}


class Drop(IntEnum):
    """Why a row is not in the table; the order is that of the checks."""

    NO_CUSTOMER = 1
    UNMAPPED_METER = 2
    BAD_STAMP = 3
    IMPOSSIBLE_YEAR = 4
    EMPTY_SLOT_BEYOND_DAY = 5
    VALUE_BEYOND_DAY = 6
    MARKED_MISSING = 7
    NO_VALUE = 8
    BAD_VALUE = 9
    NOT_FINITE = 10
    BAD_MINUTES = 11
    IMPOSSIBLE_LOAD = 12
    UNKNOWN_CHANNEL = 13
    ESTIMATED = 14
    SPRING_GAP = 15
    OFF_GRID = 16
    OUTSIDE_PERIOD = 17
    CONFLICT = 18
    FIRST_REGISTER_READ = 19
    REGISTER_GAP = 20
    REGISTER_RESET = 21
    SUPERSEDED_BY_NET = 22

    @property
    def text(self) -> str:
        """The reason in words, as reports print it."""
        return _DROP_TEXTS[self]


_DROP_TEXTS = {
    Drop.NO_CUSTOMER: "no customer id",
    Drop.UNMAPPED_METER: "meter is not in the list of meters",
    Drop.BAD_STAMP: "unreadable time stamp",
    Drop.IMPOSSIBLE_YEAR: f"year outside {EARLIEST_YEAR}-{LATEST_YEAR}",
    Drop.EMPTY_SLOT_BEYOND_DAY: "empty slot beyond the end of its day",
    Drop.VALUE_BEYOND_DAY: "value beyond the end of its day",
    Drop.MARKED_MISSING: "marked as missing",
    Drop.NO_VALUE: "no value",
    Drop.BAD_VALUE: "value is not a number",
    Drop.NOT_FINITE: "value is not finite",
    Drop.BAD_MINUTES: f"interval length is none of {ALLOWED_MINUTES} minutes",
    Drop.IMPOSSIBLE_LOAD: f"load beyond {MOST_KW:,} kW",
    Drop.UNKNOWN_CHANNEL: "unknown channel",
    Drop.ESTIMATED: "estimated",
    Drop.SPRING_GAP: "local time that does not exist (clocks forward)",
    Drop.OFF_GRID: "time stamp is not on the interval grid",
    Drop.OUTSIDE_PERIOD: "outside the period",
    Drop.CONFLICT: "conflicting duplicates",
    Drop.FIRST_REGISTER_READ: "first register read (opens the series)",
    Drop.REGISTER_GAP: "register read that is not one interval after the one before",
    Drop.REGISTER_RESET: "register went backwards",
    Drop.SUPERSEDED_BY_NET: "superseded by the net channel",
}


class Merge(StrEnum):
    """Why a row is part of another row of the table."""

    EQUAL = "equal duplicate"
    BETTER = "replaced by a better read of the interval"
    RESOLVED = "conflicting duplicate, resolved by the rule"
    NETTED = "delivered and received, netted"


class Note(StrEnum):
    """What was assumed or repaired in a row that stayed."""

    AMBIGUOUS_PAIR = "repeated hour (clocks back), told apart by order of appearance"
    AMBIGUOUS_SINGLE = "repeated hour (clocks back) read once, taken as its first pass"
    ESTIMATED = "estimated, kept"
    ROLLOVER = "register rolled over"
    UNPAIRED = "one of the customer's two channels is absent, taken as 0"
