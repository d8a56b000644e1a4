"""Schema of the long table of readings, its codes, and the texts that files use for them.

=============  ====================================================================================
customer_id    customer of the reading
start_utc      start of the interval
minutes        its length: 5, 10, 15, 20, 30 or 60
kwh            energy of the interval; energy received from the customer is negative
channel        ``delivered`` to the customer, ``received`` from there, or ``net`` of the two
quality        one of `QUALITIES`
=============  ====================================================================================

Internally, channel and quality are codes: their positions in `CHANNELS` and `QUALITIES`.
"""

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
MINUTES_TEXT = "5, 10, 15, 20, 30 or 60 minutes"
"""The same in messages."""

SPACES = "".join(sign for sign in map(chr, range(1 << 16)) if category(sign) == "Zs")
"""Characters that DuckDB's trim removes from a name."""
EARLIEST_YEAR, LATEST_YEAR = 1990, 2099  # a stamp outside comes from a clock that was never set
MAX_KW = 1_000_000  # above the load of any customer; exact sums in `row_checks` need the limit

CHANNELS = ("delivered", "received", "net")
DELIVERED, RECEIVED, NET = range(3)

# From best to worst: of several reads of one interval, only those of the best quality are used.
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

CHANNEL_WORDS = {
    **dict.fromkeys(("delivered", "import", "consumption", "e", "1", "to customer"), DELIVERED),
    **dict.fromkeys(("received", "export", "generation", "b", "19", "from customer"), RECEIVED),
    **dict.fromkeys(("net", "4", ""), NET),
}
