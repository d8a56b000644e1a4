"""Scratch folders: removed with their owner, or by the next one if their owner was killed.

A folder holds private rows. Its owner holds a lock on a file in it; the system releases the lock
when the process ends in any way. So a folder whose lock is free belongs to nobody.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "wattveil-"
_LOCK = "owner.lock"


class ScratchFolder:
    """A temporary folder ``within`` another, or where the system has temporary ones."""

    def __init__(self, within: str | None = None) -> None:
        _remove_abandoned(Path(within or tempfile.gettempdir()))
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=within)
        self.path = Path(self._folder.name)
        # Locked before it has its name: nobody finds it without its lock.
        unnamed = self.path / "new.lock"
        self._lock = unnamed.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()
        self._lock.close()


def _remove_abandoned(within: Path) -> None:
    """Remove the folders of processes that were killed."""
    for lock in within.glob(f"{PREFIX}*/{_LOCK}"):
        try:
            # Others may write to the same place: a pipe would block, a link lead elsewhere.
            with os.fdopen(os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(lock.parent)
        except OSError:  # in use, of another user, or just removed
            continue
