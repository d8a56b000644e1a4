"""Files with the private state of a series: blocks of customers, encrypted on request.

A file has one Arrow stream per block of `CustomerState`, with a row per customer: keyed hash,
odometer, and the cells with the contributions made in them. It is written and read block by block.
`StateKey` derives everything secret from one key: the hashes of customer ids, the authentication of
the state and of the chain of periods, and the encryption (AES-256-GCM).
"""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wattveil.errors import SeriesStateError
from wattveil.privacy.mechanisms.period_sums import CustomerState
from wattveil.privacy.mechanisms.response import fresh_key

RESTORE: Final = "restore the newest copy of the private folder, or close the series"
_LENGTH, _SALT = 8, 64


@dataclass(frozen=True, eq=False, repr=False)
class StateKey:
    """The secret of a series; it never enters a release."""

    _secret: bytes

    @classmethod
    def draw(cls) -> "StateKey":
        """Draw a key; it depends on no data."""
        return cls(fresh_key())

    @classmethod
    def from_hex(cls, text: str) -> "StateKey":
        """Read the hexadecimal digits of `to_hex`."""
        secret = bytes.fromhex(text)
        if len(secret) != len(fresh_key()):
            raise ValueError("a key of another length")
        return cls(secret)

    def to_hex(self) -> str:
        """Return the key as hexadecimal digits."""
        return self._secret.hex()

    @property
    def names(self) -> bytes:
        """The key of customer names."""
        return self._derived(b"names")

    def code(self, body: bytes) -> str:
        """Return the authentication code of a record of the series."""
        return hmac.digest(self._derived(b"records"), body, "sha256").hex()

    def accepts(self, body: bytes, code: object) -> bool:
        """Whether the code is that of the body."""
        return isinstance(code, str) and hmac.compare_digest(self.code(body), code)

    def cipher(self, salt: bytes) -> AESGCM:
        """Return the cipher of one file; every file has a fresh salt, so nonces may count."""
        return AESGCM(self._derived(b"encryption" + salt))

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self._secret, purpose, "sha256")


@dataclass(kw_only=True, eq=False, repr=False)
class StateWriter:
    """Writes the blocks of one state to a new file; `finish` returns its digest."""

    file: BinaryIO
    key: StateKey | None
    """Encrypts the file; None leaves it readable."""
    _digest: Any = field(default_factory=hashlib.sha256)
    _cipher: AESGCM | None = None
    _blocks: int = 0

    def __post_init__(self) -> None:
        """Begin the file: with a salt, if it is encrypted."""
        if self.key is not None:
            salt = fresh_key()
            self._cipher = self.key.cipher(salt)
            self._append(salt)

    def keep(self, state: CustomerState) -> None:
        """Append a block; one without customers is left out."""
        if not state.names.size:
            return
        body = _stream(state)
        if self._cipher is not None:
            body = self._cipher.encrypt(_nonce(self._blocks), body, None)
        self._append(len(body).to_bytes(_LENGTH, "little") + body)
        self._blocks += 1

    def finish(self) -> str:
        """Return the SHA-256 of everything that was written."""
        return str(self._digest.hexdigest())

    def _append(self, body: bytes) -> None:
        self._digest.update(body)
        self.file.write(body)


def read_state(path: Path, *, sha256: str, key: StateKey | None) -> Iterator[CustomerState]:
    """Yield the blocks of a file, which must be the one with this digest."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if not hmac.compare_digest(found, sha256):
                raise SeriesStateError(f"{path.name} was changed", RESTORE)
            file.seek(0)
            yield from _blocks(file, key)
    except FileNotFoundError as error:
        raise SeriesStateError(f"{path.name} is missing", RESTORE) from error


def _blocks(file: BinaryIO, key: StateKey | None) -> Iterator[CustomerState]:
    cipher = None if key is None else key.cipher(file.read(_SALT))
    place = 0
    while head := file.read(_LENGTH):
        body = file.read(int.from_bytes(head, "little"))
        if cipher is not None:
            try:
                body = cipher.decrypt(_nonce(place), body, None)
            except InvalidTag as error:
                raise SeriesStateError("it was encrypted with another key", RESTORE) from error
        yield _block(body)
        place += 1


def _nonce(block: int) -> bytes:
    return block.to_bytes(12, "little")


def _stream(state: CustomerState) -> bytes:
    """Return a block as an Arrow stream with one row per customer."""
    periods, features = state.history.shape[1:]
    history = pa.FixedSizeListArray.from_arrays(pa.array(state.history.ravel()), periods * features)
    own = pa.StructArray.from_arrays([pa.array(state.cells), history], ["cell", "history"])
    ends = np.searchsorted(state.owners, np.arange(state.names.size + 1))
    table = pa.table(
        {
            "customer": pa.array(state.names.tolist(), pa.binary(32)),
            "used": pa.array(state.used),
            "records": pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), own),
        }
    ).replace_schema_metadata({"periods": str(periods), "features": str(features)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _block(body: bytes) -> CustomerState:
    """Read what `_stream` wrote; the mechanism checks the content."""
    table = pa.ipc.open_stream(body).read_all().combine_chunks()
    size = [int(table.schema.metadata[name]) for name in (b"periods", b"features")]
    records = table["records"].combine_chunks()
    own = records.values
    counts = np.diff(records.offsets.to_numpy())
    history = own.field("history").values.to_numpy(zero_copy_only=False)
    return CustomerState(
        names=np.array(table["customer"].to_pylist(), dtype="S32"),
        used=np.array(table["used"].to_numpy()),
        owners=np.repeat(np.arange(counts.size), counts),
        cells=np.array(own.field("cell").to_numpy()),
        history=history.reshape(len(own), *size),
    )
