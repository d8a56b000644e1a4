"""Files of a source by name: paths, folders and globs, and which names are those of meter data."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from wattveil.errors import InvalidFileError

_READABLE = re.compile(
    r"\.(csv|txt|tsv|parquet|pq|xml|nem12|jsonl|ndjson|zip|xlsx|xls|arrow|feather|duckdb|sqlite3?)"
    r"(\.(gz|zst|zstd|bz2))?$",
    re.IGNORECASE,
)
_ENDINGS = re.compile(
    r"(\.(csv|txt|tsv|parquet|pq|xml|nem12|json|jsonl|ndjson|zip|xlsx|xls|arrow|feather|duckdb|db"
    r"|sqlite3?))?(\.(gz|zst|zstd|bz2))?$",
    re.IGNORECASE,
)


def resolve(source: str | Path | Sequence[str | Path], passed_over: list[Path]) -> list[Path]:
    """Find the files: a path, a folder, a glob, or a list of any of these.

    Files of a folder whose names are not those of meter data are added to ``passed_over``. So are
    files in ``_temporary`` and similar folders: names that begin with ``_`` or a dot mark files
    that are not, or no longer, part of a table.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [path for part in source for path in resolve(part, passed_over)]
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        found = [file for file in inside if is_meter_data(file.relative_to(path))]
        passed_over.extend(sorted(set(inside) - set(found)))
    else:
        names = sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207 -- may be absolute
        found = [Path(name) for name in names if Path(name).is_file()]
    if not found:
        told = (source, "source", "at least one file of readings", None)
        missing = "" if path.is_dir() or glob.has_magic(str(source)) else "does not exist"
        raise InvalidFileError(*told, problem=missing, remedy="Check the path")
    return found


def is_meter_data(path: Path) -> bool:
    """Return whether a name within a folder or archive is one of meter data."""
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and _READABLE.search(path.name) is not None


def without_endings(name: str) -> str:
    """Return the name of a file without the endings of meter data and of its compression."""
    return _ENDINGS.sub("", name, count=1) or name
