"""Day of a release, as its manifest states it."""

from datetime import UTC, datetime, time


def this_day() -> str:
    """Return the begin of this day in UTC.

    A manifest is made after the rows were processed, which takes a time that depends on them; a
    server stores releases at ticks of a clock to hide it. The time of day would show it.
    """
    return datetime.combine(datetime.now(UTC).date(), time(), UTC).isoformat(timespec="seconds")
