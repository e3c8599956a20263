"""Files of rooms in backups: all of them, whole, or no backup."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.backup import write_backup, write_partial_backup
from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.damaged_contents import DamagedContentsError
from sshwarma.admin.doctor import run_checks
from sshwarma.admin.restore import restore_backup
from sshwarma.settings import Settings
from sshwarma.workspaces import manifests, used_contents
from sshwarma.workspaces.blobs import BlobStore, DamagedBlob
from sshwarma.workspaces.tree import Entry
from sshwarma.world.migrate import DamagedDatabaseError
from sshwarma.world.world import World
from support.people import Someone, do, settle
from support.services import use_services

CONTENTS = (b"", b"one", os.urandom(70_000))


@pytest.fixture
async def blobs(world: World) -> BlobStore:
    """The contents of a room's files, beside the database."""
    store = BlobStore(world.store.path.parent / "blobs")
    changes = {
        f"file{number}": Entry(store.store(content), size=len(content))
        for number, content in enumerate(CONTENTS)
    }
    await settle(
        world,
        lambda tx: manifests.append_manifest(tx, "lobby", {}, changes, source="user_upload"),
    )
    return store


def stored(data_dir: Path) -> set[bytes]:
    store = BlobStore(data_dir / "blobs")
    return {store.read(sha256) for sha256, _, _ in store.list_stored()}


async def test_files_come_back_elsewhere(world: World, blobs: BlobStore, tmp_path: Path) -> None:
    blobs.store(b"not named by any version")
    made = write_backup(world.store.path, tmp_path / "b.tar.gz")
    assert (made["blobs"], made["blob_bytes"]) == (3, 70_003)
    restored = restore_backup(tmp_path / "b.tar.gz", tmp_path / "new")
    assert restored["missing_blobs"] == 0
    assert stored(tmp_path / "new") == set(CONTENTS)
    assert used_contents.read_sizes_in_file(tmp_path / "new" / "world.db").keys() == {
        hashlib.sha256(content).hexdigest() for content in CONTENTS
    }
    modes = {file.stat().st_mode & 0o077 for file in (tmp_path / "new" / "blobs").rglob("*")}
    assert modes == {0}


@pytest.mark.parametrize("change", [None, b"two", b"longer"])
async def test_no_backup_without_every_file(
    world: World, blobs: BlobStore, tmp_path: Path, change: bytes | None
) -> None:
    file = blobs.path_of(hashlib.sha256(b"one").hexdigest())
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change)
    with pytest.raises(
        DamagedContentsError,
        match=r"^1 of 3 contents of files is missing or damaged: file1 in lobby, version \w{6}\."
        r" The database is not damaged, .* --without-damaged$",
    ):
        write_backup(world.store.path, tmp_path / "b.tar.gz")
    assert not (tmp_path / "b.tar.gz").exists()


@pytest.mark.parametrize("change", [None, b"two", b"longer"])
async def test_backup_without_damaged_contents_says_which_it_lacks(
    world: World, blobs: BlobStore, tmp_path: Path, change: bytes | None
) -> None:
    file = blobs.path_of(hashlib.sha256(b"one").hexdigest())
    file.unlink()
    if change is not None:
        file.write_bytes(change)
    made = write_partial_backup(world.store.path, tmp_path / "b.tar.gz")
    assert (made["blobs"], made["left_out"]["contents"], made["left_out"]["bytes"]) == (2, 1, 3)
    (use,) = made["left_out"]["files"]
    assert (use["room"], use["path"], use["sha256"]) == ("lobby", "file1", file.name)
    restored = restore_backup(tmp_path / "b.tar.gz", tmp_path / "new")
    assert (restored["missing_blobs"], restored["missing_files"]) == (1, [use])
    assert stored(tmp_path / "new") == {*CONTENTS} - {b"one"}
    blobs.store(b"one")  # as somebody does who puts the same file again
    whole = write_partial_backup(world.store.path, tmp_path / "whole.tar.gz")
    assert (whole["blobs"], "left_out" in whole) == (3, False)


async def test_manifest_of_a_backup_without_all_contents_stays_small(
    world: World, tmp_path: Path
) -> None:
    """A restore reads 64 KiB of it: more would make the backup useless."""
    store = BlobStore(world.store.path.parent / "blobs")
    changes = {f"{number}{'ü' * 200}": Entry(f"{number:064x}", size=3) for number in range(2_000)}
    await settle(
        world,
        lambda tx: manifests.append_manifest(tx, "lobby", {}, changes, source="user_upload"),
    )
    assert not store.directory.exists()
    made = write_partial_backup(world.store.path, tmp_path / "b.tar.gz")
    assert made["left_out"]["uses"] == 2_000
    restored = restore_backup(tmp_path / "b.tar.gz", tmp_path / "new")
    assert (restored["missing_uses"], len(restored["missing_files"])) == (2_000, 1_000)


