"""What the tests of pages share: a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tools.drawing import chromium, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium."""
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine, and it could not be installed")
    with chromium() as running:
        yield running
