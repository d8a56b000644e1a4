"""Folders in which readings are staged, and processes that are killed."""

import subprocess
import sys
from pathlib import Path

from wattveil.readings.sources import ScratchDatabase


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    """The system releases the lock of a process that is killed; folders in use stay."""
    code = (
        "import os, signal; from wattveil.readings.sources import ScratchDatabase;"
        f"one = ScratchDatabase(200, within={str(tmp_path)!r});"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    (other := tmp_path / "wattveil-other").mkdir()  # nobody knows whose
    first = ScratchDatabase(200, within=str(tmp_path))
    second = ScratchDatabase(200, within=str(tmp_path))
    assert not left.exists()
    assert {*tmp_path.iterdir()} == {other, first.folder, second.folder}
    first.close()
    second.close()
    assert [*tmp_path.iterdir()] == [other]
