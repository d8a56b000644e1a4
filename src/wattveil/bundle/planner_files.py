"""Synthetic customers as files of planning tools.

The model has active power; reactive power follows from one power factor. Time series of profiles
start on a nominal Monday, 2001-01-01, in local time: an average day has no date. Those of years
start on their first day. With a list of buses, the customers become loads at them; without it, the
files contain profiles only.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import cycle
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats
from wattveil.bundle.drawn_customers import SPLIT_PHASE, Bus, Drawn

POWER_FACTOR = 0.995
"""Reactive power is 10 % of the active power, as in the feeder study of the paper."""
ORIGIN = "origin.json"
"""File with the origin of the customers in a folder of tables."""
_TEN_YEARS = timedelta(days=3650)
_MODEL_LIMITS = "vminpu=0.8 vmaxpu=1.2"
"""OpenDSS keeps the power of a Load constant between these voltages; beyond them the Load becomes a
constant impedance. By default that is at 0.95 and 1.05, inside the range that a study examines;
below about 0.7, constant power often has no solution."""
_LOW_VOLTAGE, _MEDIUM_VOLTAGE = 7, 5
"""SimBench's voltage levels."""


def write_opendss(path: Path, drawn: Drawn) -> None:
    """Write LoadShapes in kW, and a Load for each customer if there are buses.

    ``useactual=yes``: the shape is the load in kW, whatever ``kw`` of the Load is; its power factor
    gives the reactive power. OpenDSS would connect every single-phase Load without a node to phase
    1: see `_at_phases`.
    """
    head = f"npts={drawn.cells} interval={drawn.grid.minutes / 60:g} useactual=yes"
    with path.open("w", encoding="utf-8") as file:
        file.write(f"! {drawn.comment}\n")
        for (name, row), (bus, phase) in zip(drawn.rows(), _at_phases(drawn), strict=True):
            mult = " ".join(f"{value:.4f}" for value in row)
            file.write(f"New LoadShape.{name} {head} mult=({mult})\n")
            if bus is not None:
                node = "" if bus.nodes or bus.phases > 1 else f".{phase}"
                file.write(
                    f"New Load.{name} bus1={bus.name}{node} phases={bus.phases} kv={bus.kv:g}"
                    f" kw={max(row.max(), 0.0):.4f} pf={drawn.power_factor:g} {_MODEL_LIMITS}"
                    f" daily={name} yearly={name}\n"
                )


def _at_phases(drawn: Drawn) -> Iterator[tuple[Bus | None, int]]:
    """Return the bus of each customer, and the phase of a single-phase customer.

    It is the first node of the bus name. Customers at names without a node are connected to phases
    1, 2 and 3 in turn, over all buses.
    """
    turn = cycle((1, 2, 3))
    for bus in drawn.bus_of_each():
        if bus is None or bus.phases > 1:
            yield bus, 0
        else:
            yield bus, bus.nodes[0] if bus.nodes else next(turn)


def write_pandapower(path: Path, drawn: Drawn) -> None:
    """Write `profiles.csv` (MW, two columns per customer) and, with buses, `load.csv`.

    The first is what `pandapower.timeseries.DFData` takes; the second has the columns of
    `pandapower.create_loads`, where buses are names that the user maps to indices.
    """
    ids, load_kw = drawn.in_memory()
    q = drawn.kvar_per_kw
    _make_folder(path, drawn)
    names = [f"{name}.{what}" for name in ids for what in ("p_mw", "q_mvar")]
    _write_rows(path / "profiles.csv", names, _pairs(load_kw / 1000.0, q))
    if drawn.buses is not None:
        peak_mw = (load_kw.max(axis=1) / 1000.0).round(9).tolist()
        rows = (
            [name, bus.place, peak, round(peak * q, 9)]
            for name, bus, peak in zip(ids, drawn.bus_of_each(), peak_mw, strict=True)
            if bus is not None
        )
        _write_rows(path / "load.csv", ["name", "bus", "p_mw", "q_mvar"], rows)


def write_simbench(path: Path, drawn: Drawn) -> None:
    """Write `LoadProfile.csv` and, with buses, `Load.csv` in SimBench's format.

    Profiles are relative to the largest absolute load of the customer, which is ``pLoad`` in MW.
    """
    times = drawn.times()
    ids, load_kw = drawn.in_memory()
    peak_kw = np.abs(load_kw).max(axis=1)
    relative = load_kw / np.where(peak_kw > 0.0, peak_kw, 1.0)[:, None]
    _make_folder(path, drawn)
    names = [f"{name}_{what}" for name in ids for what in ("pload", "qload")]
    # Reactive power is relative to qLoad, its own peak, so that both columns are the same.
    values = zip(times, _pairs(relative, 1.0), strict=True)
    rows = ([f"{time:%d.%m.%Y %H:%M}", *row] for time, row in values)
    _write_rows(path / "LoadProfile.csv", ["time", *names], rows, separator=";")
    if drawn.buses is not None:
        header = ["id", "node", "profile", "pLoad", "qLoad", "sR", "subnet", "voltLvl"]
        factors = np.array([1.0, drawn.kvar_per_kw, 1.0 / drawn.power_factor]) / 1000.0
        loads = (
            [name, bus.place, name, *(peak * factors).round(9).tolist(), "wattveil", _level(bus)]
            for name, bus, peak in zip(ids, drawn.bus_of_each(), peak_kw.tolist(), strict=True)
            if bus is not None
        )
        _write_rows(path / "Load.csv", header, loads, separator=";")


