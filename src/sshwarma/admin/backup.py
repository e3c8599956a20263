"""Backup and restore: one tar with a snapshot of the database and a manifest.

The copy is made by SQLite's online backup, so it is consistent while the server writes. Host and
operator keys are not in it: with a backup nobody can pose as the server.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, Final

import sshwarma
from sshwarma.admin import data_dir_lock
from sshwarma.common.units import KIB
from sshwarma.world.migrate import read_file_revision

DATABASE_NAME: Final = "world.db"
MANIFEST_NAME: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 64 * KIB
MAX_PADDING_BYTES: Final = 64 * KIB
"""Bytes after the database: tar fills its last record, of 10 KiB, with zeros."""


class InvalidBackupError(RuntimeError):
    """The file is not a backup of ours, or is damaged."""


def write_backup(database: Path, to: Path) -> dict[str, Any]:
    """Write a backup, 0600. The server may be running.

    Raises:
        FileNotFoundError: if there is no world, or the directory of `to` does not exist.
        FileExistsError: if `to` already exists.
    """
    if not database.exists():
        raise FileNotFoundError(f"The directory {database.parent} does not contain a world.")
    if not to.absolute().parent.is_dir():
        raise FileNotFoundError(f"The directory {to.absolute().parent} does not exist.")
    if to.exists():
        raise FileExistsError(f"{to} already exists. Choose another.")
    with tempfile.TemporaryDirectory(dir=to.absolute().parent) as work:
        copy = Path(work) / DATABASE_NAME
        with (
            contextlib.closing(
                sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
            schema = read_file_revision(target)
            things = target.execute("SELECT count(*) FROM things").fetchone()[0]
            rows = target.execute("SELECT count(*) FROM rows").fetchone()[0]
        manifest = {
            "program": f"sshwarma {sshwarma.__version__}",
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "schema": schema,
            "things": things,
            "rows": rows,
            "bytes": copy.stat().st_size,
            "sha256": _hash_file(copy),
        }
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            text = json.dumps(manifest, indent=2).encode()
            entry = tarfile.TarInfo(MANIFEST_NAME)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
            tar.add(copy, DATABASE_NAME)
    return manifest


def restore_backup(archive: Path, data_dir: Path, *, force: bool = False) -> dict[str, Any]:
    """Restore a backup's database into a data directory that no server uses.

    Raises:
        InvalidBackupError: if the file is not a backup, or its checksum is wrong.
        FileExistsError: if a world exists, unless `force`; then it is kept beside, renamed.
        data_dir_lock.DataDirInUseError: if a server is running there.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = data_dir / DATABASE_NAME
    with data_dir_lock.lock_data_dir(data_dir), tempfile.TemporaryDirectory(dir=data_dir) as work:
        if target.exists() and not force:
            raise FileExistsError(f"{target} already exists. --force replaces it.")
        copy = Path(work) / DATABASE_NAME
        manifest = _unpack_database(archive, copy)
        if target.exists():
            old_path = target.with_name(f"world-replaced-{time.strftime('%Y%m%d-%H%M%S')}.db")
            with contextlib.closing(sqlite3.connect(target)) as old_database:
                old_database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            target.rename(old_path)
            for suffix in ("-wal", "-shm"):
                target.with_name(target.name + suffix).unlink(missing_ok=True)
        copy.rename(target)
    return manifest


def _unpack_database(archive: Path, copy: Path) -> dict[str, Any]:
    """Read the two known entries and what little follows; write the database."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            manifest = _read_manifest(tar)
            second = tar.next()
            size = manifest.get("bytes")
            if (
                second is None
                or second.name != DATABASE_NAME
                or not second.isfile()
                or second.size != size
            ):
                raise InvalidBackupError(
                    f"{archive} does not contain the database its manifest names"
                )
            content = tar.extractfile(second)
            if content is None:
                raise InvalidBackupError(f"{archive} does not contain a database")
            with copy.open("xb") as file:
                shutil.copyfileobj(content, file)
            _check_end(tar)
    except (
        tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, RecursionError,
    ) as error:  # fmt: skip
        raise InvalidBackupError(f"{archive} is not a readable backup: {error}") from error
    if _hash_file(copy) != manifest.get("sha256"):
        raise InvalidBackupError(f"{archive} is damaged: the checksum of its database is wrong")
    verdict = _check_integrity(copy)
    if verdict != "ok":
        raise InvalidBackupError(f"the database in {archive} is damaged: {verdict}")
    copy.chmod(0o600)
    return manifest


def _read_manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    member = tar.next()
    if member is not None and member.name == MANIFEST_NAME and member.isfile():
        content = tar.extractfile(member)
        if content is not None and member.size <= MAX_MANIFEST_BYTES:
            manifest = json.loads(content.read())
            if isinstance(manifest, dict):
                return manifest
    raise ValueError("it does not begin with a manifest")


def _check_end(tar: tarfile.TarFile) -> None:
    """Read the archive to its end, where the checksum of all of it is compared.

    Raises:
        ValueError: if more than padding follows the database.
        gzip.BadGzipFile: if the checksum is wrong.
    """
    if tar.fileobj is None:
        raise ValueError("it cannot be read to its end")
    if len(tar.fileobj.read(MAX_PADDING_BYTES + 1)) > MAX_PADDING_BYTES:
        raise ValueError("it goes on after its database")


def _check_integrity(copy: Path) -> str:
    """`ok`, or a description of the damage to a database."""
    try:
        with contextlib.closing(sqlite3.connect(copy)) as database:
            read_file_revision(database)
            return str(database.execute("PRAGMA integrity_check").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return str(error)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
