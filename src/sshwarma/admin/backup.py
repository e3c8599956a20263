"""Backup: one tar with a copy of the database, the files and a manifest.

The copy is made by SQLite's online backup, or by pg_dump of one snapshot, so it is consistent while
the server writes. Host and operator keys are not in it: with it nobody can pose as the server.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import tarfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any, Final, cast

import sshwarma
from sshwarma.admin.backup_files import add_blobs
from sshwarma.admin.damaged_contents import DamagedContentsError, describe_left_out
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.database_copy import copy_database, hash_file, no_check
from sshwarma.admin.postgres_dump import DUMP_NAME, describe_world, snapshot_of, write_dump
from sshwarma.admin.restorable import UnusableCopyError, check_copy
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.admin.world_place import PostgresWorld, WorldPlace, data_dir_of
from sshwarma.common.files import give_name, is_on_read_only_disk
from sshwarma.settings import DATABASE_NAME
from sshwarma.workspaces.used_contents import read_sizes_in_file
from sshwarma.world.interrupted_change import undo_interrupted_change
from sshwarma.world.migrate import DamagedDatabaseError, describe_damage
from sshwarma.world.schema_check import ForeignSchemaError

MANIFEST_NAME: Final = "manifest.json"

POSTGRES: Final = "postgresql"
"""What a manifest says of the database if that is a dump of PostgreSQL."""

COMPRESSION: Final = 3
"""gzip's level: six times as fast as 9, for a backup that is a tenth larger."""


class _CheckedReader:
    """A file whose reading ends with what a check raises."""

    def __init__(self, file: IO[bytes], check: Callable[[], None]) -> None:
        self._file = file
        self._check = check

    def read(self, size: int = -1) -> bytes:
        self._check()
        return self._file.read(size)


def write_backup(
    world: WorldPlace,
    to: Path,
    check: Callable[[], None] = no_check,
    leave_out: Collection[str] = (),
) -> dict[str, Any]:
    """Write a backup, 0600. The server may be running.

    The file gets its name when it is complete.

    Args:
        world: where it is.
        to: the new file.
        check: called again and again; what it raises ends the backup, of which nothing is left.
        leave_out: hashes of contents of files that are not put into it; its manifest says which.

    Raises:
        ForeignDataDirError: if another user owns the world.
        FileNotFoundError: if there is no world, or the directory of `to` does not exist.
        FileExistsError: if `to` already exists.
        PermissionError: with the directory of `to`, if this user may not write there.
        DamagedDatabaseError: if no restore would accept it.
        DamagedContentsError: if a file of a room is missing or damaged: it would be the backup
            that is kept.
        SchemaError, DumpError: if the world is on PostgreSQL, and cannot be read.
    """
    if isinstance(world, Path) and not world.exists():
        raise FileNotFoundError(f"The directory {world.parent} does not contain a world.")
    check_data_dir_owner(data_dir_of(world))
    if not to.absolute().parent.is_dir():
        raise FileNotFoundError(f"The directory {to.absolute().parent} does not exist.")
    if to.exists() or to.is_symlink():  # which may lead nowhere
        raise FileExistsError(f"{to} already exists. Choose another.")
    with make_work_directory(to.absolute().parent) as work:
        if isinstance(world, Path):
            copy, manifest, blobs = _copy_file(world, work, check, leave_out)
        else:
            copy, manifest, blobs = _dump_database(world, work, check, leave_out)
        archive = work / "backup"
        _write_archive(archive, world, copy, manifest, blobs, check)
        give_name(archive, to)
    return manifest


