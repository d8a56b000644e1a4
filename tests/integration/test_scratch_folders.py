"""Folders in which readings are staged, and processes that are killed."""

import os
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


def test_a_pipe_in_the_place_of_a_lock_blocks_nobody(tmp_path: Path) -> None:
    """Somebody else's pipe or link is left alone, and reading goes on."""
    (pipe := tmp_path / "wattveil-pipe").mkdir()
    os.mkfifo(pipe / "owner.lock")
    (target := tmp_path / "kept").mkdir()
    (target / "file.lock").touch()
    (link := tmp_path / "wattveil-link").mkdir()
    (link / "owner.lock").symlink_to(target / "file.lock")
    ScratchDatabase(200, within=str(tmp_path)).close()
    assert {*tmp_path.iterdir()} == {pipe, target, link}
