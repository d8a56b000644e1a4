"""Fixtures of unit tests: a released bundle, made once per process."""

import shutil
from pathlib import Path

import pytest

from tests.sample_bundles import make_bundle


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
