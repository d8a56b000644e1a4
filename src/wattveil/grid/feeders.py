"""Feeders: the network model, and its readers for CSV tables and MATPOWER cases.

MATPOWER case files (version 2) are programs. Most set tables and nothing else, but the distribution
cases give ohm and kW in the tables and convert them to per unit by code at the end of the file:
read as plain tables, they are wrong by orders of magnitude. The conversions of MATPOWER's own cases
are known here and applied; any other statement is refused, with its line.

>>> feeder = read_feeder("case141")
>>> feeder.buses, feeder.radial, round(feeder.nominal_kw.sum())
(141, True, 11945)
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.bundle.csv_columns import check_columns
from wattveil.errors import InvalidFileError, InvalidParameterError, one_of
from wattveil.web.results import Result, ResultTable

# --- the network ----------------------------------------------------------------------------------


# A base voltage outside of this range is in another unit.
_MIN_KV, _MAX_KV = 0.1, 500.0
_MIN_SLACK_PU, _MAX_SLACK_PU = 0.8, 1.2


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Feeder(Result):
    """Buses and branches, seen as one phase of a balanced network.

    Parameters
    ----------
    name
        Name in tables and pages.
    base_kv
        Rated voltage between lines.
    bus_names
        One unique name per bus, n of them.
    slack
        Position of the bus whose voltage is held: the substation.
    slack_pu
        That voltage.
    nominal_kw, nominal_kvar
        Nominal three-phase load of each bus.
    capacitor_kvar
        Fixed capacitors of each bus, at rated voltage.
    from_bus, to_bus
        Positions of the ends of each branch, m of them.
    r_ohm, x_ohm, b_us
        Series impedance of each branch, and the charging of the whole branch in microsiemens.
    rated_a
        Rated current of each branch; NaN where unknown.
    """

    name: str
    base_kv: float
    bus_names: tuple[str, ...]
    slack: int
    slack_pu: float
    nominal_kw: Floats
    nominal_kvar: Floats
    capacitor_kvar: Floats
    from_bus: Ints
    to_bus: Ints
    r_ohm: Floats
    x_ohm: Floats
    b_us: Floats
    rated_a: Floats

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"buses": self._bus_table, "branches": self._branch_table}

    def _bus_table(self) -> ResultTable:
        names = ("nominal_kw", "nominal_kvar", "capacitor_kvar")
        columns = {name: getattr(self, name) for name in names}
        return ResultTable({"bus": self.bus_names, **columns}, ("bus",))

    def _branch_table(self) -> ResultTable:
        ends = {
            name: [self.bus_names[place] for place in getattr(self, name)]
            for name in ("from_bus", "to_bus")
        }
        columns = {name: getattr(self, name) for name in ("r_ohm", "x_ohm", "b_us", "rated_a")}
        return ResultTable({**ends, **columns}, ("from_bus", "to_bus"))

    def __post_init__(self) -> None:
        """Validate the network."""
        _between("base_kv", self.base_kv, _MIN_KV, _MAX_KV, "kV")
        _between("slack_pu", self.slack_pu, _MIN_SLACK_PU, _MAX_SLACK_PU, "per unit")
        checks.integer("slack", self.slack, minimum=0, maximum=self.buses - 1)
        twice = [name for name, times in Counter(self.bus_names).items() if times > 1]
        if twice:
            raise InvalidParameterError("bus_names", "different from each other", twice[0])
        self._check_columns()
        self._check_branches()
        self._check_connected()

    @property
    def buses(self) -> int:
        """Number of buses."""
        return len(self.bus_names)

    @property
    def radial(self) -> bool:
        """Whether there is exactly one path from the substation to each bus."""
        return self.from_bus.size == self.buses - 1

    @property
    def not_slack(self) -> NDArray[np.bool_]:
        """Mask of all buses except the slack."""
        others = np.ones(self.buses, dtype=np.bool_)
        others[self.slack] = False
        return others

    @cached_property
    def distance_ohm(self) -> Floats:
        """Impedance between the substation and each bus, along the shortest path."""
        size = np.hypot(self.r_ohm, self.x_ohm)  # of two parallel lines the sum: a bound
        ends = (self.from_bus, self.to_bus)
        graph = csr_array((size, ends), shape=(self.buses, self.buses))
        away: Floats = dijkstra(graph, directed=False, indices=[self.slack])[0]
        return away

    def _check_columns(self) -> None:
        """Check that there is one finite number per bus or branch."""
        per_bus = ("nominal_kw", "nominal_kvar", "capacitor_kvar")
        per_branch = ("from_bus", "to_bus", "r_ohm", "x_ohm", "b_us", "rated_a")
        columns = [(name, self.buses) for name in per_bus]
        columns += [(name, self.from_bus.size) for name in per_branch]
        for name, size in columns:
            values = getattr(self, name)
            if values.shape != (size,):
                raise InvalidParameterError(name, f"of shape ({size},)", values.shape)
            unknown_rating = np.isnan(values) if name == "rated_a" else False
            self._refuse(name, "finite numbers", ~np.isfinite(values) & ~unknown_rating)
        for name in ("nominal_kw", "capacitor_kvar", "r_ohm", "x_ohm", "b_us"):
            self._refuse(name, "at least 0", getattr(self, name) < 0.0)
        if not self.nominal_kw.any():
            raise InvalidParameterError("nominal_kw", "above 0 at one or more buses", 0.0)
        self._refuse("rated_a", "above 0, or NaN where unknown", self.rated_a <= 0.0)

    def _check_branches(self) -> None:
        """Check that each branch leads from a bus to another one, and has an impedance."""
        for name in ("from_bus", "to_bus"):
            ends = getattr(self, name)
            self._refuse(name, "positions of buses", (ends < 0) | (ends >= self.buses))
        self._refuse("to_bus", "another bus than from_bus", self.from_bus == self.to_bus)
        none = (self.r_ohm == 0.0) & (self.x_ohm == 0.0)
        self._refuse("x_ohm", "above 0 where r_ohm is 0", none)

    def _check_connected(self) -> None:
        """Check that power reaches every bus."""
        joined = (np.ones(self.from_bus.size), (self.from_bus, self.to_bus))
        graph = csr_array(joined, shape=(self.buses, self.buses))
        island = connected_components(graph, directed=False)[1]
        cut_off = np.flatnonzero(island != island[self.slack])
        if cut_off.size:
            names = ", ".join(self.bus_names[bus] for bus in cut_off[:5])
            raise InvalidParameterError("branches", "a path from the slack to every bus", names)

    def _refuse(self, name: str, rule: str, broken: NDArray[np.bool_]) -> None:
        """Raise for the first value that violates the rule, with its position."""
        if broken.any():
            first = int(np.argmax(broken))
            raise InvalidParameterError(f"{name}[{first}]", rule, getattr(self, name)[first].item())


def _between(name: str, value: object, minimum: float, maximum: float, unit: str) -> None:
    if not minimum <= checks.finite(name, value) <= maximum:
        raise InvalidParameterError(name, f"between {minimum:g} and {maximum:g} {unit}", value)


# --- MATPOWER cases -------------------------------------------------------------------------------


# Columns of the tables, from 0 (MATPOWER user's manual, appendix B).
_BUS_NUMBER, _BUS_TYPE, _P_MW, _Q_MVAR, _G_MW, _B_MVAR, _BASE_KV = 0, 1, 2, 3, 4, 5, 9
_GEN_BUS, _GEN_PU, _GEN_STATUS = 0, 5, 7
_FROM, _TO, _R_PU, _X_PU, _B_PU, _RATE_MVA, _TAP, _SHIFT, _STATUS = 0, 1, 2, 3, 4, 5, 8, 9, 10
_MIN_COLUMNS = {"bus": _BASE_KV + 1, "gen": _GEN_STATUS + 1, "branch": _STATUS + 1}
_PLAIN, _HELD, _REFERENCE = 1, 2, 3

# Statements without blanks that have no effect on the tables.
_NO_EFFECT = (
    r"functionmpc=\w+",
    r"\[[\w,]+\]=idx_(bus|brch|gen)",
    r"Vbase=mpc\.bus\(1,BASE_KV\)\*1e3",
    r"Sbase=mpc\.baseMVA\*1e6",
    r"mpc\.(?!bus=|gen=|branch=|baseMVA=)\w+=('[^']*'|\[[^\]]*\]|\{[^}]*\})",
)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TABLE = re.compile(r"mpc\.(bus|gen|branch)=\[([^\]]*)\]")
_BASE = re.compile(rf"mpc\.baseMVA=({_NUMBER})")
_POWER_FACTOR = re.compile(rf"pf=({_NUMBER})")
_FROM_OHM = re.compile(
    r"mpc\.branch\(:,\[BR_R,?BR_X\]\)=mpc\.branch\(:,\[BR_R,?BR_X\]\)/\(Vbase\^2/Sbase\)"
)
_FROM_KW = re.compile(r"mpc\.bus\(:,\[PD,?QD\]\)=mpc\.bus\(:,\[PD,?QD\]\)/1e3")
_Q_FROM_MVA = re.compile(r"mpc\.bus\(:,QD\)=mpc\.bus\(:,PD\)\*sin\(acos\(pf\)\)")
_P_FROM_MVA = re.compile(r"mpc\.bus\(:,PD\)=mpc\.bus\(:,PD\)\*pf")


def read_matpower(path: Path) -> Feeder:
    """Read a case file as a feeder: one voltage level, one source, no transformers."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFileError(path, "content", "a text file", str(error)) from error
    case = _Case(path=path)
    for line, statement in _statements(text):
        case.run(line, statement)
    return case.feeder()


