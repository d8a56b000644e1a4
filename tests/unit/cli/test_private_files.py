"""What commands write about private rows is readable by its owner alone, whatever the umask is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.server.observe.lifecycle_logs import log_permissions
from wattveil.server.run import run
from wattveil.server.server_state import prepared_folder


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Set the umask of most machines: others may read new files."""
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022, "a command puts it back"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the folder of a server that was started once."""
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    with prepared_folder(folder, None):
        return folder


def open_to_others(folder: Path) -> set[str]:
    """Return the files of a folder that others may open."""
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.stat().st_mode & 0o077}


def commanded(*arguments: str | Path) -> str:
    """Run a command; return what it printed."""
    result = CliRunner().invoke(app, [*map(str, arguments)], terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_restore_into_a_folder_of_the_operator_is_private(data: Path, tmp_path: Path) -> None:
    """Made by `mkdir`, it is open to others; nothing that is restored is."""
    backup, moved = tmp_path / "backup", tmp_path / "moved"
    commanded("admin", "backup", "--data", data, "--out", backup)
    assert open_to_others(backup) == set()
    moved.mkdir()
    accepted = ("--by", "owner", "--reason", "moved")
    commanded("admin", "restore", backup, "--data", moved, *accepted)
    commanded("admin", "token", "--data", moved, "--name", "ann", "--role", "analyst")
    assert (moved / "ledger.sqlite").is_file()
    assert open_to_others(moved) == set()


def test_profiles_are_private(tmp_path: Path) -> None:
    """They are rows of customers."""
    readings, out = tmp_path / "readings.parquet", tmp_path / "profiles.parquet"
    commanded("simulate", "--customers", "3", "--days", "14", "--out", readings)
    commanded("profiles", readings, "--timezone", "Europe/London", "--out", out)
    assert out.stat().st_mode & 0o077 == 0


def test_a_start_warns_of_files_that_others_may_open(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of each; the group may in a folder whose files belong to it, as on Kubernetes."""

    def warned() -> list[str]:
        caplog.clear()
        log_permissions(data)
        found = (Path(vars(one)["fields"]["file"]) for one in caplog.records)
        return [str(one.relative_to(data)) for one in found]

    names = ("ledger.sqlite", "release.key", "fingerprint.key")
    for name in names:
        (data / name).chmod(0o600)
    assert warned() == []
    data.chmod(0o755)
    (data / "release.key").chmod(0o640)
    assert warned() == [".", "release.key"]
    data.chmod(0o2770)
    assert warned() == []
    (data / "release.key").chmod(0o644)
    assert warned() == ["release.key"]


@pytest.mark.parametrize(
    ("address", "word"),
    [("postgresql://ann:secret@db/wattveil", "PGPASSFILE"), ("nonsense", "postgresql://")],
)
def test_a_server_refuses_a_password_in_its_address(
    tmp_path: Path, address: str, word: str
) -> None:
    """Every user of the machine could read it; and what is no address at all."""
    with pytest.raises(InvalidParameterError, match=word) as refused:
        run(
            tmp_path / "data",
            address,
            host="127.0.0.1",
            port=0,
            tls=(None, None),
            behind_proxy=(),
            echo=print,
        )
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "a.parquet", "b.parquet", "--report"),
        ("grid", "a.parquet", "b.parquet", "--report"),
        ("audit", "--record"),
        ("attack", "fifteen-fifteen", "--report"),
        ("compare", "a.parquet", "--out"),
        ("profiles", "a.csv", "--out", "p.parquet", "--report"),
    ],
)
def test_no_page_with_exact_values_is_written_into_a_bundle(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """All of its files are published."""
    (tmp_path / "manifest.json").write_text('{"implementation": {"name": "wattveil"}}')
    (tmp_path / "tables").mkdir()
    out = tmp_path / "tables" / "page.html"
    result = CliRunner().invoke(app, [*words, str(out)], terminal_width=200)
    assert result.exit_code == 2, result.output
    assert "outside of the bundle" in " ".join(result.output.split())
    assert not out.exists()
