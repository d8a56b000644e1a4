"""MATPOWER case files (version 2) as feeders.

Such a file is a program. Most set tables and nothing else, but the distribution cases give ohm and
kW in the tables and convert them to per unit by code at the end of the file: read as plain tables,
they are wrong by orders of magnitude. The conversions of MATPOWER's own cases are known here and
done; any other statement is refused, with its line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.grid.network import Feeder, Floats

# Columns of the tables, from 0 (MATPOWER user's manual, appendix B).
_BUS_NUMBER, _BUS_TYPE, _P_MW, _Q_MVAR, _G_MW, _B_MVAR, _BASE_KV = 0, 1, 2, 3, 4, 5, 9
_GEN_BUS, _GEN_PU, _GEN_STATUS = 0, 5, 7
_FROM, _TO, _R_PU, _X_PU, _B_PU, _RATE_MVA, _TAP, _SHIFT, _STATUS = 0, 1, 2, 3, 4, 5, 8, 9, 10
_LEAST_COLUMNS = {"bus": _BASE_KV + 1, "gen": _GEN_STATUS + 1, "branch": _STATUS + 1}
_PLAIN, _HELD, _REFERENCE = 1, 2, 3

# Statements without their blanks. What the unit conversions are built from changes nothing itself.
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
    """What the statements have said so far; impedances and loads are in the units of MATPOWER."""

    path: Path
    base_mva: float = 0.0
    power_factor: float = 1.0
    tables: dict[str, Floats] = field(default_factory=dict)

    def run(self, line: int, statement: str) -> None:
        """Follow one statement, or refuse it."""
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
        self._refuse_what_no_feeder_has(bus, gen, branch)
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

    def _refuse_what_no_feeder_has(self, bus: Floats, gen: Floats, branch: Floats) -> None:
        """Refuse what the power flow here would leave out in silence."""
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
            raise InvalidFileError(self.path, "content", f"a table mpc.{name} above it", "none")
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
        if len(widths) != 1 or min(widths) < _LEAST_COLUMNS[name]:
            expected = f"rows of at least {_LEAST_COLUMNS[name]} numbers in mpc.{name}"
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
