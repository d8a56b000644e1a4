"""The server's side of its helper processes."""

import os
from pathlib import Path

import pytest

from wattveil.serve.helpers import Helper, HelperDiedError


def test_what_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    """A bundle whose statement never ends: others must not wait for it."""
    os.mkfifo(tmp_path / "manifest.json")
    helper = Helper(most_seconds=0.5)
    try:
        with pytest.raises(HelperDiedError):
            helper.ask({"do": "verify", "bundle": str(tmp_path)})
    finally:
        helper.stop()
