"""One cell of a comparison: a mechanism at an epsilon, run once; and the file that keeps cells.

The file is private. Its first line says of which data and settings the cells are; every finished
cell is a line more. A run that was killed leaves whole lines and perhaps half a line, which is
dropped, so the same command goes on where it was.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

from wattveil.baselines.outcome import Floats
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.privacy.guarantee import Guarantee


class Cell(NamedTuple):
    """What is run."""

    mechanism: str
    epsilon: float
    repeat: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a run gave."""

    cell: Cell
    nearest: float
    """DP accuracy loss, each customer at the nearest released centroid."""
    labels: float | None
    """The same at its released label; None if none are released."""
    cpu_seconds: float
    claimed: Guarantee
    true: Guarantee | None
    true_with_labels: Guarantee | None
    doubts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {
            **self.cell._asdict(),
            "nearest": self.nearest,
            "labels": self.labels,
            "cpu_seconds": self.cpu_seconds,
            **{name: promise and promise.to_json() for name, promise in self._promises().items()},
            "doubts": list(self.doubts),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        claimed, true, both = (
            None if fields[name] is None else Guarantee.from_json(fields[name])
            for name in ("claimed", "true", "true_with_labels")
        )
        if claimed is None:
            raise ValueError("claimed is missing")
        return cls(
            cell=Cell(str(fields["mechanism"]), float(fields["epsilon"]), int(fields["repeat"])),
            nearest=float(fields["nearest"]),
            labels=None if fields["labels"] is None else float(fields["labels"]),
            cpu_seconds=float(fields["cpu_seconds"]),
            claimed=claimed,
            true=true,
            true_with_labels=both,
            doubts=tuple(map(str, fields["doubts"])),
        )

    def _promises(self) -> dict[str, Guarantee | None]:
        return {
            "claimed": self.claimed,
            "true": self.true,
            "true_with_labels": self.true_with_labels,
        }


class CellFile:
    """Cells on disk, of one data set and one setting.

    Parameters
    ----------
    path : Path
        Made if it is not there.
    rows : (P, d)
        The customers; the file holds their hash.
    setting : dict
        What else the cells depend on.
    """

    def __init__(self, path: Path, rows: Floats, setting: dict[str, float]) -> None:
        self._path = path
        data = sha256(repr(rows.shape).encode() + rows.tobytes()).hexdigest()
        key = {"wattveil": version("wattveil"), "data": data, **setting}
        if not path.exists():
            path.write_text(json.dumps(key) + "\n")
        self._drop_half_a_line()
        self.done = {one.cell: one for one in self._read(key)}

    def append(self, measured: Measured) -> None:
        """Keep a cell; it stays when the run is killed."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measured.to_json()) + "\n")
        self.done[measured.cell] = measured

    def _drop_half_a_line(self) -> None:
        with self._path.open("rb+") as file:
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)
            os.fsync(file.fileno())

    def _read(self, key: dict[str, Any]) -> Iterator[Measured]:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        found = self._parsed(lines[0], 1) if lines else None
        if found != key:
            changed = [
                name for name in key if not isinstance(found, dict) or found.get(name) != key[name]
            ]
            rule = f"a new folder, or one of the same {', '.join(changed)}"
            raise InvalidParameterError("out", rule, str(self._path.parent))
        for number, line in enumerate(lines[1:], start=2):
            fields = self._parsed(line, number)
            try:
                yield Measured.from_json(fields)
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidFileError(self._path, f"line {number}", "a cell", line) from error

    def _parsed(self, line: str, number: int) -> Any:  # noqa: ANN401 - whatever JSON holds
        try:
            return json.loads(line)
        except ValueError as error:
            raise InvalidFileError(self._path, f"line {number}", "JSON", line) from error
