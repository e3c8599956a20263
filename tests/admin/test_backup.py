"""Backup and restore: a moment of a living world, restored whole elsewhere.

Nothing else gets in.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import data_dir_lock, replaced_world, restore
from sshwarma.admin.backup import write_backup
from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.database_copy import copy_database
from sshwarma.admin.restore import restore_backup
from sshwarma.common.files import give_name
from sshwarma.settings import DATABASE_NAME
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import rows
from sshwarma.world.migrate import DamagedDatabaseError
from sshwarma.world.world import World
from support.backup_files import sizes
from support.people import Someone, do


async def test_backup_during_writes_is_consistent(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    await do(alice, "/put note = kept")
    going = True

    async def talk() -> None:
        """Pairs of rows: a moment never has one without the other."""
        while going:
            await world.change(
                lambda tx: [
                    rows.append_row(tx, "lobby", "chat", "x" * 500, author_id=None)
                    for _ in range(2)
                ]
            )

    talking = [asyncio.create_task(talk()) for _ in range(4)]
    archives = [tmp_path / f"{n}.tar.gz" for n in range(3)]
    received = [await asyncio.to_thread(write_backup, world.store.path, path) for path in archives]
    going = False
    await asyncio.gather(*talking)
    assert [one["rows"] for one in received] == sorted(one["rows"] for one in received)
    for path, one in zip(archives, received, strict=True):
        target = tmp_path / path.name.split(".")[0]
        restored = await asyncio.to_thread(restore_backup, path, target)
        assert restored == {
            **one,
            "missing_blobs": 0,
            "missing_uses": 0,
            "missing_files": [],
            "owners": 0,
            "replaced": None,
            "replaced_logs": [],
        }
        assert sizes(target / "world.db")["rows"] == one["rows"]
        assert one["rows"] % 2 == 1, "the notice of the note, and pairs"
    again = await World.open(tmp_path / "2" / "world.db", tool_specs())
    assert [agent.name for agent in again.agents] == ["alice"]
    assert len(await again.last_rows("lobby", 10)) == min(10, received[2]["rows"])
    await again.close()


def test_backup_and_restore_give_the_same_database(
    database: Path, made: Path, tmp_path: Path
) -> None:
    target = tmp_path / "new"
    restore_backup(made, target)
    assert sizes(target / "world.db") == sizes(database)
    assert sorted(path.name for path in target.iterdir()) == [data_dir_lock.LOCK_NAME, "world.db"]
    assert made.stat().st_mode & 0o777 == 0o600
    assert (target / "world.db").stat().st_mode & 0o777 == 0o600
    assert target.stat().st_mode & 0o777 == 0o700


def test_backup_contains_no_private_keys(database: Path, tmp_path: Path) -> None:
    for name in ("ssh_host_ed25519_key", "operator_ed25519"):
        (database.parent / name).write_text("PRIVATE")
    write_backup(database, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        assert tar.getnames() == ["manifest.json", "world.db"]


def test_backup_refuses_to_overwrite_a_file(database: Path, made: Path, tmp_path: Path) -> None:
    before = made.read_bytes()
    with pytest.raises(FileExistsError):
        write_backup(database, made)
    assert made.read_bytes() == before
    with pytest.raises(FileNotFoundError, match="does not contain a world"):
        write_backup(tmp_path / "none.db", tmp_path / "c.tar.gz")
    assert not (tmp_path / "c.tar.gz").exists()


def test_restore_over_a_world_needs_force_and_keeps_the_old_one(database: Path, made: Path) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("UPDATE things SET description = 'newer' WHERE id = 'lobby'")
        opened.commit()
    before = database.read_bytes()
    with pytest.raises(FileExistsError, match="--force"):
        restore_backup(made, database.parent)
    assert database.read_bytes() == before
    restore_backup(made, database.parent, force=True)
    query = "SELECT description FROM things WHERE id = 'lobby'"
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute(query).fetchone() == (None,)
    (kept,) = database.parent.glob("world-replaced-*.db")
    with closing(sqlite3.connect(kept)) as opened:
        assert opened.execute(query).fetchone() == ("newer",)


def test_restore_is_refused_while_a_server_runs(database: Path, made: Path) -> None:
    with (
        data_dir_lock.lock_data_dir(database.parent),
        pytest.raises(data_dir_lock.DataDirInUseError),
    ):
        restore_backup(made, database.parent, force=True)


def test_restore_of_what_is_missing_touches_no_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    there.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        restore_backup(tmp_path / "nowhere", there)
    assert there.stat().st_mode & 0o777 == 0o755


def test_restored_world_is_on_disk_before_it_has_its_name(
    database: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[str] = []
    for module in (restore, replaced_world):
        monkeypatch.setattr(module, "store_on_disk", lambda path: stored.append(path.name))
    restore_backup(made, database.parent, force=True)
    assert stored == [DATABASE_NAME, database.parent.name, database.parent.name]


def test_damaged_copy_of_an_upgrade_is_named_as_the_damaged_one(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "world-before-0012.db"
    copy.write_bytes(database.read_bytes()[:8192] + os.urandom(8192))
    with pytest.raises(InvalidBackupError, match=r"world-before-0012\.db is damaged") as error:
        restore_backup(copy, tmp_path / "new")
    assert "Restore a backup" not in str(error.value)


def test_backup_of_a_damaged_world_is_refused(database: Path, tmp_path: Path) -> None:
    content = bytearray(database.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8192] = b"w" * 8192
    database.write_bytes(content)
    with pytest.raises(DamagedDatabaseError, match="Restore a backup"):
        write_backup(database, tmp_path / "b.tar.gz")
    assert not (tmp_path / "b.tar.gz").exists()


def test_backup_on_a_full_disk_leaves_nothing(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", fail)
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(OSError, match="No space left"):
        write_backup(database, target / "b.tar.gz")
    assert not list(target.iterdir())


def test_backup_to_a_disk_without_hard_links(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_backup(database, tmp_path / "b.tar.gz")
    restore_backup(tmp_path / "b.tar.gz", database.parent, force=True)
    assert len(list(database.parent.glob("world-replaced-*.db"))) == 1
    with pytest.raises(FileExistsError):
        give_name(tmp_path / "b.tar.gz", database)


async def test_copy_without_its_log_differs_from_whole_copies(world: World, tmp_path: Path) -> None:
    await world.store.read(lambda conn: None)
    assert world.store.path.with_name("world.db-wal").exists()
    plain, with_log, whole = (tmp_path / name for name in ("plain.db", "log.db", "whole.db"))
    for copy in (plain, with_log):
        shutil.copyfile(world.store.path, copy)
    shutil.copyfile(world.store.path.with_name("world.db-wal"), tmp_path / "log.db-wal")
    copy_database(world.store.path, whole)
    for number, (copy, lacks) in enumerate(((plain, True), (with_log, False), (whole, False))):
        restored = restore_backup(copy, tmp_path / f"new{number}")
        assert restored["without_log"] is lacks, copy
    with plain.open("rb") as stream:
        assert restore_backup(stream, tmp_path / "streamed")["without_log"]
