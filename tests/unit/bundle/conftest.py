"""Fixtures that tamper with a bundle, or leave a part of `verify` out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.bundle.bundle_files import MANIFEST
from wattveil.bundle.keys import read_key, sign
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.verify import verify_bundle, verify_content


@pytest.fixture
def rewrite(whole: Path) -> Callable[[Path, Manifest], None]:
    """Write a manifest anew, with a signature that holds: only its content can betray it."""
    key = read_key(whole.with_name("utility.key"))

    def written(bundle: Path, manifest: Manifest) -> None:
        unsigned = {name: value for name, value in manifest.items() if name != "signature"}
        text = json.dumps({**unsigned, "signature": sign(unsigned, key)})
        (bundle / MANIFEST).write_text(text, encoding="utf-8")

    return written


@pytest.fixture
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the recomputation of the budget out, where a test is about something else."""
    monkeypatch.setattr(verify_bundle, "budget_findings", lambda _: [])


@pytest.fixture
def no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave tables and pages out, where a test is about something else."""
    monkeypatch.setattr(verify_bundle, "content_findings", lambda *_: [])


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the page out, where a test is about tables."""
    monkeypatch.setattr(verify_content, "_page_findings", lambda *_: [])
