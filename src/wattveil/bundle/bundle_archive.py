"""A bundle as one zip archive, the same bytes each time."""

import os
import zipfile
from pathlib import Path

from wattveil.bundle.bundle_files import MANIFEST, read_manifest

_LONG_AGO = (1980, 1, 1, 0, 0, 0)


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
