"""Synthetic customers on their way to a file; the buses of loads, and temperatures of years."""

import csv
import json
import math
import re
import shutil
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.bundle.csv_columns import check_columns
from wattveil.bundle.group_level import DrawnMean
from wattveil.errors import (
    ImplausibleTemperatureWarning,
    InvalidFileError,
    InvalidParameterError,
)
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split
from wattveil.web.formatting import format_number

FIRST_DAY = datetime(2001, 1, 1, tzinfo=UTC)
"""A Monday. An average day has no date, and file formats with time stamps need one."""
_MAX_IN_MEMORY, _MAX_YEARS_IN_MEMORY = 100_000, 10_000
"""Customers of formats that are not written in parts: of profiles, and of years."""
_MAX_PHASES = 3
_MAX_KV = 72.5
"""Highest voltage of equipment of distribution networks. Volts in place of kilovolts, from 100 up,
are above it."""
_LINE_KV = 0.3
"""Above the voltages of one phase, 0.1 to 0.277 kV, and below the usual ones between phases. Few
networks have 0.208 to 0.24 kV between three phases."""
_TEMPERATURES_C = (-60.0, 50.0)
"""Daily means of inhabited places. Kelvin, and summers in degrees Fahrenheit, are above."""
_MAX_MEDIAN_C = 32.0
"""Median from which Fahrenheit is likelier: a winter in degrees Fahrenheit is within the range."""
_BETWEEN_PHASES_KV = (0.38, 0.48)
"""Usual voltages between phases of low-voltage networks, 380 to 480 V. They are rarely the voltage
of a single-phase load."""
SPLIT_PHASE = "split-phase"
_COLUMNS, _OPTIONAL_COLUMNS = ("bus", "kv"), ("phases", "customers", "connection", "x", "y")
"""Of a list of buses; coordinates are not used."""
_WEATHER_COLUMNS = ("day", "temperature_c")
_NODES = re.compile(r"(?:\.[1-3](?:\.[0-4])*)?$")
"""End of a bus name of OpenDSS: a dot and a number for each conductor; 1 to 3 are phases."""

Batch = tuple[list[str], Ints, Floats]
"""Ids, clusters and load of some customers."""
Batches = Iterator[Batch]


