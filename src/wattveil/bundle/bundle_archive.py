"""A bundle as one zip archive, the same bytes each time, and its folder again."""

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattveil.archives import BROKEN_ZIP, UnsafeArchiveError, checked_members, member_chunks
from wattveil.bundle.bundle_files import MANIFEST, read_manifest
from wattveil.errors import InvalidFileError

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MAX_FILES, _MAX_BYTES = 256, 2**30
"""Maximum size of an archive that is unpacked."""


def listed_files(bundle: Path) -> list[str]:
    """Return the paths of the files that the manifest of a bundle lists."""
    return sorted(entry["path"] for entry in read_manifest(bundle)["payload"])


def write_archive(bundle: Path, archive: Path) -> None:
    """Write the files of a bundle to an archive, whole or not at all."""
    unfinished = archive.with_name(f"{archive.name}.new")
    with unfinished.open("wb") as file:
        with zipfile.ZipFile(file, "w") as packed:
            for path in (MANIFEST, *listed_files(bundle)):
                member = zipfile.ZipInfo(path, _LONG_AGO)
                packed.writestr(member, (bundle / path).read_bytes(), zipfile.ZIP_DEFLATED)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(archive)


@contextmanager
def bundle_folder(bundle: Path) -> Iterator[Path]:
    """Provide the folder of a bundle; of a zip archive, a temporary one."""
    if not bundle.is_file():
        yield bundle
        return
    with tempfile.TemporaryDirectory() as folder:
        unpack_archive(bundle, Path(folder))
        yield Path(folder)


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpack the archive of a bundle, as a server sends it, into an empty folder.

    Raises
    ------
    InvalidFileError
        If it is no zip archive, too large, or names files outside its folder.
    """
    expected = "a bundle: a folder of `wattveil release`, or its zip archive"
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in checked_members(packed, max_files=_MAX_FILES, max_bytes=_MAX_BYTES):
                path = folder / member.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.writelines(member_chunks(packed, member))
    except UnsafeArchiveError as error:
        raise InvalidFileError(archive, "archive", str(error), "another") from error
    except BROKEN_ZIP as error:
        problem = "is neither a bundle folder nor a zip archive"
        found = "another file"
        raise InvalidFileError(archive, "archive", expected, found, problem=problem) from error
