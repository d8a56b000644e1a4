"""Names of homes whose files name no customer: the name of the file, made unique within the source.

Files of two homes never become one customer. A home is named by its file without the endings of
meter data (``home.csv.gz`` is home, ``home.2.csv`` is home.2). Where files in several folders,
archives or addresses have the same name, the parts of their paths that differ precede it
(``a/home``, ``jan.zip/home``). Several files of one home, such as one per month, are joined only by
the ``customer`` that the caller states. Names that differ only by numbers may be such files, which
is reported; equal files under two names would be one home counted twice, which is refused.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from wattveil.errors import InvalidFileError
from wattveil.readings.file_names import without_endings
from wattveil.readings.options import NUMBERED_FILES

_NUMBERED = re.compile(r"(?:[\W_]*\d+)+[\W_]*")


def home_names(origins: Mapping[Path, str]) -> dict[Path, str]:
    """Return the name of the home of each file.

    Parameters
    ----------
    origins
        Path of each file as its user knows it: in its archive, or at its address.
    """
    whole = {path: os.path.normpath(origin) for path, origin in origins.items()}
    alike: dict[str, set[str]] = {}
    for origin in whole.values():
        alike.setdefault(_own(origin), set()).add(origin)
    named: dict[str, str] = {}
    for own, some in alike.items():
        named |= {next(iter(some)): own} if len(some) == 1 else _distinguished(some)
    return {path: named[origin] for path, origin in whole.items()}


def numbered_files(homes: Iterable[str]) -> tuple[str, ...]:
    """Report names of homes that differ only by digits, dates or ``(n)``."""
    alike = Counter(_NUMBERED.sub("#", f"{name} 0") for name in set(homes))
    files = sum(count for count in alike.values() if count > 1)
    return (f"{NUMBERED_FILES}, {files} files",) if files else ()


def refuse_copies(homes: Mapping[Path, str], origins: Mapping[Path, str]) -> None:
    """Reject files of equal content that would be several homes."""
    sizes: dict[int, list[Path]] = {}
    for path in homes:
        sizes.setdefault(path.stat().st_size, []).append(path)
    for some in sizes.values():
        found: dict[bytes, Path] = {}
        for path in some if len(some) > 1 else ():
            with path.open("rb") as file:
                first = found.setdefault(hashlib.file_digest(file, "sha256").digest(), path)
            if homes[first] != homes[path]:
                expected = "files of different content, or customer=NAME if all are of one home"
                copied = f"the same as {origins[first]}"
                raise InvalidFileError(origins[path], "content", expected, copied)


def _own(origin: str) -> str:
    return without_endings(origin.rpartition("/")[2])


def _distinguished(origins: set[str]) -> dict[str, str]:
    """Put what differs of the folders before equal names; keep endings where these alone differ."""
    parts = {origin: origin.split("/") for origin in origins}
    folders = [path[:-1] for path in parts.values()]
    levels = zip(*folders, strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    names = {
        origin: "/".join([*path[shared:-1], without_endings(path[-1])])
        for origin, path in parts.items()
    }
    if len(set(names.values())) < len(names):
        return {origin: "/".join(path[shared:]) for origin, path in parts.items()}
    return names
