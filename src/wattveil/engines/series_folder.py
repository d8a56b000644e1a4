"""Folder of a series: public periods, private state, and one commit that changes both.

    series/series.json            public declaration
    series/periods/003/           bundle of each released period: for publication
    series/private/head.json      which state belongs to which period, authenticated
    series/private/state-003/     the private state after that period
    secrets/series.key            key of the state
    secrets/series.mark           how far the series has come: the high-water mark

A state that is restored from a copy would give customers back what they have used of their
allowance. So the mark, which is kept apart from the folder, names the head of the last released
period, the head names the digests of the state and of the period's manifest and the code of the
head before it, and a state with another head is refused. A period becomes final in one step: the
replacement of the mark, after state and bundle are on disk in ``private/pending``. A crash before
that step leaves the period unreleased, and what was computed is deleted unread; after it, opening
the folder moves state and bundle to their places.

Noise is drawn once for each state: the mark also says that a period was attempted, before a row is
read. After a crash the next attempt is refused, unless the data holder states that nothing of the
earlier one was seen or copied.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wattveil.engines.series_rows import Keep, PeriodState
from wattveil.engines.series_state import RESTORE, StateKey, StateWriter, read_state
from wattveil.errors import InvalidFileError, InvalidParameterError, SeriesStateError
from wattveil.privacy.mechanisms.period_sums import CustomerState

DECLARATION: Final = "series.json"
BUNDLE: Final = "bundle"
_OTHER: Final = "it is not that of the last released period (an older or another copy)"
_HEAD, _MARK, _KEY, _LOCK = "head.json", "series.mark", "series.key", "lock"
_LOST: Final = (
    "mount or restore the folder of secrets, or name it with --secrets; only if it is lost for"
    " good, close the series"
)
_CLOSED: Final = "`wattveil series close` deletes what is left of it; begin a new series"
AGAIN: Final = (
    "if nothing of it was seen or copied, add the period with --again; else close the series"
)
KIND: Final = re.compile(r"[^\W_][\w =-]{0,59}")
"""Names of kinds of sums; they become names of files, of 255 bytes at most."""
KIND_RULE: Final = "at most 60 letters, digits, spaces, hyphens and underscores"


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the private state belongs to."""

    series: str
    """Id of the series."""
    declaration_sha256: str
    released: tuple[int, ...]
    """Periods that were released, counted from 0."""
    manifest_sha256: str
    """Of the last released period; of nothing, the declaration's."""
    previous: str
    """Code of the head before this one."""
    encrypted: bool
    files: Mapping[str, str]
    """Digest of the state of each kind of sums, by name."""

    def to_bytes(self, key: StateKey) -> bytes:
        """Return the head as JSON with its authentication code."""
        record = {**vars(self), "released": list(self.released), "files": dict(self.files)}
        return _canonical({**record, "code": key.code(_canonical(record))})

    @classmethod
    def from_bytes(cls, body: bytes, key: StateKey) -> "Head":
        """Read what `to_bytes` wrote; refuse any other code."""
        record = _record(body, _HEAD)
        code = record.pop("code", None)
        if not key.accepts(_canonical(record), code):
            raise SeriesStateError("its head was changed, or the key is another one", RESTORE)
        return cls(**{**record, "released": tuple(record["released"])})


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far the series has come."""

    series: str
    head: str
    """Code of the head of the last released period."""
    attempted: int | None
    """Period whose noise may have been drawn from the state of this head; None if none."""
    closed: bool = False
    """Whether the series was closed: it is never opened again."""


class SeriesFolder:
    """An open series: the state of its last period, and how the next one is committed.

    Use `create` once, then `open`, which holds a lock.
    """

    def __init__(self, root: Path, secrets: Path, key: StateKey, head: Head) -> None:
        self.root = root
        self.key = key
        self.head = head
        self._secrets = secrets
        self._private = root / "private"

    @staticmethod
    def create(root: Path, secrets: Path, declaration: bytes, *, series: str, **head: Any) -> None:  # noqa: ANN401 - fields of `Head`
        """Make the folders of a series without periods; refuse places that exist."""
        for field, path in (("folder", root), ("secrets", secrets)):
            if path.exists() or not path.absolute().parent.is_dir():
                raise InvalidParameterError(field, "a new folder in one that exists", str(path))
        key = StateKey.draw()
        first = Head(series=series, released=(), previous="", files={}, **head)
        secrets.mkdir(mode=0o700)
        root.mkdir()
        (root / "periods").mkdir()
        (root / "private").mkdir(mode=0o700)
        _write(secrets / _KEY, key.to_hex().encode())
        _write(root / DECLARATION, declaration)
        _write(root / "private" / _HEAD, first.to_bytes(key))
        _write_mark(secrets, Mark(series=series, head=_code(first, key), attempted=None), key)

    @classmethod
    @contextmanager
    def open(cls, root: Path, secrets: Path) -> Iterator["SeriesFolder"]:
        """Hold the series alone; finish or discard what a crash left; check head and mark."""
        private = root / "private"
        if not private.is_dir():
            expected = "a folder of `wattveil series init`"
            raise InvalidFileError(root, "folder", expected, None)
        key = _read_key(secrets)
        with _locked(secrets):
            yield cls(root, secrets, key, _recovered(root, secrets, key))

    @staticmethod
    @contextmanager
    def closing(secrets: Path, *, series: str) -> Iterator[None]:
        """Hold the series alone while it is closed, and say so in the mark first.

        So copies of the folder are refused even if a crash leaves the secrets. Without key or mark
        no copy can be continued anyway.
        """
        with _locked(secrets) if secrets.is_dir() else nullcontext():
            with suppress(SeriesStateError):
                key = _read_key(secrets)
                mark = _read_mark(secrets, key)
                if mark.series != series:
                    raise InvalidParameterError("secrets", "those of this series", str(secrets))
                _write_mark(secrets, replace(mark, closed=True), key)
            yield

    def state(self, name: str) -> Iterator[CustomerState]:
        """Yield the blocks of one kind of sums; none before the first period."""
        if name not in self.head.files:
            if self.head.released:  # its customers would start afresh
                raise SeriesStateError(f"it has no state of {name}", RESTORE)
            return iter(())
        path = self._private / self._state_name(self.head) / f"{name}.state"
        key = self.key if self.head.encrypted else None
        return read_state(path, sha256=self.head.files[name], key=key)

    def begin(self, period: int | None, *, again: bool = False) -> "PendingPeriod":
        """Begin a period, or with None a change of the state, in an empty pending folder.

        A period is marked as attempted before any of its rows is read. ``again`` states that
        nothing of an earlier attempt was seen or copied.
        """
        mark = self._mark()
        if period is not None:
            if mark.attempted is not None and not again:
                problem = f"period {mark.attempted + 1} was begun and did not end"
                raise SeriesStateError(problem, AGAIN)
            _write_mark(self._secrets, replace(mark, attempted=period), self.key)
        pending = self._private / "pending"
        shutil.rmtree(pending, ignore_errors=True)
        (pending / "state").mkdir(parents=True)
        return PendingPeriod(self, pending, period)

    def withdraw(self) -> None:
        """Unmark an attempt that was refused before anything of it could leave this process."""
        _write_mark(self._secrets, replace(self._mark(), attempted=None), self.key)

    def commit(self, pending: Path, head: Head) -> None:
        """Make a pending period final; from the replacement of the mark on it is released."""
        mark = self._mark()
        _write(pending / _HEAD, head.to_bytes(self.key))
        for path in (*pending.rglob("*"), pending, self._private):
            _force_to_disk(path)
        left = mark.attempted if head.released == self.head.released else None
        final = replace(mark, head=_code(head, self.key), attempted=left)
        _write_mark(self._secrets, final, self.key)
        self.head = _recovered(self.root, self._secrets, self.key)

    def _mark(self) -> Mark:
        """Return the mark, which must name the head that this folder was opened with."""
        mark = _read_mark(self._secrets, self.key)
        if mark.head != _code(self.head, self.key):
            raise SeriesStateError(_OTHER, RESTORE)
        return mark

    @staticmethod
    def _state_name(head: Head) -> str:
        last = head.released[-1] if head.released else 0
        return f"state-{last:03}-{_short(head)}"


class PendingPeriod(PeriodState):
    """A period that is being computed: where its state and its bundle are written."""

    def __init__(self, folder: SeriesFolder, path: Path, period: int | None) -> None:
        self._folder = folder
        self._path = path
        self._period = period
        self._files: dict[str, str] = {}
        self.bundle = path / BUNDLE

    @property
    def names_key(self) -> bytes:
        """The key of customer names; refused if no period was begun, so that none is drawn."""
        if self._period is None:
            raise SeriesStateError("no period was begun", "begin one")
        return self._folder.key.names

    def blocks(self, name: str) -> Iterator[CustomerState]:
        """Return the blocks that the last released period left."""
        return self._folder.state(name)

    @contextmanager
    def keeping(self, name: str) -> Iterator[Keep]:
        """Return a function that writes the new blocks of one kind of sums, in order."""
        folder = self._folder
        if not KIND.fullmatch(name):
            raise InvalidParameterError("tag", f"of {KIND_RULE}, and =", name)
        with (self._path / "state" / f"{name}.state").open("xb") as file:
            writer = StateWriter(file=file, key=folder.key if folder.head.encrypted else None)
            yield writer.keep
            file.flush()
            os.fsync(file.fileno())
            self._files[name] = writer.finish()

    def commit(self, *, manifest_sha256: str) -> None:
        """Make the period, or the change of the state, final."""
        before, period = self._folder.head, self._period
        if missing := sorted(before.files.keys() - self._files.keys()):
            raise SeriesStateError(f"the new state would lack {missing}", "keep every kind of sums")
        released = before.released if period is None else (*before.released, period)
        head = Head(
            series=before.series,
            declaration_sha256=before.declaration_sha256,
            released=released,
            manifest_sha256=manifest_sha256,
            previous=_code(before, self._folder.key),
            encrypted=before.encrypted,
            files=self._files,
        )
        self._folder.commit(self._path, head)


def period_folder(root: Path, period: int) -> Path:
    """Return where the bundle of a period stands; periods are numbered from 1."""
    return root / "periods" / f"{period + 1:03}"


@contextmanager
def _locked(secrets: Path) -> Iterator[None]:
    """Hold the one lock of all copies of the folder."""
    with (secrets / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SeriesStateError("another process uses it", "wait for it to end") from error
        yield


def _recovered(root: Path, secrets: Path, key: StateKey) -> Head:
    """Return the head that the mark names, after finishing or discarding a pending period."""
    private = root / "private"
    pending = private / "pending"
    marked = _read_mark(secrets, key)
    if marked.closed:
        raise SeriesStateError("the series was closed", _CLOSED)
    if (pending / _HEAD).is_file():
        body = (pending / _HEAD).read_bytes()
        if key.code(body) == marked.head:
            _finish(root, pending, Head.from_bytes(body, key))
    try:
        body = (private / _HEAD).read_bytes()
    except FileNotFoundError as error:
        raise SeriesStateError("its head is missing", RESTORE) from error
    head = Head.from_bytes(body, key)
    if key.code(body) != marked.head:
        raise SeriesStateError(_OTHER, RESTORE)
    shutil.rmtree(pending, ignore_errors=True)
    for old in private.glob("state-*"):
        if old.name != SeriesFolder._state_name(head):  # noqa: SLF001 - of this module
            shutil.rmtree(old)
    _force_to_disk(private)  # what an erasure has deleted must not return
    return head


def _finish(root: Path, pending: Path, head: Head) -> None:
    """Move a final period to its place; every step may be repeated after a crash."""
    private = root / "private"
    state = private / SeriesFolder._state_name(head)  # noqa: SLF001 - of this module
    if (pending / "state").is_dir():
        (pending / "state").replace(state)
    if (pending / BUNDLE).is_dir():
        (pending / BUNDLE).replace(period_folder(root, head.released[-1]))
        _force_to_disk(root / "periods")
    shutil.copyfile(pending / _HEAD, private / f"{_HEAD}.new")
    _force_to_disk(private / f"{_HEAD}.new")
    (private / f"{_HEAD}.new").replace(private / _HEAD)
    _force_to_disk(private)


def _code(head: Head, key: StateKey) -> str:
    """Return the code by which the mark and the next head name a head."""
    return key.code(head.to_bytes(key))


def _write_mark(secrets: Path, mark: Mark, key: StateKey) -> None:
    """Replace the mark in one step."""
    record = vars(mark)
    body = _canonical({**record, "code": key.code(_canonical(record))})
    new = secrets / f"{_MARK}.new"
    new.unlink(missing_ok=True)
    _write(new, body)
    new.replace(secrets / _MARK)
    _force_to_disk(secrets)


def _read_mark(secrets: Path, key: StateKey) -> Mark:
    """Return the high-water mark; refuse any other code."""
    try:
        record = _record((secrets / _MARK).read_bytes(), _MARK)
    except FileNotFoundError as error:
        raise SeriesStateError(f"{_MARK} is missing", _LOST) from error
    code = record.pop("code", None)
    if not key.accepts(_canonical(record), code):
        raise SeriesStateError(f"{_MARK} was changed, or the key is another one", _LOST)
    return Mark(**record)


def _read_key(secrets: Path) -> StateKey:
    try:
        return StateKey.from_hex((secrets / _KEY).read_text("ascii").strip())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SeriesStateError(f"{_KEY} is missing in {secrets}", _LOST) from error
    except ValueError:
        problem = f"{_KEY} is not a key of a series"  # the error would quote it
    raise SeriesStateError(problem, _LOST)


def _record(body: bytes, name: str) -> dict[str, Any]:
    try:
        record = json.loads(body)
    except ValueError as error:
        raise SeriesStateError(f"{name} is damaged", RESTORE) from error
    if not isinstance(record, dict):
        raise SeriesStateError(f"{name} is damaged", RESTORE)
    return record


def _canonical(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def _short(head: Head) -> str:
    """Return a name of a head that another state after the same period does not have."""
    return head.previous[:8] or "first"


def _write(path: Path, body: bytes) -> None:
    """Write a new file for its owner alone, forced to disk."""
    mode = 0o644 if path.name == DECLARATION else 0o600
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _force_to_disk(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
