"""What commands say of a lost world, and of an old one that is restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sshwarma.cli.main import main
from sshwarma.settings import logs
from sshwarma.world.migrate import migrate_database


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lost"
    path.mkdir(mode=0o700)
    return path


@pytest.mark.parametrize("words", [["backup", "b.tar.gz"], ["migrate"], ["agents", "list"]])
def test_command_on_a_lost_world_says_that_it_is_lost(
    directory: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (directory / "world.db-wal").write_text("changes")
    assert main([*words, "--data-dir", str(directory)]) != 0
    said = capsys.readouterr().err
    assert "world.db is gone, and" in said and "world.db-wal is of the world that was there" in said


def test_restore_names_the_log_of_a_lost_world(
    newborn: Path, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "world.db-wal").write_text("changes")
    assert main(["restore", str(newborn), "--data-dir", str(directory)]) == 0
    [kept] = directory.glob("world-replaced-*.db-wal")
    said = capsys.readouterr().out
    assert f"The log of a world whose database is gone is kept: {kept}" in said
    (directory / "world.db").unlink()
    (directory / "world.db-journal").write_text("changes")
    assert main(["restore", str(newborn), "--data-dir", str(directory), "--json"]) == 0
    [kept] = directory.glob("world-replaced-*.db-journal")
    assert json.loads(capsys.readouterr().out)["replaced_logs"] == [str(kept)]


def test_restore_of_an_old_world_says_one_thing_about_its_upgrade(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate_database(tmp_path / "old.db", "0010")
    assert main(["restore", str(tmp_path / "old.db"), "--data-dir", str(directory)]) == 0
    said = capsys.readouterr()
    assert "Its schema is 0010: install the version that it is of, or let" in said.out
    assert "Upgrade it" not in said.out + said.err
