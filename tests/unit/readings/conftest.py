"""Small files for the tests of reading."""

from collections.abc import Callable
from pathlib import Path

import pytest

WriteText = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteText:
    """Write lines to a file in a folder of the test."""

    def write_lines(*lines: str, name: str = "readings.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write_lines
