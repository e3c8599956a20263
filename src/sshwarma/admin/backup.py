"""Backup: one tar with a copy of the database, the files and a manifest.

The copy is made by SQLite's online backup, so it is consistent while the server writes. Host and
operator keys are not in it: with a backup nobody can pose as the server.
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
from sshwarma.admin.restorable import UnusableCopyError, check_copy
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.common.files import give_name, is_on_read_only_disk
from sshwarma.settings import DATABASE_NAME
from sshwarma.workspaces.used_contents import read_sizes_in_file
from sshwarma.world.interrupted_change import undo_interrupted_change
from sshwarma.world.migrate import DamagedDatabaseError, describe_damage
from sshwarma.world.schema_check import ForeignSchemaError

MANIFEST_NAME: Final = "manifest.json"

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
    database: Path,
    to: Path,
    check: Callable[[], None] = no_check,
    leave_out: Collection[str] = (),
) -> dict[str, Any]:
    """Write a backup, 0600. The server may be running.

    The file gets its name when it is complete.

    Args:
        database: of the world.
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
    """
    if not database.exists():
        raise FileNotFoundError(f"The directory {database.parent} does not contain a world.")
    check_data_dir_owner(database.parent)
    if not to.absolute().parent.is_dir():
        raise FileNotFoundError(f"The directory {to.absolute().parent} does not exist.")
    if to.exists() or to.is_symlink():  # which may lead nowhere
        raise FileExistsError(f"{to} already exists. Choose another.")
    if not is_on_read_only_disk(database.parent):  # there, its copy is put right
        undo_interrupted_change(database)
    with make_work_directory(to.absolute().parent) as work:
        copy = work / DATABASE_NAME
        copy_database(database, copy, check)
        manifest, blobs = _describe_copy(database, copy, work, check, leave_out)
        archive = work / "backup"
        handle = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=COMPRESSION) as tar:
                text = json.dumps(manifest, indent=2).encode()
                entry = tarfile.TarInfo(MANIFEST_NAME)
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text))
                with copy.open("rb") as content:
                    entry = tar.gettarinfo(arcname=DATABASE_NAME, fileobj=content)
                    tar.addfile(entry, cast("IO[bytes]", _CheckedReader(content, check)))
                add_blobs(tar, database, blobs, check)
            file.flush()
            os.fsync(file.fileno())
        give_name(archive, to)
    return manifest


def write_partial_backup(
    database: Path,
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
            return write_backup(database, to, check, damaged)
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
    return {
        "program": f"sshwarma {sshwarma.__version__}",
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "schema": schema,
        "things": things,
        "rows": rows,
        "bytes": copy.stat().st_size,
        "sha256": hash_file(copy),
        "blobs": len(blobs),
        "blob_bytes": sum(blobs.values()),
        **note,
    }, blobs
