"""What the tests of pages share: a browser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tools.drawing import chromium, find_chromium

_PATIENCE_MILLISECONDS = 600_000.0  # Playwright waits 30 s, which a busy machine may need


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium."""
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine, and it could not be installed")
    with chromium() as running, pytest.MonkeyPatch.context() as patch:
        for name in ("new_context", "new_page"):
            patch.setattr(running, name, patient(getattr(running, name)))
        yield running


def patient(opening: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is opened wait long for what it looks for."""

    def opened(**options: Any) -> Any:  # noqa: ANN401 - as Playwright
        made = opening(**options)
        made.set_default_timeout(_PATIENCE_MILLISECONDS)
        return made

    return opened
