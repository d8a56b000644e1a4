"""Explanation of a file: its format, why it was recognised, its columns, and its first readings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattveil.readings.options import ReadOptions
from wattveil.readings.readings import read_readings

_SHOWN_READINGS = 5
_BECOMES = {
    "kWh": "kWh (no conversion)",
    "Wh": "kWh, value / 1000",
    "MWh": "kWh, value * 1000",
    "MJ": "kWh, value / 3.6",
    "kW": "kWh, value * minutes / 60",
    "W": "kWh, value * minutes / 60000",
}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """How a source is understood."""

    files: tuple[str, ...]
    format: str
    unit: str  # of the file
    becomes: str  # what its values are multiplied by to be kWh
    minutes: tuple[int, ...]
    assumptions: tuple[str, ...]
    readings: tuple[dict[str, object], ...]  # the first, by customer and time
    report: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the explanation as JSON values. It has readings of customers: internal only."""
        rows = [{name: str(value) for name, value in row.items()} for row in self.readings]
        return {
            "files": list(self.files),
            "format": self.format,
            "unit": self.unit,
            "becomes": self.becomes,
            "minutes": list(self.minutes),
            "assumptions": list(self.assumptions),
            "readings": rows,
            "report": dict(self.report),
            "warnings": list(self.warnings),
        }


def explain(
    source: str | Path | Sequence[str | Path], options: ReadOptions, *, memory_mb: int = 600
) -> Explanation:
    """Explain how a source is read."""
    readings = read_readings(source, options, memory_mb=memory_mb)
    format_, *others = readings.assumptions or ("",)
    if format_.startswith("format: "):
        format_ = format_.removeprefix("format: ")
    else:
        format_, others = readings.kind, list(readings.assumptions)
    first = next(iter(readings.batches()), None)
    rows = [] if first is None else first.slice(0, _SHOWN_READINGS).to_pylist()
    unit = readings.source.rows.file_unit or readings.source.unit.value
    return Explanation(
        files=tuple(path.name for path in readings.files),
        format=format_,
        unit=unit,
        becomes=_becomes(unit),
        minutes=readings.lengths,
        assumptions=tuple(others),
        readings=tuple(rows),
        report=tuple(readings.report.lines()),
        warnings=readings.report.warnings,
    )


def _becomes(unit: str) -> str:
    """Return how values become kWh, a power of ten of the file included."""
    plain, times, power = unit.partition(" × ")
    known = _BECOMES.get(plain, "").replace("value", f"value * {power}" if times else "value")
    return known or "kWh, each row by its unit"
