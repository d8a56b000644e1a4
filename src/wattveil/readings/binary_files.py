"""Names of binary files, by their first bytes, so that they are refused by name."""

_BINARY_BYTES = 4_096
_NAMES = {
    b"PK\x03\x04": "a ZIP archive or XLSX workbook",
    b"\xd0\xcf\x11\xe0": "an XLS workbook",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"SQLite format 3\0": "a SQLite database (duckdb:/// and sqlite:/// take a query)",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"%PDF": "PDF",
    b"ARROW1": "Arrow",
    b"MATLAB": "MATLAB",
}


def binary_name(start: bytes) -> str | None:
    """Return what a binary file is; None if it may be text."""
    for magic, name in _NAMES.items():
        if start.startswith(magic):
            return name
    return "a binary file" if b"\0" in start[:_BINARY_BYTES] else None
