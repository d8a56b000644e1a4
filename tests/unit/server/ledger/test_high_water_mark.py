"""The file of the high-water mark: on disk before a charge is confirmed, whole beside others."""

import errno
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.high_water_mark import FILE, HighWaterMark
from wattveil.server.ledger.journal import Head

SHA = "a" * 64


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the contents of files at the moments at which they were forced to disk."""
    found: list[str] = []
    sync = os.fsync

    def noting(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").resolve()
        found.append(f"entries of {path.name}" if path.is_dir() else path.read_text())
        sync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads files as Linux names them")
def test_what_is_recorded_is_forced_to_disk(tmp_path: Path, forced: list[str]) -> None:
    """All of it, each time; also the short file, before it takes the place of the long one.

    The folder has the name of a file that is new, or that took the place of another.
    """
    mark, path, entries = HighWaterMark(tmp_path), tmp_path / FILE, f"entries of {tmp_path.name}"
    written = []
    for seq in (1, 2):
        mark.record({1: Head(seq, SHA)}, {1: seq}, {})
        written.append(path.read_text())
        assert f"\n1 {seq} {SHA}\n" in written[-1]
        assert f"\n1 stored {seq}\n" in written[-1]
    mark.record({1: Head(2, SHA)}, {1: 1}, {})  # nothing new
    assert forced == [written[0], entries, written[1]]
    mark.close()
    assert forced[3:] == [path.read_text(), entries]
    assert f"\n1 1 {SHA}\n" not in path.read_text()


def test_nothing_is_lost_while_others_append_and_shorten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a journal of its own; whoever shortens the file keeps what others have written."""
    monkeypatch.setattr(high_water_mark, "_LOCK_SECONDS", 600.0)  # however slow the disk is

    def write(journal: int) -> None:
        mark = HighWaterMark(tmp_path)
        for seq in range(1, 41):
            mark.record({journal: Head(seq, SHA)}, {journal: seq}, {f"hmac:{journal}": "homes"})
            if seq % 10 == journal:
                mark.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = HighWaterMark(tmp_path)
    assert found.heads == {journal: Head(40, SHA) for journal in range(4)}
    assert found.stored == dict.fromkeys(range(4), 40)
    assert sorted(found.datasets) == [f"hmac:{journal}" for journal in range(4)]


def test_erasures_are_never_forgotten(tmp_path: Path) -> None:
    """Not by another process that shortens the file; nor by a smaller number."""
    mark, other, series = HighWaterMark(tmp_path), HighWaterMark(tmp_path), "0" * 32
    assert mark.erasures_of(series) == 0
    mark.record_erasures(series, 2)
    other.record_erasures("1" * 32, 1)
    other.close()
    mark.record_erasures(series, 1)
    assert [mark.erasures_of(one) for one in (series, "1" * 32)] == [2, 1]
    mark.close()
    assert HighWaterMark(tmp_path).erasures_of(series) == 2


def test_a_line_that_was_cut_short_counts_for_nothing(tmp_path: Path) -> None:
    """Also after more was appended to it; a last line without its end counts."""
    path = tmp_path / FILE
    path.write_text(f"\n1 3 {SHA}\n\n1 4 {SHA[:9]}")
    mark = HighWaterMark(tmp_path)
    assert mark.heads == {1: Head(3, SHA)}
    mark.record({2: Head(1, SHA)}, {}, {})
    mark.refresh()
    assert mark.heads == {1: Head(3, SHA), 2: Head(1, SHA)}
    path.write_text(f"\n1 5 {SHA}")
    assert HighWaterMark(tmp_path).heads == {1: Head(5, SHA)}


def test_lines_that_were_not_forced_to_disk_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails after the write: no process takes the lines for durable; they are due."""
    mark, path = HighWaterMark(tmp_path), tmp_path / FILE
    mark.record({1: Head(1, SHA)}, {1: 1}, {})
    before = path.read_bytes()

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="input/output"):
            mark.record({1: Head(2, SHA)}, {1: 2}, {"hmac:2": "homes"})
    assert path.read_bytes() == before
    assert mark.is_due
    assert not mark.has_release(1, 2)
    other = HighWaterMark(tmp_path)
    other.record({1: Head(3, SHA)}, {1: 3}, {})  # another process went on
    mark.refresh()
    mark.record({}, {}, {})
    assert (mark.heads, mark.stored) == ({1: Head(3, SHA)}, {1: 3})
    assert HighWaterMark(tmp_path).datasets == {"hmac:2": "homes"}


def test_a_mark_that_is_gone_cannot_be_written(tmp_path: Path) -> None:
    """A new server has none yet; one that had one must not begin another."""
    mark = HighWaterMark(tmp_path)
    mark.check_writable()
    mark.record({1: Head(1, SHA)}, {}, {})
    mark.check_writable()
    (tmp_path / FILE).unlink()
    with pytest.raises(FileNotFoundError):
        mark.check_writable()


def test_a_file_that_another_process_has_locked_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that was stopped: nothing is written until it goes on, and what is due stays."""
    mark = HighWaterMark(tmp_path)
    mark.record({1: Head(1, SHA)}, {1: 1}, {})
    monkeypatch.setattr(high_water_mark, "_LOCK_SECONDS", 0.0)
    with mark.path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(BlockingIOError):
            mark.record({}, {1: 2}, {})
        with pytest.raises(BlockingIOError):
            mark.check_writable()
        with pytest.raises(BlockingIOError):
            mark.close()
        fcntl.flock(reader, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            mark.refresh()
        assert mark.is_due
        assert not mark.has_release(1, 2)
    mark.record({}, {}, {})
    mark.check_writable()
    assert HighWaterMark(tmp_path).stored == {1: 2}
