"""Zip archives from outside: checked before anything is unpacked, read with a bound.

An archive states the sizes of its files itself, and may state them wrongly: the bounds hold for the
statement, and `member_chunks` never yields more than was stated.
"""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # a password is needed; NotImplementedError: an unknown method
    ValueError,
)
"""What reading a broken archive may raise."""

_BOUNDED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Compression methods with a bounded read."""
_CHUNK_BYTES = 1 << 16
_ENCRYPTED = 0x1


class UnsafeArchiveError(Exception):
    """An archive breaks a rule; the text is the rule."""


def checked_members(
    archive: zipfile.ZipFile, *, max_files: int, max_bytes: int
) -> list[zipfile.ZipInfo]:
    """Return the files of an archive.

    Raises
    ------
    UnsafeArchiveError
        When there are too many or too large ones, a name occurs twice or leads out of the folder,
        or the content is encrypted or compressed in a way that has no bounded read.
    """
    members = [one for one in archive.infolist() if not one.is_dir()]
    names = [one.filename for one in members]
    rules = {
        f"at most {max_files:,} files": len(members) <= max_files,
        f"at most {max_bytes:,} bytes when unpacked": (
            sum(one.file_size for one in members) <= max_bytes
        ),
        "no password": not any(one.flag_bits & _ENCRYPTED for one in members),
        "files that are stored or deflated": {one.compress_type for one in members} <= _BOUNDED,
        "names that differ": len(set(names)) == len(names),
        "names of files inside it": all(_stays_inside(name) for name in names),
    }
    for rule, holds in rules.items():
        if not holds:
            raise UnsafeArchiveError(rule)
    return members


def member_chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file, at most as many bytes as its header states.

    `ZipFile.read` unpacks up to 1 GiB, and compares afterwards.
    """
    left = member.file_size
    with archive.open(member) as file:
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))  # some archives are made on Windows
    return not path.is_absolute() and ".." not in path.parts
