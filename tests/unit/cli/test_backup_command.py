"""The command `admin backup`: its place, its time, and older backups."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattveil.cli import app
from wattveil.server.backup.restore_backup import AcceptedLoss, restore_backup
from wattveil.server.backup.write_backup import last_backup
from wattveil.server.server_state import prepared_folder


def server(folder: Path) -> Path:
    """Return the folder of a server that was started once."""
    folder.mkdir()
    with prepared_folder(folder, None):
        return folder


def run(data: Path, out: Path, *more: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    words = ["admin", "backup", "--data", str(data), "--out", str(out), *more]
    result = CliRunner().invoke(app, words, terminal_width=200)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_the_time_of_the_last_backup_is_recorded(tmp_path: Path) -> None:
    """In the data folder, for the metrics; one that is refused is none."""
    data = server(tmp_path / "data")
    assert last_backup(data).made_at == 0
    assert run(data, data / "backup")[0] == 2
    assert last_backup(data).made_at == 0
    first, second = (
        (run(data, tmp_path / name)[0], last_backup(data).made_at) for name in ("one", "two")
    )
    assert (first[0], second[0]) == (0, 0)
    assert 0 < first[1] < second[1]
    noted = (data / "backup.time").read_text()
    (data / "backup.time").write_text(noted.split()[0])  # as an earlier version did
    assert last_backup(data).made_at == second[1]
    (data / "backup.time").write_text("yesterday")
    assert last_backup(data).made_at == 0


def test_a_backup_is_outside_of_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be lost with it; also by a relative path and by a link."""
    data = server(tmp_path / "data")
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(data)
    for out in (data / "backup", Path("backup"), tmp_path / "link" / "backup"):
        code, said = run(Path() if not out.is_absolute() else data, out)
        assert (code, "outside the data folder" in said) == (2, True), said
    assert run(data, Path("../backup"))[0] == 0


def test_the_oldest_backups_of_the_same_server_are_removed(tmp_path: Path) -> None:
    """Not those of another server, nor other folders."""
    data, other, backups = server(tmp_path / "a"), server(tmp_path / "b"), tmp_path / "backups"
    for folder in (backups, backups / "notes", backups / "begun"):
        folder.mkdir()
    (backups / "begun" / "backup.json").write_text("{")
    assert run(other, backups / "0-other")[0] == 0
    for name in ("z", "y", "x"):  # by time, not by name
        code, said = run(data, backups / name, "--keep", "3", "--json")
        assert (code, json.loads(said)["removed"]) == (0, [])
    kept = {"0-other", "notes", "begun"}
    code, said = run(data, backups / "w", "--keep", "2")
    assert code == 0
    assert "Removed: z, y." in said
    assert {one.name for one in backups.iterdir()} == {*kept, "x", "w"}
    assert run(data, backups / "v", "--keep", "0")[0] == 2


def test_a_practice_server_removes_no_backup_of_the_original(tmp_path: Path) -> None:
    """It has the same keys and ledger, and its backups may be written to the same share."""
    data, backups = server(tmp_path / "data"), tmp_path / "backups"
    backups.mkdir()
    for name in ("monday", "tuesday"):
        assert run(data, backups / name)[0] == 0
    loss = AcceptedLoss(by="owner", reason="practice")
    for name in ("practice", "again"):
        restore_backup(backups / "tuesday", tmp_path / name, None, loss=loss)
        code, said = run(tmp_path / name, backups / name, "--keep", "1", "--json")
        assert (code, json.loads(said)["removed"]) == (0, [])
        with prepared_folder(tmp_path / name, None):  # a start does not change its identity
            pass
        code, said = run(tmp_path / name, backups / f"{name}-2", "--keep", "1", "--json")
        assert (code, json.loads(said)["removed"]) == (0, [name])
    code, said = run(data, backups / "wednesday", "--keep", "2", "--json")
    assert json.loads(said)["removed"] == ["monday"]
