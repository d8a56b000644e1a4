"""Files and folders that are whole on disk, or not there, after a crash."""

import os
import shutil
from pathlib import Path


def force_to_disk(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_note(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    force_to_disk(new)
    new.replace(path)
    force_to_disk(path.parent)


def copy_files(source: Path, target: Path) -> None:
    """Copy a folder; an error keeps its number, which `shutil.copytree` would drop."""
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            shutil.copyfile(path, copy)