class Bus(NamedTuple):
    """A bus with customers.

    Attributes
    ----------
    name
        As the planning tool names it. It may end in nodes of OpenDSS: ``lane.2`` is phase 2.
    kv
        Nominal voltage of its loads: between phases for three of them, else of the one phase.
    phases
        1 or 3.
    customers
        Number of customers at the bus; 0 shares the remaining customers evenly.
    connection
        ``split-phase``: single-phase customers at the two legs of a North American service, which
        GridLAB-D models as triplex loads. Empty: phase to neutral, or three phases.
    """

    name: str
    kv: float
    phases: int
    customers: int
    connection: str = ""

    @property
    def place(self) -> str:
        """Name without nodes, for tools that have none."""
        return _NODES.sub("", self.name)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes of the name; empty if it has none."""
        return tuple(int(node) for node in self.name[len(self.place) :].split(".") if node)

    @property
    def between_phases(self) -> bool:
        """Whether the nodes connect a single-phase load between two phases."""
        phases = [node for node in self.nodes if 1 <= node <= _MAX_PHASES]
        return self.phases == 1 and len(phases) > 1


def read_buses(path: Path) -> tuple[Bus, ...]:
    """Read the buses of a feeder.

    Parameters
    ----------
    path
        CSV file with the columns ``bus`` and ``kv``, and optionally ``phases`` (1 if missing),
        ``customers`` (their number at the bus; without it, customers are distributed evenly) and
        ``connection`` (empty or ``split-phase``).
    """
    rows = _read_rows(path, _COLUMNS, _OPTIONAL_COLUMNS)
    return tuple(_bus(path, line, row) for line, row in enumerate(rows, 2))


def voltage_warning(buses: tuple[Bus, ...]) -> str:
    """Return a warning of voltages that are unusual for the phases of a load; else nothing."""
    low = [bus for bus in buses if bus.phases == _MAX_PHASES and bus.kv < _LINE_KV]
    high = [bus for bus in buses if _has_voltage_between_phases(bus)]
    texts = []
    if low:
        texts.append(
            f"Bus {low[0].name} has 3 phases and kv={low[0].kv:g}, which must be the voltage"
            f" between phases: {low[0].kv:g} kV to neutral is {math.sqrt(3.0) * low[0].kv:.2g} kV."
            f" Buses with three phases below {_LINE_KV:g} kV: {len(low)}."
        )
    if high:
        texts.append(f"Bus {_voltage_text(high[0], '')} Buses with such a voltage: {len(high)}.")
    return " ".join(texts)


def _has_voltage_between_phases(bus: Bus) -> bool:
    """Whether a load from phase to neutral has a voltage that is usual between phases."""
    low, high = _BETWEEN_PHASES_KV
    return bus.phases == 1 and not bus.between_phases and low <= bus.kv <= high


def _voltage_text(bus: Bus, default: str) -> str:
    neutral = f"{bus.kv / math.sqrt(3.0):.2g}"
    return (
        f"{bus.name}: phases is 1{default} and kv is {bus.kv:g}. For a single-phase load, kv is the"
        f" line-to-neutral voltage, {neutral} kV in a {1000.0 * bus.kv:g} V network. Set phases to"
        f" 3 or kv to {neutral}."
    )


def _bus(path: Path, line: int, row: dict[str, str | None]) -> Bus:
    name = (row["bus"] or "").strip()
    if not name or any(sign.isspace() or sign in "\"'(){}[]=;,!|" for sign in name):
        rule = "a name without spaces, quotes, brackets or separators"
        raise InvalidFileError(path, f"line {line}, bus", rule, row["bus"])
    numbers = {}
    for column, default, minimum in (
        ("kv", "", 0.0),
        ("phases", "1", 1.0),
        ("customers", "0", 0.0),
    ):
        text = (row.get(column) or default).strip()
        try:
            numbers[column] = checks.non_negative(column, float(text))
        except (ValueError, InvalidParameterError) as error:
            raise InvalidFileError(path, f"line {line}, {column}", "a number", text) from error
        if numbers[column] < minimum or (column == "kv" and not numbers[column]):
            raise InvalidFileError(path, f"line {line}, {column}", "a positive number", text)
    if numbers["kv"] > _MAX_KV:
        rule = f"a voltage in kV of at most {_MAX_KV:g}, such as 0.4 for 400 V"
        raise InvalidFileError(path, f"line {line}, kv", rule, row["kv"])
    if numbers["phases"] not in (1.0, float(_MAX_PHASES)):
        raise InvalidFileError(path, f"line {line}, phases", "1 or 3", row.get("phases"))
    if not numbers["customers"].is_integer():
        raise InvalidFileError(
            path, f"line {line}, customers", "a whole number", row.get("customers")
        )
    sizes = int(numbers["phases"]), int(numbers["customers"])
    connection = (row.get("connection") or "").strip().lower()
    bus = Bus(name, numbers["kv"], *sizes, connection)
    _check_connection(path, line, row, bus)
    return bus


def _check_connection(path: Path, line: int, row: dict[str, str | None], bus: Bus) -> None:
    """Refuse a connection, nodes or a voltage that do not fit the phases of a load."""
    if bus.connection not in ("", SPLIT_PHASE) or (bus.connection and bus.phases > 1):
        rule = f"empty, or {SPLIT_PHASE} with one phase"
        raise InvalidFileError(path, f"line {line}, connection", rule, row["connection"])
    if bus.nodes and len(bus.nodes) not in (bus.phases, bus.phases + 1):
        rule = f"no nodes, or one for each phase and perhaps one for neutral ({bus.phases} phases)"
        raise InvalidFileError(path, f"line {line}, bus", rule, bus.name)
    if not (row.get("phases") or "").strip() and _has_voltage_between_phases(bus):
        problem = f", line {line}: bus {_voltage_text(bus, ' (the default)')}"
        raise InvalidFileError(path, f"line {line}, phases", "1 or 3", None, problem=problem)


def _read_rows(
    path: Path, needed: Collection[str], optional: Collection[str] = ()
) -> list[dict[str, str | None]]:
    """Read a table; refuse one without rows, or without the columns that it needs."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            columns = [name.strip().lower() for name in table.fieldnames or ()]
            table.fieldnames = columns
            rows: list[dict[str, str | None]] = list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(path, "file", "a CSV file in UTF-8", str(error)) from error
    if len(columns) == 1 and any(sign in columns[0] for sign in ";\t|"):
        problem, rule = ", header: the separator must be a comma", "commas as separators"
        raise InvalidFileError(path, "header", rule, columns[0], problem=problem)
    if not rows:
        rule = f"columns {' and '.join(needed)}, and a row for each {next(iter(needed))}"
        raise InvalidFileError(path, "header", rule, ", ".join(columns) or None)
    check_columns(path, columns, needed=needed, optional=optional)
    return rows


