"""Java: found, too old, or absent."""

from pathlib import Path

import pytest

from wattveil.engines.spark.spark_session import check_java
from wattveil.errors import MissingJavaError


def _java(folder: Path, said: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize("said", ['openjdk version "17.0.15"', 'java version "21" 2023-09-19'])
def test_java_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """By JAVA_HOME, of any maker."""
    _java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize("said", ['openjdk version "1.8.0_392"', "a riddle"])
def test_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """The error says what is needed, what is there and what to do."""
    _java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match="needs Java 17 or later") as refused:
        check_java()
    assert refused.value.found == said
    assert "JAVA_HOME" in str(refused.value)


def test_no_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark fails with a riddle of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingJavaError, match="but none was found"):
        check_java()
