"""Upgrades: from the world of the first version to today's, and back by the copy."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import upgrade
from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.restore import restore_backup
from sshwarma.admin.service_notify import ServiceNotifier
from sshwarma.admin.upgrade import upgrade_database
from sshwarma.cli.main import main
from sshwarma.settings import logs
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.migrate import (
    DamagedDatabaseError,
    OutdatedSchemaError,
    UnknownSchemaError,
    newest_revision,
    read_schema,
)
from sshwarma.world.world import World

OLDEST = Path(__file__).with_name("oldest_world.db.gz")
"""The database of a server of the first commit, after a few lines of two people."""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory with the oldest world."""
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    (directory / "world.db").write_bytes(gzip.decompress(OLDEST.read_bytes()))
    return directory / "world.db"


def words_said(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute("SELECT content FROM rows ORDER BY created_at, seq")
        return [content for [content] in rows]


async def test_oldest_world_is_upgraded_and_opens(old: Path) -> None:
    before = words_said(old)
    done = upgrade_database(old)
    assert done is not None
    assert (done.before, done.after) == ("0002", newest_revision())
    assert "hello from the first day" in before
    assert words_said(old) == before
    world = await World.open(old, tool_specs())
    try:
        people = {agent.name: agent.role for agent in world.agents if agent.kind == "person"}
        assert people == {"root": "owner", "bob": "member"}
        assert len(world.agents.keys_of(next(a.id for a in world.agents if a.name == "bob"))) == 1
    finally:
        await world.close()


def test_the_way_back_is_the_copy(old: Path) -> None:
    original = words_said(old)
    done = upgrade_database(old)
    assert done is not None
    assert done.copy == old.with_name(f"world-before-{newest_revision()}.db")
    assert done.copy.stat().st_mode & 0o777 == 0o600
    assert read_schema(done.copy) == "0002"
    manifest = restore_backup(done.copy, old.parent, force=True)
    assert manifest["schema"] == "0002"
    assert (read_schema(old), words_said(old)) == ("0002", original)
    assert read_schema(Path(manifest["replaced"])) == newest_revision()
    again = upgrade_database(old)
    assert again is not None and again.copy == done.copy, "it is the same world"


@pytest.mark.parametrize("words", [
    ["keys", "list"], ["agents", "list"], ["invite"], ["token", "new", "bob", "--label", "a"],
])  # fmt: skip
def test_no_other_command_upgrades(
    old: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = old.read_bytes()
    assert main([*words, "--data-dir", str(old.parent)]) == 1
    error = capsys.readouterr().err
    assert error == (
        f"sshwarma: {old} is at schema 0002, and this version needs {newest_revision()}. Upgrade"
        f" it, which keeps a copy: sshwarma migrate --data-dir {old.parent}\n"
    )
    assert old.read_bytes() == before
    assert not list(old.parent.glob("world-before*"))


def test_migrate_upgrades_once_and_names_the_copy(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--data-dir", str(old.parent)]) == 0
    shown = capsys.readouterr().out
    assert f"Upgraded {old} from schema 0002 to {newest_revision()}." in shown
    assert f"world-before-{newest_revision()}.db" in shown
    assert main(["migrate", "--data-dir", str(old.parent)]) == 0
    assert capsys.readouterr().out == f"{old} is at schema {newest_revision()}.\n"
    assert main(["agents", "list", "--data-dir", str(old.parent)]) == 0
    assert "bob" in capsys.readouterr().out


async def test_opening_an_old_world_changes_nothing(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(OutdatedSchemaError, match="sshwarma migrate"):
        await World.open(old, tool_specs())
    assert old.read_bytes() == before


def test_world_of_a_newer_version_names_the_copy_that_it_kept(old: Path) -> None:
    upgrade_database(old)
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9998'")
        database.commit()
    with pytest.raises(UnknownSchemaError, match="restore a backup that this version made"):
        upgrade_database(old)
    kept = shutil.copyfile(
        old.with_name(f"world-before-{newest_revision()}.db"),
        old.with_name("world-before-9998.db"),
    )
    with pytest.raises(UnknownSchemaError, match=rf"sshwarma restore {kept} --force"):
        upgrade_database(old)
    later = shutil.copyfile(kept, old.with_name("world-before-9998-2.db"))
    os.utime(kept, (1, 1))
    with pytest.raises(UnknownSchemaError, match=rf"sshwarma restore {later} --force"):
        upgrade_database(old)


def test_restore_refuses_a_newer_schema_before_anything_is_moved(old: Path) -> None:
    newer = old.with_name("newer.db")
    shutil.copyfile(old, newer)
    with closing(sqlite3.connect(newer)) as database:
        database.execute("UPDATE alembic_version SET version_num = '0099'")
        database.commit()
    before = old.read_bytes()
    with pytest.raises(InvalidBackupError, match="its schema is 0099, and this version knows"):
        restore_backup(newer, old.parent, force=True)
    assert old.read_bytes() == before
    assert not list(old.parent.glob("world-replaced*"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"no database at all, but some bytes" * 100, "file is not a database"),
        (None, "malformed"),
    ],
)
def test_damaged_database_is_a_sentence_with_the_remedy(
    old: Path, content: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = old.read_bytes()
    old.write_bytes(good[:4096] + os.urandom(8192) if content is None else content)
    assert main(["migrate", "--data-dir", str(old.parent)]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert f"sshwarma restore FILE --force --data-dir {old.parent}" in error
    with pytest.raises(DamagedDatabaseError):
        upgrade_database(old)


def test_upgrade_without_room_for_the_copy_changes_nothing(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 1000))
    before = old.read_bytes()
    with pytest.raises(OSError, match="needs 1 MiB, and 0 MiB are free"):
        upgrade_database(old)
    assert old.read_bytes() == before


KILLED_MIGRATION = """
import os, pathlib, sqlite3, sys
from sshwarma.admin import upgrade

def migrate(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA cache_size = 1")  # so that some of it is in the log
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE things SET description = hex(randomblob(2000))")
    os._exit(9)

upgrade.migrate_database = migrate
upgrade.upgrade_database(pathlib.Path(sys.argv[1]))
"""


def kill_upgrade(database: Path) -> Path:
    """Upgrade in a process that dies in the migration; return its one copy."""
    words = [sys.executable, "-c", KILLED_MIGRATION, str(database)]
    assert subprocess.run(words, check=False).returncode == 9
    [left] = database.parent.glob("world-before-*")
    return left


@pytest.mark.process
def test_upgrades_that_are_killed_keep_one_copy(old: Path) -> None:
    """A service that is killed again and again does not fill the disk with copies."""
    before = words_said(old)
    for _ in range(3):
        kill_upgrade(old)
    done = upgrade_database(old)
    assert done is not None and read_schema(done.copy) == "0002"
    assert [path.name for path in old.parent.glob("*world-before*")] == [done.copy.name]
    assert words_said(old) == words_said(done.copy) == before


@pytest.mark.process
def test_copy_is_not_used_again_while_the_log_has_more(old: Path) -> None:
    """Another process that reads keeps the log from being written back."""
    left = kill_upgrade(old)
    with closing(sqlite3.connect(old)) as reader, closing(sqlite3.connect(old)) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM rows").fetchall()
        writer.execute("UPDATE rows SET content = 'said since'")
        writer.commit()
        done = upgrade_database(old)
    assert done is not None and done.copy != left
    assert "said since" in words_said(done.copy)


@pytest.mark.process
def test_copy_of_a_killed_upgrade_outlives_one_that_fails(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = kill_upgrade(old)

    def fail(path: Path) -> None:
        raise OSError("no")

    monkeypatch.setattr(upgrade, "migrate_database", fail)
    with pytest.raises(OSError, match="no"):
        upgrade_database(old)
    assert left.exists()


@pytest.mark.process
def test_log_that_cannot_be_emptied_is_no_traceback(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_upgrade(old)

    def fail(path: Path) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(upgrade, "empty_log", fail)
    assert upgrade_database(old) is not None


async def test_upgrade_that_is_cancelled_ends_when_its_thread_does(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory stays locked until then."""
    begun, may_end, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def migrate(path: Path) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait()
        ended.set()

    monkeypatch.setattr(upgrade, "migrate_database", migrate)
    starting = asyncio.create_task(upgrade.upgrade_at_start(old, ServiceNotifier("", None)))
    await begun.wait()
    starting.cancel()
    await asyncio.sleep(0)
    assert not starting.done()
    may_end.set()
    await asyncio.wait([starting])
    assert starting.cancelled() and ended.is_set()


def test_copy_of_an_upgrade_that_was_undone_is_kept(old: Path) -> None:
    first = upgrade_database(old)
    assert first is not None
    restore_backup(first.copy, old.parent, force=True)
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE rows SET content = 'said since'")
        database.commit()
    second = upgrade_database(old)
    assert second is not None and second.copy != first.copy
    assert "said since" in words_said(second.copy)
    assert "said since" not in words_said(first.copy)


def test_vacuum_changes_no_older_world(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only an upgrade does, after a copy."""
    before = old.read_bytes()
    assert main(["vacuum", "--data-dir", str(old.parent)]) == 1
    assert "sshwarma migrate" in capsys.readouterr().err
    assert old.read_bytes() == before


def test_failed_upgrade_keeps_no_copy(old: Path) -> None:
    """A service that starts again and again does not fill the disk with copies."""
    with closing(sqlite3.connect(old)) as database:
        database.execute("CREATE TABLE tokens (x)")  # in the way of 0003
    for _ in range(2):
        with pytest.raises(Exception, match="tokens"):
            upgrade_database(old)
    assert [path.name for path in old.parent.glob("world-before*")] == []
    assert read_schema(old) == "0002"