def read_temperatures(path: Path) -> dict[date, float]:
    """Read a public series of daily mean temperatures.

    Parameters
    ----------
    path
        CSV file with the columns ``day`` (2025-01-31) and ``temperature_c`` (degrees Celsius), one
        row per day in any order.
    """
    try:
        rows = _read_rows(path, _WEATHER_COLUMNS)
    except OSError as error:
        raise InvalidFileError(path, "file", "a readable file", error.strerror) from error
    found_c: dict[date, float] = {}
    low, high = _TEMPERATURES_C
    for line, row in enumerate(rows, 2):
        try:
            day = date.fromisoformat((row["day"] or "").strip())
        except ValueError as error:
            rule = "a date such as 2025-01-31"
            raise InvalidFileError(path, f"line {line}, day", rule, row["day"]) from error
        if day in found_c:
            raise InvalidFileError(path, f"line {line}, day", "a day that occurs once", row["day"])
        text = (row["temperature_c"] or "").strip()
        try:
            found_c[day] = checks.finite("temperature_c", float(text))
        except (ValueError, InvalidParameterError) as error:
            field_name = f"line {line}, temperature_c"
            raise InvalidFileError(path, field_name, "a number", text) from error
        if not low <= found_c[day] <= high:
            rule = f"a daily mean in degrees Celsius, from {low:g} to {high:g}"
            raise InvalidFileError(path, f"line {line}, temperature_c", rule, text)
    middle_c = median(found_c.values())
    if middle_c > _MAX_MEDIAN_C:
        text = (
            f"{path}: half of the temperatures are above {middle_c:g}. They must be daily means in"
            " degrees Celsius; these may be in degrees Fahrenheit."
        )
        warnings.warn(text, ImplausibleTemperatureWarning, stacklevel=2)
    return found_c


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Synthetic customers in batches, and what their files state besides."""

    batches: Batches
    customers: int
    grid: TimeGrid
    timezone: str
    power_factor: float
    buses: tuple[Bus, ...] | None
    days: tuple[date, int] | None = None
    """Of years: first day, and number of days. None: profiles, whose days have no date."""
    group_mean: DrawnMean | None = None
    """Of a group: mean load of the customers, known when all are written."""
    origin: Mapping[str, object] = field(default_factory=dict)
    """Public facts about the release and the sample, which every file states but CSV."""

    @property
    def origin_text(self) -> str:
        """Origin on one line. JSON escapes line ends: a manifest cannot add commands to a file."""
        return json.dumps(dict(self.origin))

    @property
    def comment(self) -> str:
        """Text of a comment in a file of a planning tool."""
        return f"Synthetic customers, drawn from a released model: {self.origin_text}"

    @property
    def cells(self) -> int:
        """Number of slots of a customer, without a closing midnight."""
        return self.grid.cells if self.days is None else self.days[1] * self.grid.slots

    @property
    def kvar_per_kw(self) -> float:
        """Reactive power per active power: tan(arccos(power factor))."""
        return float(np.sqrt(1.0 / self.power_factor**2 - 1.0))

    @property
    def step(self) -> timedelta:
        """Length of a slot."""
        return timedelta(minutes=self.grid.minutes)

    def times(self) -> list[datetime]:
        """Return the nominal start of each slot; refuse profiles whose days are not consecutive."""
        first = FIRST_DAY
        if self.days is not None:
            first = datetime.combine(self.days[0], time(), UTC)
        elif self.grid.split not in (Split.DAY, Split.WEEK):
            rule = "of one average day or of a week (--split day or week) for a time series"
            raise InvalidParameterError("profiles", rule, self.grid.split.value)
        return [first + place * self.step for place in range(self.cells)]

    @cached_property
    def instants(self) -> tuple[list[datetime], list[int]]:
        """Instants (UTC) of years in order, and the column of the load at each.

        A day of the model has 24 hours of the local clock. As in meter data, an hour that clocks
        skip is absent, and one that they show twice occurs twice, with the same load.
        """
        zone = ZoneInfo(self.timezone)
        found = []
        for column, nominal in enumerate(self.times()):
            for fold in (0, 1):
                local = nominal.replace(tzinfo=zone, fold=fold)
                instant = local.astimezone(UTC)
                # A skipped time is converted to another one; fold has no effect on usual times.
                if instant.astimezone(zone).replace(tzinfo=UTC, fold=0) == nominal and (
                    not fold or instant != local.replace(fold=0).astimezone(UTC)
                ):
                    found.append((instant, column))
        found.sort()
        return [instant for instant, _ in found], [column for _, column in found]

    def rows(self) -> Iterator[tuple[str, Floats]]:
        """Return the id and the load in kW of each customer, without a closing midnight."""
        for ids, _, load_kw in self.batches:
            yield from zip(ids, load_kw[:, : self.cells], strict=True)

    def in_memory(self) -> tuple[list[str], Floats]:
        """Return all ids, and the load in kW with one row per customer."""
        most = _MAX_IN_MEMORY if self.days is None else _MAX_YEARS_IN_MEMORY
        checks.integer("customers", self.customers, minimum=1, maximum=most)
        ids, rows = zip(*self.rows(), strict=True)
        return list(ids), np.array(rows)

    def bus_of_each(self) -> Iterator[Bus | None]:
        """Return the bus of each customer, in the order of the file; None without buses.

        A bus with a stated number of customers receives it; those left are dealt out evenly to the
        buses without one.
        """
        if self.buses is None:
            yield from (None for _ in range(self.customers))
            return
        stated = sum(bus.customers for bus in self.buses)
        others = [bus for bus in self.buses if not bus.customers]
        left = self.customers - stated
        if left < 0 or (left and not others):
            rule = f"the sum of the customers of all buses, {stated:,}"
            if left > 0:
                rule += ", or leave customers empty for one bus"
            raise InvalidParameterError("customers", rule, self.customers)
        share, more = divmod(left, len(others)) if others else (0, 0)
        dealt = iter([share + (place < more) for place in range(len(others))])
        for bus in self.buses:
            yield from (bus for _ in range(bus.customers or next(dealt)))


@dataclass(kw_only=True, eq=False)
class DrawnLoad:
    """Load of all drawn customers together, summed as they are written: a check of magnitude."""

    customers: int = 0
    sums_kw: Floats = field(default_factory=lambda: np.zeros(1))
    """(cells,): over customers."""
    times: tuple[str, ...] = ()
    """(cells,): what a planner calls each slot."""

    def counted(self, drawn: Drawn) -> Drawn:
        """Return the customers, which are summed when they are read."""
        if drawn.days is None:
            self.times = tuple(drawn.grid.labels[: drawn.cells])
        else:
            self.times = tuple(f"{one:%Y-%m-%d %H:%M}" for one in drawn.times())

        def batches() -> Batches:
            for batch in drawn.batches:
                self.customers += len(batch[2])
                self.sums_kw = self.sums_kw + batch[2][:, : drawn.cells].sum(axis=0)
                yield batch

        return replace(drawn, batches=batches())

    def to_json(self) -> dict[str, object] | None:
        """Return mean load and peak per customer as JSON values; None without customers."""
        if not self.customers:
            return None
        return dict(zip(("mean_kw", "peak_kw", "peak_time"), self._figures, strict=True))

    @property
    def statement(self) -> str:
        """Mean load and peak of all customers together, per customer; empty without customers."""
        if not self.customers:  # on Spark
            return ""
        mean_kw, peak_kw, time_ = self._figures
        return (
            f"All customers together: mean load {format_number(mean_kw)} kW per customer, peak"
            f" {format_number(peak_kw)} kW per customer at {time_}."
        )

    @property
    def _figures(self) -> tuple[float, float, str]:
        """Mean load, peak and its time."""
        per_customer_kw = self.sums_kw / self.customers
        at = int(per_customer_kw.argmax())
        return float(per_customer_kw.mean()), float(per_customer_kw[at]), self.times[at]


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
