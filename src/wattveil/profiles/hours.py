"""`hours_from_readings`: the load of every customer in every slot of consecutive local days."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.profiles.profiles import check_lengths
from wattveil.readings.readings import Readings
from wattveil.readings.row_checks import UNITS_PER_KWH
from wattveil.readings.timestamps import DAY_US, MINUTE_US, known_zone, offsets
from wattveil.web.results import PrivateResult, ResultTable

_MAX_DAYS = 10 * 366
_MINUTES = (15, 30, 60)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # the default would print ids and loads
class Hours(PrivateResult):
    """Load in kW of consecutive local days: private, one row per customer."""

    customer_ids: tuple[str, ...]
    load_kw: NDArray[np.float64]
    """(customers, days times slots); NaN where a slot is not wholly covered by readings."""
    first_day: dt.date
    slots_per_day: int
    timezone: str

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"hours": self._long}

    def _long(self) -> ResultTable:
        customers, length = self.load_kw.shape
        days, slots = np.divmod(np.arange(length), self.slots_per_day)
        columns = {
            "customer_id": np.repeat(np.array(self.customer_ids, dtype=object), length),
            "day": np.tile(np.datetime64(self.first_day) + days, customers),
            "slot": np.tile(slots, customers),
            "load_kw": self.load_kw.ravel(),
        }
        return ResultTable(columns, ("customer_id", "day", "slot"))

    def _columns(self) -> Sequence[str]:
        return ("customer_id", "day", "slot", "load_kw")

    def _public_facts(self) -> Mapping[str, object]:
        names = ("first_day", "slots_per_day", "timezone")
        return {name: getattr(self, name) for name in names}


def covered_days(readings: Readings, timezone: str) -> tuple[dt.date, dt.date]:
    """Return the first local day that readings cover from midnight on, and the day after the last.

    They are the same where no day is covered.
    """
    found = readings.span_us()
    if found is None:
        return dt.date(1970, 1, 1), dt.date(1970, 1, 1)
    span_us = np.array(found, dtype=np.int64)
    local_us = span_us + offsets(timezone, span_us[0] - DAY_US, span_us[1] + DAY_US).at(span_us)
    first, end = int(-(-local_us[0] // DAY_US)), int(local_us[1] // DAY_US)
    epoch = dt.date(1970, 1, 1)
    return epoch + dt.timedelta(days=first), epoch + dt.timedelta(days=max(first, end))


def hours_from_readings(
    readings: Readings,
    *,
    first_day: dt.date,
    n_days: int,
    minutes: int = 60,
    timezone: str | None = None,
) -> Hours:
    """Lay the readings of each customer out over consecutive local days.

    Parameters
    ----------
    readings
        Result of `read_readings`, in memory.
    first_day, n_days
        Local days. Readings of other days are left out.
    minutes
        Length of a slot: 15, 30 or 60. A reading counts if its own length divides it.
    timezone
        IANA zone of the days. Left out, it is that of the readings, else UTC.

    Notes
    -----
    The matrix has to fit in memory: a year of hours is 70 KB per customer. An hour that clocks show
    twice is the mean of both; the one they skip is NaN. Every customer named in the readings has a
    row, in order of name.
    """
    if type(readings) is not Readings:
        rule = "read in memory, without an engine"
        raise InvalidParameterError("readings", rule, type(readings).__name__)
    if minutes not in _MINUTES:
        raise InvalidParameterError("minutes", f"one of {_MINUTES}", minutes)
    check_lengths("minutes", minutes, readings.lengths)
    if type(first_day) is not dt.date:
        raise InvalidParameterError("first_day", "a date", first_day)
    checks.integer("n_days", n_days, minimum=1, maximum=_MAX_DAYS)
    zone = timezone or readings.options.timezone or "UTC"
    known_zone("timezone", zone)

    row_of = {name: row for row, name in enumerate(readings.customer_ids())}
    slots = 1440 // minutes
    first_us = (first_day - dt.date(1970, 1, 1)).days * DAY_US
    end_us = first_us + n_days * DAY_US
    shifts = offsets(zone, first_us - DAY_US, end_us + DAY_US)
    units = np.zeros(len(row_of) * n_days * slots, dtype=np.int64)
    covered = np.zeros(units.size, dtype=np.int16)  # minutes
    batches = readings.unit_batches(first_us - DAY_US, end_us + DAY_US, divisor_of=minutes)
    for batch in batches:
        coded = batch["customer_id"].dictionary_encode()
        rows = np.array([row_of[name] for name in coded.dictionary.to_pylist()], dtype=np.int64)
        start_us = batch["start_us"].to_numpy()
        local_us = start_us + shifts.at(start_us) - first_us
        length_us = batch["minutes"].to_numpy() * np.int64(MINUTE_US)
        fits = (local_us % length_us == 0) & (shifts.steady_us(start_us) >= length_us)
        slot = local_us // (minutes * MINUTE_US)
        inside = fits & (slot >= 0) & (slot < n_days * slots)
        place = (rows[coded.indices.to_numpy()] * n_days * slots + slot)[inside]
        np.add.at(units, place, batch["units"].to_numpy()[inside])
        np.add.at(covered, place, batch["minutes"].to_numpy()[inside])
    whole = covered >= minutes
    load_kw = np.full(units.size, np.nan)
    load_kw[whole] = units[whole] * 60.0 / (covered[whole] * float(UNITS_PER_KWH))
    return Hours(
        customer_ids=tuple(row_of),
        load_kw=load_kw.reshape(len(row_of), n_days * slots),
        first_day=first_day,
        slots_per_day=slots,
        timezone=zone,
    )
