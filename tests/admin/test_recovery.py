"""Worlds that a killed change has left half written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin import doctor
from sshwarma.admin.open_world import open_world
from sshwarma.admin.restore import restore_backup
from sshwarma.cli.main import main
from sshwarma.settings import Settings, load_settings
from sshwarma.world.migrate import SchemaError
from support.backup_files import database, made
from support.driver import Server
from support.driver.fixtures import homes

__all__ = ["database", "made"]


def leave_journal(database: Path, *statements: str) -> None:
    """Leave a change and its journal, as a process that is killed does."""
    journal = database.with_name("world.db-journal")
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA journal_mode = DELETE")
        opened.execute("PRAGMA cache_size = 2")
        opened.execute("BEGIN EXCLUSIVE")
        for statement in statements:
            opened.execute(statement)
        killed = database.read_bytes(), journal.read_bytes()
    database.write_bytes(killed[0])
    journal.write_bytes(killed[1])


@pytest.fixture
def interrupted(database: Path) -> Path:
    """A world with a change that was killed."""
    leave_journal(database, "UPDATE things SET description = hex(randomblob(3000))")
    database.parent.chmod(0o700)
    return database


def is_whole(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as opened:
        found = opened.execute("SELECT count(*) FROM things WHERE length(description) = 6000")
        return bool(found.fetchone() == (0,))


@pytest.mark.parametrize(
    "words", [["backup", "out.tar.gz"], ["agents", "list"], ["migrate"], ["vacuum"], ["audit"]]
)
def test_command_takes_a_killed_change_back(
    words: list[str],
    interrupted: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(interrupted.parent.parent)
    assert main([*words, "--data-dir", str(interrupted.parent)]) == 0, capsys.readouterr().err
    assert is_whole(interrupted)


@pytest.mark.process
def test_server_takes_a_killed_change_back() -> None:
    with homes() as home:
        server = Server(home())
        server.kill()
        database = server.data_dir / "world.db"
        leave_journal(database, "UPDATE things SET description = hex(randomblob(3000))")
        server.start()
        assert server.stop() == 0
        assert is_whole(database)


async def test_killed_first_start_is_begun_again(tmp_path: Path) -> None:
    """Its only change is taken back, and leaves an empty file."""
    made = tmp_path / "data" / "world.db"
    made.parent.mkdir(mode=0o700)
    leave_journal(
        made, "CREATE TABLE x (y)",
        *("INSERT INTO x VALUES (randomblob(3000))" for _ in range(9)),
    )  # fmt: skip
    assert made.stat().st_size
    await (await open_world(Settings(data_dir=made.parent))).close()
    with closing(sqlite3.connect(made)) as opened:
        assert opened.execute("SELECT count(*) FROM things").fetchone()[0] > 0


@pytest.mark.process
def test_doctor_says_that_a_change_was_killed_and_changes_nothing(interrupted: Path) -> None:
    listen: dict[str, Any] = {"ssh": {"listen": "127.0.0.1:0"}, "http": {"listen": "off"}}
    files = sorted(interrupted.parent.glob("world.db*"))
    before = [path.read_bytes() for path in files]
    settings = load_settings(data_dir=interrupted.parent, **listen)
    (found,) = [one for one in doctor.run_checks(settings) if one.name == "database"]
    assert found.mark == "warn" and "a change that was killed" in found.detail
    assert "start the server" in found.remedy
    assert [path.read_bytes() for path in files] == before


async def test_journal_that_cannot_be_used_is_a_sentence(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("sshwarma.world.interrupted_change.sqlite3.connect", refuse)
    with pytest.raises(SchemaError, match=r"world\.db cannot be used: attempt to write"):
        await open_world(Settings(data_dir=interrupted.parent))
    assert interrupted.with_name("world.db-journal").exists()


def test_journal_of_an_empty_file_stays(made: Path, database: Path) -> None:
    """SQLite would delete it, and with it what may be left of a world."""
    leave_journal(database, "UPDATE things SET description = hex(randomblob(3000))")
    os.truncate(database, 0)
    journal = database.with_name("world.db-journal")
    assert main(["vacuum", "--data-dir", str(database.parent)]) == 1
    assert journal.stat().st_size
    restore_backup(made, database.parent, force=True)
    assert not journal.exists()
