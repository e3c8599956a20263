"""Restore of a world from a backup, or from the copy that an upgrade kept.

Everything is checked before the world that is there is moved: the archive and its checksums, the
database, and that this program can use its schema.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from sshwarma.admin import data_dir_lock, data_dir_modes
from sshwarma.admin.backup_archive import (
    GZIP_MAGIC,
    SQLITE_MAGIC,
    InvalidBackupError,
    unpack_archive,
)
from sshwarma.admin.backup_files import adopt_blobs, find_missing_blobs
from sshwarma.admin.damaged_contents import list_uses, read_uses
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.database_copy import HEADER_BYTES, copy_database
from sshwarma.admin.lost_world import check_no_server_holds_it
from sshwarma.admin.owners_in_file import count_owners
from sshwarma.admin.replaced_world import delete_second_names, is_same_file, replace_database
from sshwarma.admin.restorable import UnusableCopyError, check_copy
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.common.files import store_on_disk
from sshwarma.settings import BLOBS_DIRECTORY, DATABASE_NAME
from sshwarma.workspaces.used_contents import read_sizes_in_file
from sshwarma.world.migrate import DamagedDatabaseError, known_revisions, newest_revision
from sshwarma.world.move_mark import delete_file_mark
from sshwarma.world.schema_check import (
    ForeignSchemaError,
)

JOURNAL_VERSIONS: Final = slice(18, 20)
"""Where SQLite's header says which versions may write and read the file."""

WAL_VERSIONS: Final = b"\2\2"
"""What stands there while changes go into a log first."""


def restore_backup(
    source: Path | IO[bytes], data_dir: Path, *, force: bool = False
) -> dict[str, Any]:
    """Restore a database into a data directory that no server uses.

    Args:
        source: a backup, or a copy of a database that an upgrade made; or standard input.
        data_dir: created if missing.
        force: replace a world that is there; it is kept beside, renamed.

    Returns:
        The manifest of the backup; of a copy, its schema. `missing_blobs` is how many contents of
        files are neither in it nor in the data directory, `missing_files` where the first are used,
        and `missing_uses` how many such uses there are. `without_log` is whether a copy
        may lack what its log had. `owners` is how many can log in, None
        of an older schema. `replaced` is where the world that was
        there is kept, and `replaced_logs` are those of one whose database was gone.

    Raises:
        InvalidBackupError: if it is not a backup, is damaged, or of a newer version.
        FileExistsError: if a world exists, unless `force`.
        OSError: if another program uses that world.
        FileNotFoundError: if there is no source; then the directory is not touched.
        DataDirInUseError: if a server is running there.
        HeldWorldError: if it has a database that is gone.
        ForeignDataDirError: if the directory belongs to another user.
    """
    check_data_dir_owner(data_dir)
    check_no_server_holds_it(data_dir / DATABASE_NAME)
    if not isinstance(source, Path):
        return _restore(source, data_dir, force=force)
    with source.open("rb") as opened:
        _refuse_second_name(source)
        # A pipe is read from here: its writer ends when it is closed.
        return _restore(source if source.is_file() else opened, data_dir, force=force)


def _restore(source: Path | IO[bytes], data_dir: Path, *, force: bool) -> dict[str, Any]:
    """Restore from a file or a stream; see `restore_backup`."""
    target = data_dir / DATABASE_NAME
    new = [path for path in (data_dir, *data_dir.parents) if not path.exists()]
    mode = None
    if data_dir.is_dir() and not any(data_dir.iterdir()):
        mode = stat.S_IMODE(data_dir.stat().st_mode)
        data_dir.chmod(0o700)  # nothing to warn of: it may get its mode back
    data_dir_modes.make_data_dir_private(data_dir)
    with (
        data_dir_lock.lock_data_dir(data_dir),
        _undo_after_failure(data_dir, new, mode),
        make_work_directory(data_dir) as work,
    ):
        delete_second_names(target)
        _refuse_link(target)
        if target.exists() and not force:
            raise FileExistsError(f"{target} already exists. --force replaces it.")
        name, source = name_source(source, work)
        copy = work / DATABASE_NAME
        blobs = work / BLOBS_DIRECTORY
        manifest = _unpack(source, name, copy, blobs)
        manifest["schema"] = _check_database(name, copy, work)
        manifest |= _describe_missing(name, copy, work, data_dir)
        is_newest = manifest["schema"] == newest_revision()
        manifest["owners"] = count_owners(copy) if is_newest else None
        adopt_blobs(blobs, data_dir)
        store_on_disk(copy)
        kept = replace_database(copy, target, work)
        delete_file_mark(target)  # of the world that was there
        manifest["replaced"] = str(kept.database) if kept.database is not None else None
        manifest["replaced_logs"] = [str(path) for path in kept.logs]
    return manifest


def _refuse_second_name(source: Path) -> None:
    """Refuse a world by the name of a copy.

    Raises:
        InvalidBackupError: if it is such a world.
    """
    if is_same_file(source, source.with_name(DATABASE_NAME)) and source.name != DATABASE_NAME:
        raise InvalidBackupError(
            f"{source} is the world {source.with_name(DATABASE_NAME)} by another name, which a"
            " restore that was killed has left. Delete that name. Nothing was changed."
        )