def _level(bus: Bus) -> int:
    """Return SimBench's voltage level."""
    return _LOW_VOLTAGE if bus.kv < 1.0 else _MEDIUM_VOLTAGE


def write_gridlabd(path: Path, drawn: Drawn) -> None:
    """Write a player file per customer, and `customers.glm`, which has an object for each.

    A player repeats its profile for ten years. With buses, each customer is a load at the node of
    that name: a ``load`` on three phases or on one (`_at_phases`), or a ``triplex_load`` at a
    split-phase service.
    """
    times = drawn.times()
    ids, load_kw = drawn.in_memory()
    players = path / "players"
    players.mkdir(parents=True)
    seconds = int(drawn.step.total_seconds())
    loops = _TEN_YEARS // (times[-1] + drawn.step - times[0])
    blocks = [f"// {drawn.comment}\n", "module tape;\nclass player { complex value; }\n"]
    for name, (bus, phase), row in zip(ids, _at_phases(drawn), load_kw, strict=True):
        # In VA. The first line has a date and is skipped when the profile repeats; so its value
        # stands again at the end, one slot after the last.
        va = 1000.0 * np.append(row, row[0]) / (bus.phases if bus else 1)
        stamps = [f"{times[0]:%Y-%m-%d %H:%M:%S}", *[f"+{seconds}s"] * row.size]
        lines = (
            f"{stamp},{one:.1f}{one * drawn.kvar_per_kw:+.1f}j\n"
            for stamp, one in zip(stamps, va.tolist(), strict=True)
        )
        (players / f"{name}.csv").write_text("".join(lines), encoding="utf-8")
        source = f'file "players/{name}.csv"; loop {loops};'
        blocks.append(
            f"object player {{ name {name}; {source} }}\n"
            if bus is None
            else _glm_load(name, bus, phase, source)
        )
    (path / "customers.glm").write_text("".join(blocks), encoding="utf-8")


def _glm_load(name: str, bus: Bus, phase: int, source: str) -> str:
    """Return a load whose players set its power; an expression would lose the reactive part."""
    kind, volts = "load", 1000.0 * bus.kv
    powers: Sequence[str]
    letter = "ABC"[phase - 1]
    if bus.phases > 1:
        phases, powers = "ABCN", "ABC"
        volts /= math.sqrt(3.0)
    elif bus.connection == SPLIT_PHASE:
        # A triplex node has one phase: without a name of it, A for all customers.
        kind, phases, powers = "triplex_load", (letter if bus.nodes else "A") + "S", ("12",)
        volts /= 2.0  # of one of two legs
    elif bus.between_phases:
        # A delta load has the power between A and B as that of A, B and C as B, C and A as C.
        first, second = sorted(bus.nodes[:2])
        powers = "C" if (first, second) == (1, 3) else "ABC"[first - 1]
        phases = f"{'ABC'[first - 1]}{'ABC'[second - 1]}D"
        volts /= math.sqrt(3.0)
    else:
        phases, powers = f"{letter}N", letter
    players = "".join(
        f" object player {{ property constant_power_{one}; {source} }};" for one in powers
    )
    return (
        f"object {kind} {{ name {name}; parent {bus.place}; phases {phases};"
        f" nominal_voltage {volts:.2f};{players} }}\n"
    )


def write_series(path: Path, drawn: Drawn) -> None:
    """Write `series.csv` (kW, a row per time and a column per customer) and `customers.csv`.

    Plain tables for tools that import load curves from CSV, such as PSS SINCAL and CYME.
    """
    times = drawn.times()
    ids, load_kw = drawn.in_memory()
    _make_folder(path, drawn)
    values = zip(times, load_kw.T.round(4).tolist(), strict=True)
    rows = ([f"{time:%Y-%m-%d %H:%M}", *row] for time, row in values)
    _write_rows(path / "series.csv", ["time", *ids], rows)
    header = ["customer", "bus", "kv", "phases", "peak_kw", "energy_kwh_per_day", "power_factor"]
    energy_kwh = load_kw.mean(axis=1) * 24.0
    sizes = np.column_stack([load_kw.max(axis=1), energy_kwh]).round(4).tolist()
    listed = (
        [name, *(bus[:3] if bus else ("", "", "")), *size, drawn.power_factor]
        for name, bus, size in zip(ids, drawn.bus_of_each(), sizes, strict=True)
    )
    _write_rows(path / "customers.csv", header, listed)


def _make_folder(path: Path, drawn: Drawn) -> None:
    """Make a folder of tables, which have no place for their origin."""
    path.mkdir()
    (path / ORIGIN).write_text(f"{drawn.origin_text}\n", encoding="utf-8")


def _pairs(p: Floats, ratio: float) -> list[list[float]]:
    """Return active and reactive power of each customer as neighbouring columns, one row a slot."""
    pairs: list[list[float]] = (
        np.stack([p, ratio * p], axis=1).reshape(-1, p.shape[1]).T.round(9).tolist()
    )
    return pairs


def _write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, separator: str = ","
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