@pytest.mark.process  # doctor runs the programs of the settings
async def test_database_whose_hash_is_a_path_makes_no_backup(
    world: World, blobs: BlobStore, tmp_path: Path
) -> None:
    """Nothing but contents can be put into a backup by an edited database."""
    (world.store.path.parent / "secret").write_text("key")
    await settle(
        world,
        lambda tx: tx.conn.exec_driver_sql("UPDATE manifest_entries SET sha256 = '../../secret'"),
    )
    with pytest.raises(DamagedDatabaseError, match="an invalid hash"):
        write_backup(world.store.path, tmp_path / "b.tar.gz")
    with closing(sqlite3.connect(world.store.path)) as live:
        live.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    with pytest.raises(InvalidBackupError, match="an invalid hash"):
        restore_backup(tmp_path / "copy.db", tmp_path / "new")
    with pytest.raises(DamagedBlob):
        blobs.read("../../secret")
    settings = Settings(data_dir=world.store.path.parent)
    found = next(one for one in run_checks(settings, None) if one.name == "files")
    assert not found.ok and "an invalid hash" in found.detail


async def test_copy_of_a_database_names_the_files_it_lacks(
    world: World, blobs: BlobStore, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(world.store.path)) as live:
        live.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    restored = restore_backup(tmp_path / "copy.db", tmp_path / "new")
    assert restored["missing_blobs"] == 3


Rewrite = Callable[[dict[str, Any], list[tuple[str, bytes]]], None]


def rewrite(archive: Path, change: Rewrite) -> None:
    """Change the manifest and the entries of a backup."""
    with tarfile.open(archive) as tar:
        entries = [(one.name, tar.extractfile(one).read()) for one in tar]
    manifest = json.loads(entries[0][1])
    change(manifest, entries)
    entries[0] = (entries[0][0], json.dumps(manifest).encode())
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive.write_bytes(gzip.compress(out.getvalue()))


def _other_content(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    number = max(range(2, len(entries)), key=lambda one: len(entries[one][1]))
    entries[number] = (entries[number][0], b"x" * len(entries[number][1]))


def _path_as_name(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    entries[-1] = ("blobs/../../outside", entries[-1][1])


def _one_more(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    content = os.urandom(200_000)
    entries.append((f"blobs/{hashlib.sha256(content).hexdigest()}", content))


def _one_less(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    entries.pop()


def _smaller_sum(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    manifest["blob_bytes"] = 5


def _text_as_count(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    manifest["blobs"] = "3"


def _same_twice(manifest: dict[str, Any], entries: list[tuple[str, bytes]]) -> None:
    entries[-1] = entries[-2]


@pytest.mark.parametrize(
    "change",
    [
        _other_content,
        _path_as_name,
        _one_more,
        _one_less,
        _smaller_sum,
        _text_as_count,
        _same_twice,
    ],
)
async def test_hostile_files_of_a_backup_are_refused(
    world: World,
    blobs: BlobStore,
    tmp_path: Path,
    change: Rewrite,
) -> None:
    write_backup(world.store.path, tmp_path / "b.tar.gz")
    rewrite(tmp_path / "b.tar.gz", lambda *_: None)
    restore_backup(tmp_path / "b.tar.gz", tmp_path / "good")
    rewrite(tmp_path / "b.tar.gz", change)
    with pytest.raises(InvalidBackupError):
        restore_backup(tmp_path / "b.tar.gz", tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()
    assert not (tmp_path / "new" / "blobs").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.process  # doctor runs the programs of the settings
async def test_doctor_counts_missing_files(world: World, blobs: BlobStore) -> None:
    settings = Settings(data_dir=world.store.path.parent)
    await world.store.read(lambda conn: None)

    def find() -> CheckResult:
        return next(one for one in run_checks(settings, None) if one.name == "files")

    assert find().detail.startswith("3 contents")
    damaged = blobs.path_of(hashlib.sha256(CONTENTS[2]).hexdigest())
    damaged.chmod(0o600)
    damaged.write_bytes(b"")
    found = find()
    assert re.fullmatch(
        r"1 of 3 contents of files is missing or damaged: file2 in lobby, version \w{6}",
        found.detail,
    )
    (item,) = found.items
    assert (item["room"], item["path"], item["sha256"]) == ("lobby", "file2", damaged.name)
    blobs.path_of(hashlib.sha256(b"one").hexdigest()).unlink()
    assert find().detail.startswith("2 of 3 contents of files are missing or damaged: file1 in ")


async def test_garbage_is_what_neither_the_world_nor_a_copy_names(
    world: World, blobs: BlobStore, alice: Someone
) -> None:
    from sshwarma.workspaces.workspace import Workspaces

    use_services(world, workspaces=Workspaces(world, blobs))
    unused, of_copy = blobs.store(b"unused"), blobs.store(b"of a copy")
    copy = world.store.path.parent / "world-replaced-1.db"
    with closing(sqlite3.connect(world.store.path)) as live:
        live.execute("VACUUM INTO ?", (str(copy),))
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE manifest_entries SET sha256 = ? WHERE path = 'file1'", (of_copy,))
    for sha256, _, _ in blobs.list_stored():
        os.utime(blobs.path_of(sha256), (0, 0))
    seen = await do(alice, "/gc files")
    assert (seen.count, seen.size, seen.acted) == (1, 6, False)
    done = await do(alice, "/gc files --yes")
    assert (done.count, done.size, done.acted) == (1, 6, True)
    assert not blobs.path_of(unused).exists()
    assert blobs.path_of(of_copy).exists()
    assert stored(world.store.path.parent) == {*CONTENTS, b"of a copy"}