def name_source(source: Path | IO[bytes], work: Path) -> tuple[str, Path]:
    """Return what errors call a source, and its file, which a stream is read into."""
    if isinstance(source, Path):
        return str(source), source
    name = source.name if isinstance(source.name, str) else ""
    name = "standard input" if name in ("", "<stdin>") else name
    path = work / "backup"
    with path.open("xb") as file:
        begin = source.read(len(SQLITE_MAGIC))
        check_beginning(begin, name)  # before the rest, which may have no end
        file.write(begin)
        shutil.copyfileobj(source, file)
    return name, path


@contextlib.contextmanager
def _undo_after_failure(data_dir: Path, new: list[Path], mode: int | None) -> Iterator[None]:
    """Leave a locked directory as it was if a restore fails.

    Args:
        data_dir: the directory.
        new: directories that were made for it, the innermost first; they are deleted.
        mode: the one that it had before, if it was there and empty.
    """
    try:
        yield
    except BaseException:
        lock = data_dir / data_dir_lock.LOCK_NAME
        if (new or mode is not None) and list(data_dir.iterdir()) == [lock]:
            lock.unlink()
            for directory in new:
                directory.rmdir()
            if mode is not None:
                data_dir.chmod(mode)
        raise


def check_beginning(begin: bytes, name: str) -> None:
    """Refuse what begins neither as an archive nor as a database.

    Raises:
        InvalidBackupError: with what it should be.
    """
    if not begin:
        raise InvalidBackupError(
            f"{name} is empty. If it was made by a command, see what that printed."
        )
    if not begin.startswith(GZIP_MAGIC) and begin != SQLITE_MAGIC:
        raise InvalidBackupError(
            f"{name} is not a backup: it is neither an archive that sshwarma backup makes"
            " (.tar.gz) nor a copy of a database (world-before-NNNN.db)."
        )


def _refuse_link(target: Path) -> None:
    """Refuse to replace a link, whose database is elsewhere and has its log there.

    Raises:
        OSError: with what it names.
    """
    if target.is_symlink():
        raise OSError(
            f"{target} is a link to {target.readlink()}, and restore replaces no link. If that is"
            f" on a disk that is missing, mount it. Remove the link, which leaves what it names"
            " as it is, then restore again. Nothing was changed."
        )


def _unpack(source: Path, name: str, copy: Path, blobs: Path) -> dict[str, Any]:
    """Write the database of a backup or a copy to a new file; return its manifest."""
    with source.open("rb") as file:
        magic = file.read(len(SQLITE_MAGIC))
    check_beginning(magic, name)
    if magic.startswith(GZIP_MAGIC):
        return unpack_archive(source, name, copy, blobs)
    without_log = _lacks_log(source)  # before it is opened, which may make one
    try:
        copy_database(source, copy)
    except DamagedDatabaseError as error:
        raise InvalidBackupError(f"{name} is damaged: {error.__cause__}.") from error
    return {"bytes": copy.stat().st_size, "without_log": without_log}


def _lacks_log(database: Path) -> bool:
    """Return whether a database had a log while it was used, which is not beside it.

    That of a server that runs has new rows. Copies that upgrades and backups make have no log.
    """
    with database.open("rb") as file:
        header = file.read(HEADER_BYTES)
    has_log = os.path.lexists(f"{database}-wal")
    return header[JOURNAL_VERSIONS] == WAL_VERSIONS and not has_log


def _describe_missing(name: str, copy: Path, *directories: Path) -> dict[str, Any]:
    """Return how many contents are in no directory, and their uses.

    Raises:
        InvalidBackupError: if the database names one by something else than a hash.
    """
    try:
        missing = find_missing_blobs(read_sizes_in_file(copy), *directories)
        uses = read_uses(copy, missing) if missing else []
    except sqlite3.DatabaseError as error:
        raise InvalidBackupError(
            f"The database in {name} cannot be used: {error}. Nothing was changed."
        ) from error
    return {
        "missing_blobs": len(missing),
        "missing_uses": len(uses),
        "missing_files": list_uses(uses),
    }


def _check_database(name: str, copy: Path, work: Path) -> str:
    """Return the schema of an unpacked database that this program can use.

    Raises:
        InvalidBackupError: if no server could use it, or it is of a newer version.
    """
    try:
        revision = check_copy(copy, work)
    except UnusableCopyError as error:
        raise InvalidBackupError(
            f"The database in {name} cannot be used: {error}. Nothing was changed."
        ) from error
    except sqlite3.DatabaseError as error:
        raise InvalidBackupError(f"The database in {name} is damaged: {error}.") from error
    except ForeignSchemaError as error:
        raise InvalidBackupError(
            f"The database in {name} is not one of sshwarma: {error}. Nothing was changed."
        ) from error
    if revision not in known_revisions():
        raise InvalidBackupError(
            f"{name} is of a newer version: its schema is {revision}, and this version"
            f" knows {newest_revision()}. Install that version to restore it. Nothing was"
            " changed."
        )
    return revision