def _write_archive(
    archive: Path,
    world: WorldPlace,
    copy: Path,
    manifest: dict[str, Any],
    blobs: dict[str, int],
    check: Callable[[], None],
) -> None:
    """Write the archive of a copy with its manifest and the contents of files."""
    handle = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=COMPRESSION) as tar:
            text = json.dumps(manifest, indent=2).encode()
            entry = tarfile.TarInfo(MANIFEST_NAME)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
            with copy.open("rb") as content:
                entry = tar.gettarinfo(arcname=copy.name, fileobj=content)
                tar.addfile(entry, cast("IO[bytes]", _CheckedReader(content, check)))
            add_blobs(tar, world, blobs, check)
        file.flush()
        os.fsync(file.fileno())


def _copy_file(
    database: Path, work: Path, check: Callable[[], None], leave_out: Collection[str]
) -> tuple[Path, dict[str, Any], dict[str, int]]:
    """Copy a database file; return the copy, its manifest, and the sizes of contents."""
    if not is_on_read_only_disk(database.parent):  # there, its copy is put right
        undo_interrupted_change(database)
    copy = work / DATABASE_NAME
    copy_database(database, copy, check)
    return copy, *_describe_copy(database, copy, work, check, leave_out)


def _dump_database(
    world: PostgresWorld, work: Path, check: Callable[[], None], leave_out: Collection[str]
) -> tuple[Path, dict[str, Any], dict[str, int]]:
    """Dump a database; return the dump, its manifest, and the sizes of contents."""
    dump = work / DUMP_NAME
    with snapshot_of(world) as (bulk, snapshot):
        try:
            counts, blobs = describe_world(bulk)
        except ValueError as error:
            raise DamagedDatabaseError(f"{bulk.place} is damaged: {error}.") from error
        write_dump(world, snapshot, dump, check)
    left_out = {sha256: blobs.pop(sha256) for sha256 in leave_out if sha256 in blobs}
    note = {"left_out": describe_left_out(world, left_out)} if left_out else {}
    return dump, _make_manifest(dump, counts | {"database": POSTGRES}, blobs) | note, blobs


def _make_manifest(copy: Path, counts: dict[str, Any], blobs: dict[str, int]) -> dict[str, Any]:
    return {
        "program": f"sshwarma {sshwarma.__version__}",
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **counts,
        "bytes": copy.stat().st_size,
        "sha256": hash_file(copy),
        "blobs": len(blobs),
        "blob_bytes": sum(blobs.values()),
    }


def write_partial_backup(
    world: WorldPlace,
    to: Path,
    check: Callable[[], None] = no_check,
    leave_out: Collection[str] = (),
) -> dict[str, Any]:
    """Write a backup without the contents of files that are missing or damaged.

    Arguments and errors are those of `write_backup`; `leave_out` has those that are known.
    """
    damaged = frozenset(leave_out)
    while True:  # each round finds more of a limited number
        try:
            return write_backup(world, to, check, damaged)
        except DamagedContentsError as error:
            if error.hashes <= damaged:
                raise
            damaged |= error.hashes


def _describe_copy(
    database: Path,
    copy: Path,
    work: Path,
    check: Callable[[], None],
    leave_out: Collection[str],
) -> tuple[dict[str, Any], dict[str, int]]:
    """Check the copy of a database as a restore does.

    Returns its manifest, and the sizes of the contents of files by their hash.

    Raises:
        DamagedDatabaseError: if no restore would accept it.
    """
    try:
        schema = check_copy(copy, work, check)
        blobs = read_sizes_in_file(copy)
        left_out = {sha256: blobs.pop(sha256) for sha256 in leave_out if sha256 in blobs}
        note = {"left_out": describe_left_out(copy, left_out)} if left_out else {}
        with contextlib.closing(sqlite3.connect(copy)) as opened:
            things = opened.execute("SELECT count(*) FROM things").fetchone()[0]
            rows = opened.execute("SELECT count(*) FROM rows").fetchone()[0]
    except (sqlite3.DatabaseError, UnusableCopyError, ForeignSchemaError) as error:
        raise DamagedDatabaseError(describe_damage(database, error)) from error
    counts = {"schema": schema, "things": things, "rows": rows}
    return _make_manifest(copy, counts, blobs) | note, blobs
