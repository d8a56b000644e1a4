"""One bundle for all tests that read one, and copies for those that spoil one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.released import make_bundle
from wattveil.publish import verify
from wattveil.publish.bundle import MANIFEST
from wattveil.publish.keys import read_key, sign
from wattveil.publish.manifest import Manifest


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with every part. Do not change it."""
    out = tmp_path_factory.mktemp("release") / "bundle"
    make_bundle(out)
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """The same bundle, to be spoiled."""
    return shutil.copytree(whole, tmp_path / "bundle")


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
    monkeypatch.setattr(verify, "budget_findings", lambda _: [])


@pytest.fixture
def no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave tables and pages out, where a test is about something else."""
    monkeypatch.setattr(verify, "_content_findings", lambda *_: [])


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the page out, where a test is about tables."""
    monkeypatch.setattr(verify, "page_findings", lambda *_: [])
