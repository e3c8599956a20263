"""Restore of a world from a backup, or from the copy that an upgrade kept.

Everything is checked before the world that is there is moved: the archive and its checksums, the
database, and that this program can use its schema.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO, Any, Final

from sshwarma.admin import data_dir_lock, data_dir_modes
from sshwarma.admin.backup import DATABASE_NAME, MANIFEST_NAME, WORK_PREFIX
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.database_copy import (
    check_room,
    choose_free_name,
    copy_database,
    flush_file,
    hash_file,
)
from sshwarma.common.files import give_name
from sshwarma.common.units import KIB
from sshwarma.world.migrate import (
    DamagedDatabaseError,
    known_revisions,
    newest_revision,
    read_file_revision,
)

MAX_MANIFEST_BYTES: Final = 64 * KIB
MAX_HEADER_BYTES: Final = 64 * KIB
"""Bytes of an extended header of the archive; those of a backup have about a hundred."""

MAX_HEADERS: Final = 8
"""Headers before the database; a backup has two."""

PLAIN_FILES: Final = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})
"""Types of entries that are read; others, as sparse ones, may need any amount of memory."""

SPARSE_MARK: Final = b"GNU.sparse"

MAX_PADDING_BYTES: Final = 64 * KIB
"""Bytes after the database: tar fills its last record, of 10 KiB, with zeros."""

SQLITE_MAGIC: Final = b"SQLite format 3\0"
SQLITE_HEADER_BYTES: Final = 100
EXTENDED_HEADERS: Final = frozenset(
    {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
     tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
)  # fmt: skip


class InvalidBackupError(Exception):
    """The file is not a backup, is damaged, or is of a newer version."""


def restore_backup(source: Path, data_dir: Path, *, force: bool = False) -> dict[str, Any]:
    """Restore a database into a data directory that no server uses.

    Args:
        source: a backup, or a copy of a database that an upgrade made.
        data_dir: created if missing.
        force: replace a world that is there; it is kept beside, renamed.

    Returns:
        The manifest of the backup; of a copy, its schema. `replaced` is where the world that was
        there is kept.

    Raises:
        InvalidBackupError: if it is not a backup, is damaged, or of a newer version.
        FileExistsError: if a world exists, unless `force`.
        DataDirInUseError: if a server is running there.
        ForeignDataDirError: if the directory belongs to another user.
    """
    check_data_dir_owner(data_dir)
    source.open("rb").close()  # refused before the directory is touched
    data_dir_modes.make_data_dir_private(data_dir)
    target = data_dir / DATABASE_NAME
    with (
        data_dir_lock.lock_data_dir(data_dir),
        # Named as those of backups, which are deleted after a day if a process was killed.
        tempfile.TemporaryDirectory(dir=data_dir, prefix=WORK_PREFIX) as work,
    ):
        if target.exists() and not force:
            raise FileExistsError(f"{target} already exists. --force replaces it.")
        copy = Path(work) / DATABASE_NAME
        manifest = _unpack(source, copy)
        manifest["schema"] = _check_database(source, copy)
        manifest["replaced"] = str(_set_aside(target)) if target.exists() else None
        flush_file(copy)
        copy.replace(target)
        flush_file(data_dir)
    return manifest


def _unpack(source: Path, copy: Path) -> dict[str, Any]:
    """Write the database of a backup or a copy to a new file; return its manifest."""
    with source.open("rb") as file:
        if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            return _unpack_database(source, copy)
    try:
        copy_database(source, copy)
    except DamagedDatabaseError as error:
        raise InvalidBackupError(f"{source} is damaged: {error.__cause__}") from error
    return {"bytes": copy.stat().st_size}


def _set_aside(database: Path) -> Path:
    """Give a database that is replaced a second name; return that.

    It keeps its own until the new one takes it: after a crash there is a world, one or the other.
    """
    now = time.strftime("%Y%m%d-%H%M%S")
    kept = choose_free_name(database.with_name(f"world-replaced-{now}.db"))
    with (
        contextlib.suppress(sqlite3.DatabaseError),  # a damaged one is kept as it is
        contextlib.closing(sqlite3.connect(database)) as old_database,
    ):
        old_database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    give_name(database, kept)
    for suffix in data_dir_modes.LOG_SUFFIXES:  # only a damaged one has them still
        path = database.with_name(f"{database.name}{suffix}")
        if path.exists():
            path.rename(kept.with_name(f"{kept.name}{suffix}"))
    return kept


def _unpack_database(archive: Path, copy: Path) -> dict[str, Any]:
    """Read the two known entries and what little follows; write the database."""
    try:
        _check_headers(archive)
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
            check_room(copy.parent.parent, f"The database in {archive}", second.size)
            content = tar.extractfile(second)
            if content is None:
                raise InvalidBackupError(f"{archive} does not contain a database")
            _write_database(archive, content, copy, second.size)
            _check_end(tar)
    except (
        tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, RecursionError,
    ) as error:  # fmt: skip
        raise InvalidBackupError(f"{archive} is not a readable backup: {error}") from error
    if hash_file(copy) != manifest.get("sha256"):
        raise InvalidBackupError(f"{archive} is damaged: the checksum of its database is wrong")
    return manifest


def _check_headers(archive: Path) -> None:
    """Check the headers before tarfile does, which believes what they say.

    Raises:
        ValueError: if one is too long, has a size below zero, or is of another kind than those of
            backups; or if they are too many.
    """
    with gzip.open(archive) as file:
        for _ in range(MAX_HEADERS):
            block = file.read(tarfile.BLOCKSIZE)
            header = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
            is_extended = header.type in EXTENDED_HEADERS
            if header.size < 0 or not (is_extended or header.type in PLAIN_FILES):
                raise ValueError("an entry is no file")
            if header.name == DATABASE_NAME and not is_extended:
                return
            if is_extended and header.size > MAX_HEADER_BYTES:
                raise ValueError(
                    f"a header has {header.size} bytes, and the limit is {MAX_HEADER_BYTES}"
                )
            if not is_extended and header.size > MAX_MANIFEST_BYTES:
                raise ValueError("it does not begin with a manifest")
            content = file.read(-(-header.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
            if is_extended and SPARSE_MARK in content:
                raise ValueError("an entry is a sparse file")
    raise ValueError(f"it has more than {MAX_HEADERS} headers before its database")


def _write_database(archive: Path, content: IO[bytes], copy: Path, size: int) -> None:
    """Write the database to a file, if its header names its size.

    Raises:
        InvalidBackupError: if it does not begin as a database of that size does.
    """
    header = content.read(SQLITE_HEADER_BYTES)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if not header.startswith(SQLITE_MAGIC) or (65536 if page == 1 else page) * pages != size:
        raise InvalidBackupError(f"{archive} is damaged: what it contains is no database")
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(header)
        shutil.copyfileobj(content, file)


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


def _check_database(source: Path, copy: Path) -> str:
    """Return the schema of an unpacked database that this program can use.

    Raises:
        InvalidBackupError: if it is damaged, or of a newer version.
    """
    try:
        with contextlib.closing(sqlite3.connect(copy)) as database:
            _check_programs(source, database)
            revision = read_file_revision(database)
            verdict = str(database.execute("PRAGMA integrity_check").fetchone()[0])
            if verdict == "ok":
                verdict = _find_invalid_json(database)
    except sqlite3.DatabaseError as error:
        raise InvalidBackupError(f"The database in {source} is damaged: {error}") from error
    if verdict != "ok":
        raise InvalidBackupError(f"The database in {source} is damaged: {verdict}")
    if revision not in known_revisions():
        raise InvalidBackupError(
            f"{source} is of a newer version: its schema is {revision}, and this version knows"
            f" {newest_revision()}. Install that version to restore it. Nothing was changed."
        )
    return revision


def _check_programs(source: Path, database: sqlite3.Connection) -> None:
    """Check that a database contains no program: sshwarma's has none.

    Raises:
        InvalidBackupError: if it has a trigger, which changes data by itself.
    """
    trigger = database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchone()
    if trigger is not None:
        raise InvalidBackupError(f"{source} contains a trigger, as no backup of sshwarma does")


def _find_invalid_json(database: sqlite3.Connection) -> str:
    """Return which thing has metadata that cannot be read; "ok" if all can."""
    broken = database.execute(
        "SELECT id FROM things WHERE metadata IS NOT NULL AND NOT json_valid(metadata) LIMIT 1"
    ).fetchone()
    return "ok" if broken is None else f"the metadata of thing {broken[0]} is not JSON"
