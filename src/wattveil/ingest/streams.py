"""Bytes of a file, plain or compressed, a piece at a time.

Compression is told from the first bytes and not from the name: utilities rename files.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from wattveil.errors import InvalidFileError

CHUNK_BYTES = 1 << 16
LONGEST_LINE_BYTES = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading; gzip and zstd are decompressed on the way."""
    with path.open("rb") as file:
        magic = file.read(len(ZSTD_MAGIC))
    if magic.startswith(GZIP_MAGIC):
        return cast("BinaryIO", gzip.open(path, "rb"))
    if magic == ZSTD_MAGIC:
        return cast("BinaryIO", pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return path.open("rb")


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the content in pieces of at most `CHUNK_BYTES`; refuse a broken compressed file."""
    done = 0
    with open_binary(path) as stream:
        while True:
            try:
                chunk = stream.read(CHUNK_BYTES)
            except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
                where = f"byte {done} after decompression"
                raise InvalidFileError(
                    path, where, "a whole compressed file", str(error)
                ) from error
            if not chunk:
                return
            done += len(chunk)
            yield chunk


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line without its end, numbered from 1.

    A line has a longest length, so that a file without line ends cannot fill the memory.
    """
    number, rest = 0, b""
    for chunk in chunks(path):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield number, line.removesuffix(b"\r")
        if len(rest) > LONGEST_LINE_BYTES:
            expected = f"a line of at most {LONGEST_LINE_BYTES} bytes"
            raise InvalidFileError(path, f"line {number + 1}", expected, rest[:40])
    if rest:
        yield number + 1, rest.removesuffix(b"\r")
