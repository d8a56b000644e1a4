"""Untrusted archives: limits on what is unpacked."""

import io
import struct
import tracemalloc
import zipfile

import pytest

from wattveil.server.bundle_archives import _unpacked
from wattveil.server.http.problems import Problem

_MEGABYTE = 2**20


def understated(kind: int, content: bytes) -> bytes:
    """Return an archive of one file that says of it that it has ten bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        archive.writestr("manifest.json", content)
    changed = bytearray(buffer.getvalue())
    size = changed.rindex(b"PK\x01\x02") + 24  # its place in the directory
    changed[size : size + 4] = struct.pack("<I", 10)
    return bytes(changed)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_more_is_unpacked_than_the_declared_size(kind: int) -> None:
    """A few bytes must not fill the memory of the server."""
    content = understated(kind, bytes(32 * _MEGABYTE))
    assert len(content) < _MEGABYTE
    tracemalloc.start()
    try:
        with pytest.raises(Problem):
            _unpacked(content)
        assert tracemalloc.get_traced_memory()[1] < 2 * _MEGABYTE
    finally:
        tracemalloc.stop()
