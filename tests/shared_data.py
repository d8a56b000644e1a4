"""Folder of public meter data that some tests read, where it is present."""

import os
from pathlib import Path

import pytest

_SET = os.environ.get("WATTVEIL_DATA")
SHARED_DATA = Path(_SET) if _SET else Path(__file__).parents[2] / "shared" / "data"

if _SET and not SHARED_DATA.is_dir():
    raise RuntimeError(f"WATTVEIL_DATA must be a folder that exists, found {_SET!r}")

needs_shared_data = pytest.mark.skipif(
    not SHARED_DATA.is_dir(), reason="WATTVEIL_DATA is not set: no folder of public meter data"
)