@dataclass(kw_only=True)
class _Case:
    """State of the case after the statements so far, in the units of MATPOWER."""

    path: Path
    base_mva: float = 0.0
    power_factor: float = 1.0
    tables: dict[str, Floats] = field(default_factory=dict)

    def run(self, line: int, statement: str) -> None:
        """Execute one statement, or refuse it."""
        squeezed = re.sub(r"\s", "", statement)
        if any(re.fullmatch(pattern, squeezed) for pattern in _NO_EFFECT):
            return
        where = f"line {line}"
        if found := _TABLE.fullmatch(squeezed):
            inside = statement[statement.index("[") + 1 : statement.rindex("]")]
            self.tables[found[1]] = self._table(where, found[1], inside)
        elif found := _BASE.fullmatch(squeezed):
            self.base_mva = float(found[1])
        elif found := _POWER_FACTOR.fullmatch(squeezed):
            self.power_factor = float(found[1])
        elif _FROM_OHM.fullmatch(squeezed):
            self._known("branch")[:, [_R_PU, _X_PU]] /= self._base_ohm()
        elif _FROM_KW.fullmatch(squeezed):
            self._known("bus")[:, [_P_MW, _Q_MVAR]] /= 1e3
        elif _Q_FROM_MVA.fullmatch(squeezed):
            bus = self._known("bus")
            bus[:, _Q_MVAR] = bus[:, _P_MW] * np.sin(np.arccos(self.power_factor))
        elif _P_FROM_MVA.fullmatch(squeezed):
            self._known("bus")[:, _P_MW] *= self.power_factor
        else:
            expected = "a table or one of MATPOWER's unit conversions"
            raise InvalidFileError(self.path, where, expected, statement.strip()[:80])

    def feeder(self) -> Feeder:
        """Return the network in ohm, kW and ampere."""
        bus, gen, branch = (self._known(name) for name in ("bus", "gen", "branch"))
        branch = branch[branch[:, _STATUS] > 0]
        gen = gen[gen[:, _GEN_STATUS] > 0]
        self._refuse_unsupported(bus, gen, branch)
        (slack,) = np.flatnonzero(bus[:, _BUS_TYPE] == _REFERENCE)
        position = {int(number): place for place, number in enumerate(bus[:, _BUS_NUMBER])}
        base_kv = float(bus[0, _BASE_KV])
        base_ohm = self._base_ohm()
        rate_mva = np.where(branch[:, _RATE_MVA] > 0, branch[:, _RATE_MVA], np.nan)  # 0: no limit
        try:
            return Feeder(
                name=self.path.stem,
                base_kv=base_kv,
                bus_names=tuple(str(int(number)) for number in bus[:, _BUS_NUMBER]),
                slack=int(slack),
                slack_pu=float(gen[0, _GEN_PU]),
                nominal_kw=bus[:, _P_MW] * 1e3,
                nominal_kvar=bus[:, _Q_MVAR] * 1e3,
                capacitor_kvar=bus[:, _B_MVAR] * 1e3,
                from_bus=np.array([position.get(int(x), -1) for x in branch[:, _FROM]], np.int64),
                to_bus=np.array([position.get(int(x), -1) for x in branch[:, _TO]], np.int64),
                r_ohm=branch[:, _R_PU] * base_ohm,
                x_ohm=branch[:, _X_PU] * base_ohm,
                b_us=branch[:, _B_PU] / base_ohm * 1e6,
                rated_a=rate_mva * 1e3 / (np.sqrt(3.0) * base_kv),
            )
        except InvalidParameterError as error:
            raise InvalidFileError(self.path, error.field, error.rule, error.value) from error

    def _refuse_unsupported(self, bus: Floats, gen: Floats, branch: Floats) -> None:
        """Reject elements that the power flow does not model."""
        slack = bus[bus[:, _BUS_TYPE] == _REFERENCE, _BUS_NUMBER]
        taps = branch[:, _TAP]
        for where, expected, found in (
            ("mpc.bus", "one reference bus (type 3)", [slack.size] * (slack.size != 1)),
            ("mpc.bus", "types 1, 2 and 3", bus[bus[:, _BUS_TYPE] > _REFERENCE, _BUS_NUMBER]),
            ("mpc.bus", "one base voltage", bus[bus[:, _BASE_KV] != bus[0, _BASE_KV], _BUS_NUMBER]),
            ("mpc.bus", "no shunt conductance", bus[bus[:, _G_MW] != 0, _BUS_NUMBER]),
            ("mpc.gen", "one generator in service", [len(gen)] * (len(gen) != 1)),
            ("mpc.gen", "its generator at the reference bus", np.setdiff1d(gen[:, 0], slack)),
            ("mpc.branch", "no transformers (ratio 0 or 1)", taps[(taps != 0) & (taps != 1)]),
            ("mpc.branch", "no phase shift", branch[branch[:, _SHIFT] != 0, _SHIFT]),
        ):
            if len(found):
                raise InvalidFileError(self.path, where, expected, np.asarray(found).tolist()[:5])

    def _known(self, name: str) -> Floats:
        if name not in self.tables:
            raise InvalidFileError(self.path, "content", f"a table mpc.{name} above it", None)
        return self.tables[name]

    def _base_ohm(self) -> float:
        if not self.base_mva > 0.0:
            raise InvalidFileError(self.path, "mpc.baseMVA", "a number above 0", self.base_mva)
        return float(self._known("bus")[0, _BASE_KV]) ** 2 / self.base_mva

    def _table(self, where: str, name: str, inside: str) -> Floats:
        """Read the rows between the brackets."""
        rows = [re.split(r"[\s,]+", row.strip()) for row in re.split(r"[;\n]", inside)]
        rows = [row for row in rows if row != [""]]
        widths = {len(row) for row in rows}
        if len(widths) != 1 or min(widths) < _MIN_COLUMNS[name]:
            expected = f"rows of at least {_MIN_COLUMNS[name]} numbers in mpc.{name}"
            raise InvalidFileError(self.path, where, expected, sorted(widths))
        try:
            return np.array(rows, dtype=np.float64)
        except ValueError as error:
            raise InvalidFileError(self.path, where, "numbers alone", str(error)) from error


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with its line: comments gone, brackets and continued lines joined."""
    pending: list[str] = []
    started, depth = 0, 0
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.split("%", 1)[0].rstrip()
        continued = bare.endswith("...")
        started = started if pending else number
        for position, part in enumerate(bare.removesuffix("...").split(";")):
            if position and depth == 0:
                yield from _complete(started, pending)
                pending, started = [], number
            elif position:
                pending.append(";")
            pending.append(part)
            depth += sum(part.count(bracket) for bracket in "[{")
            depth -= sum(part.count(bracket) for bracket in "]}")
        if depth == 0 and not continued:
            yield from _complete(started, pending)
            pending = []
        elif not continued:
            pending.append("\n")
    yield from _complete(started, pending)


def _complete(started: int, parts: list[str]) -> Iterator[tuple[int, str]]:
    statement = "".join(parts)
    if statement.strip():
        yield started, statement


# --- CSV tables and built-in feeders --------------------------------------------------------------


BUILT_IN = ("case141", "ieee123")

_BUSES, _BRANCHES = "buses.csv", "branches.csv"
_BUS_COLUMNS = ("bus", "base_kv", "slack_pu", "p_kw", "q_kvar")
_OPTIONAL_BUS_COLUMNS = ("cap_kvar", "x", "y")  # coordinates are ignored
_BRANCH_COLUMNS = ("from_bus", "to_bus", "r_ohm", "x_ohm")
_OPTIONAL_BRANCH_COLUMNS = ("b_us", "rated_a")

_MEANING = {
    "base_kv": " (nominal voltage in kV, phase to phase, in every row: add it, such as 12.47)",
    "slack_pu": " (voltage of the substation in pu, in its row only: add it, such as 1.0)",
}
"""Columns that tables of other programs often lack, and how to add them."""

_CsvRow = Mapping[str, str]


def read_feeder(source: str | Path) -> Feeder:
    """Read and validate a feeder.

    Parameters
    ----------
    source
        ``"case141"`` or ``"ieee123"``, built in; a folder with ``buses.csv``
        (columns bus, base_kv, slack_pu, p_kw, q_kvar and, if wanted, cap_kvar; slack_pu has a value
        in one row) and ``branches.csv`` (from_bus, to_bus, r_ohm, x_ohm, b_us, rated_a; the last
        two may be missing); or a MATPOWER case file, ``.m``.
    """
    if source in BUILT_IN:
        return _read_folder(Path(str(files("wattveil.grid") / "data" / str(source))))
    path = Path(source)
    if path.suffix == ".m" and path.is_file():
        return read_matpower(path)
    is_opendss = path.suffix == ".dss" or any(path.glob("*.dss"))
    if path.is_dir() and ((path / _BUSES).exists() or not is_opendss):
        return _read_folder(path)
    rule = f"{one_of(BUILT_IN)}; or a folder with {_BUSES} and {_BRANCHES}, or a .m file"
    if is_opendss:
        rule += ". OpenDSS circuits are not read: use `synthesize --buses`"
    raise InvalidParameterError("feeder", rule, str(source))


def _read_folder(folder: Path) -> Feeder:
    bus_file, branch_file = folder / _BUSES, folder / _BRANCHES
    buses = _csv_rows(bus_file, _BUS_COLUMNS, _OPTIONAL_BUS_COLUMNS)
    branches = _csv_rows(branch_file, _BRANCH_COLUMNS, _OPTIONAL_BRANCH_COLUMNS)
    held_pu = _csv_numbers(bus_file, buses, "slack_pu", math.nan)
    held = np.flatnonzero(~np.isnan(held_pu))
    if held.size != 1:
        raise InvalidFileError(bus_file, "column slack_pu", "a value in one row", held.size)
    levels = np.unique(_csv_numbers(bus_file, buses, "base_kv", math.nan))
    if levels.size != 1:
        expected = "one voltage level in every row"
        raise InvalidFileError(bus_file, "column base_kv", expected, levels.tolist())
    names = tuple(row["bus"].strip() for row in buses)
    position = {name: number for number, name in enumerate(names)}
    ends = {}
    for column in ("from_bus", "to_bus"):
        for number, row in enumerate(branches):
            if row[column].strip() not in position:
                where = f"line {number + 2}, column {column}"
                raise InvalidFileError(branch_file, where, f"a bus of {_BUSES}", row[column])
        ends[column] = np.array([position[row[column].strip()] for row in branches], np.int64)
    try:
        return Feeder(
            name=folder.name,
            base_kv=float(levels[0]),
            bus_names=names,
            slack=int(held[0]),
            slack_pu=float(held_pu[held[0]]),
            nominal_kw=_csv_numbers(bus_file, buses, "p_kw", 0.0),
            nominal_kvar=_csv_numbers(bus_file, buses, "q_kvar", 0.0),
            capacitor_kvar=_csv_numbers(bus_file, buses, "cap_kvar", 0.0),
            r_ohm=_csv_numbers(branch_file, branches, "r_ohm", math.nan),
            x_ohm=_csv_numbers(branch_file, branches, "x_ohm", math.nan),
            b_us=_csv_numbers(branch_file, branches, "b_us", 0.0),
            rated_a=_csv_numbers(branch_file, branches, "rated_a", math.nan),
            **ends,
        )
    except InvalidParameterError as error:
        raise _in_file(folder, error) from error


def _in_file(folder: Path, error: InvalidParameterError) -> InvalidFileError:
    """Return the error with the file, line and column of a value, if it is about one."""
    name, _, place = error.field.partition("[")
    if not place:
        return InvalidFileError(folder, name, error.rule, error.value)
    of_bus = {"nominal_kw": "p_kw", "nominal_kvar": "q_kvar", "capacitor_kvar": "cap_kvar"}
    file, where = (_BUSES, of_bus[name]) if name in of_bus else (_BRANCHES, name)
    line = f"line {int(place[:-1]) + 2}, column {where}"
    return InvalidFileError(folder / file, line, error.rule, error.value)


def _csv_rows(path: Path, needed: Sequence[str], allowed: Collection[str]) -> list[_CsvRow]:
    """Return the rows of a table with the columns of a feeder."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file, restval="")
            columns = table.fieldnames or ()
            rows: list[_CsvRow] = list(table)
    except FileNotFoundError as error:
        remedy = f"The folder of a feeder contains {_BUSES} and {_BRANCHES}"
        raise InvalidFileError(path, "file", "a file of this name", None, remedy=remedy) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(path, "content", "a CSV table", str(error)) from error
    check_columns(path, columns, needed=needed, optional=allowed, meaning=_MEANING)
    for number, row in enumerate(rows):
        if None in row:  # DictReader stores surplus cells under None
            raise InvalidFileError(path, f"line {number + 2}", f"{len(columns)} cells", "more")
    if not rows:
        raise InvalidFileError(path, "content", "at least one row", 0)
    return rows


def _csv_numbers(path: Path, rows: Sequence[_CsvRow], column: str, empty: float) -> Floats:
    """Return a column of numbers; missing cells and columns become ``empty``."""
    values = np.full(len(rows), empty)
    for number, row in enumerate(rows):
        text = row.get(column, "").strip()
        if text:
            try:
                values[number] = float(text)
            except ValueError as error:
                where = f"line {number + 2}, column {column}"
                raise InvalidFileError(path, where, "a number", text) from error
    return values
