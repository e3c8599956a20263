"""Backup and restore: a moment of a living world, restored whole elsewhere.

Nothing else gets in.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import data_dir_lock
from sshwarma.admin.backup import DATABASE_NAME, write_backup
from sshwarma.admin.restore import InvalidBackupError, restore_backup
from sshwarma.common.files import give_name
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import rows
from sshwarma.world.world import World
from support.backups import database, made, manifest_of, write_archive
from support.people import Someone, do

__all__ = ["database", "made"]


def sizes(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as opened:
        return {
            table: opened.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("things", "equipped", "rows", "audit")
        }


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
        assert restored == {**one, "replaced": None}
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


def test_backup_of_a_foreign_database_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as opened:
        opened.execute("CREATE TABLE cookies (crumbs)")
        opened.commit()
    content = other.read_bytes()
    bad = write_archive(
        tmp_path / "bad.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    with pytest.raises(InvalidBackupError):
        restore_backup(bad, tmp_path / "data")
    assert not (tmp_path / "data" / "world.db").exists()


@pytest.mark.parametrize("where", [0.0, 0.02, 0.3, 0.6, 0.9, 0.97])
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_a_damaged_archive_is_refused(made: Path, tmp_path: Path, where: float, how: str) -> None:
    content = bytearray(made.read_bytes())
    at = int(len(content) * where)
    if how == "cut":
        del content[at:]
    else:
        content[at] ^= 0x55
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(content)
    with pytest.raises(InvalidBackupError):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_damage_beside_the_database_is_found(made: Path, tmp_path: Path) -> None:
    """The checksum in the manifest is that of the database alone."""
    good = gzip.decompress(made.read_bytes())
    damaged = bytearray(good)
    damaged[good.index(b"}") + 5] = ord("x")  # padding of the manifest
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(gzip.compress(bytes(damaged))[:-8] + gzip.compress(good)[-8:])
    with pytest.raises(InvalidBackupError, match="CRC check failed"):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_archive_that_goes_on_after_its_database_is_refused(database: Path, tmp_path: Path) -> None:
    content = database.read_bytes()
    bad = write_archive(
        tmp_path / "bad.tar.gz",
        ("manifest.json", manifest_of(content)),
        ("world.db", content),
        ("more", bytes(100_000)),
    )
    with pytest.raises(InvalidBackupError, match="it goes on after its database"):
        restore_backup(bad, tmp_path / "new")


def test_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hello", gzip.compress(b"hello"), b"\x1f\x8b" + b"\0" * 50):
        bad = tmp_path / "bad.tar.gz"
        bad.write_bytes(content)
        with pytest.raises(InvalidBackupError):
            restore_backup(bad, tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        restore_backup(tmp_path / "nowhere.tar.gz", tmp_path / "new")


def test_wrong_database_checksum_is_refused(database: Path, tmp_path: Path) -> None:
    content = database.read_bytes()
    received = manifest_of(content, sha256=hashlib.sha256(b"another").hexdigest())
    bad = write_archive(tmp_path / "bad.tar.gz", ("manifest.json", received), ("world.db", content))
    with pytest.raises(InvalidBackupError, match="the checksum of its database is wrong"):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_a_database_with_damaged_pages_is_refused(database: Path, tmp_path: Path) -> None:
    content = bytearray(database.read_bytes())
    for at in range(len(content) // 2, len(content) // 2 + 8192):
        content[at] = 0xA5
    bad = write_archive(
        tmp_path / "bad.tar.gz",
        ("manifest.json", manifest_of(bytes(content))),
        ("world.db", bytes(content)),
    )
    with pytest.raises(InvalidBackupError, match="damaged"):
        restore_backup(bad, tmp_path / "new")
    assert DATABASE_NAME not in [path.name for path in (tmp_path / "new").iterdir()]


def test_content_that_is_no_database_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gigabytes of zeros are a small archive."""
    content = b"SQLite format 3\0" + bytes(1_000_000)
    bad = write_archive(
        tmp_path / "b.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(InvalidBackupError, match="is no database"):
        restore_backup(bad, tmp_path / "new")


def test_long_header_is_refused_before_it_is_read(made: Path, tmp_path: Path) -> None:
    """tarfile reads an extended header into memory whole."""
    bad = tmp_path / "bad.tar.gz"
    with tarfile.open(bad, "w:gz", pax_headers={"comment": "x" * 10_000_000}) as tar:
        tar.addfile(tarfile.TarInfo("manifest.json"))
    assert bad.stat().st_size < 50_000
    with pytest.raises(InvalidBackupError, match=r"a header has 10\d+ bytes"):
        restore_backup(bad, tmp_path / "new")


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


def test_crash_of_a_restore_leaves_a_world(
    database: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, the next start would make a new world."""

    def crash(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    before = sizes(database)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(made, database.parent, force=True)
    assert sizes(database) == before
