"""File modes of the data directory: nobody but its owner may read a world."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Final

import structlog

from sshwarma.admin.data_dir_lock import (
    LOCK_NAME,
    check_no_server_was_moved,
    warn_of_unproved_server,
)
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.settings import DATABASE_NAME

log = structlog.get_logger(__name__)

WORLD_NAMES: Final = frozenset({DATABASE_NAME, LOCK_NAME})
"""Files that only a data directory has: the database, or the lock of a start that made none."""

PREPARED_NAMES: Final = re.compile(
    r"ssh_host_ed25519_key.*|operator_ed25519.*|sshwarma\.toml|world-(before|replaced|rescued)-.*"
    r"|world\.db-(wal|shm|journal)|backups|mcp|models|lost\+found|\..*"
)
"""What may be in a directory before its first start, if nothing else is: what was moved there, and
the hidden files of a home directory."""

LOG_SUFFIXES: Final = ("-wal", "-journal")
"""Endings of the logs beside a database: of new changes, and of a change that must be undone."""

SHARED_MEMORY_SUFFIX: Final = "-shm"
"""Ending of the index of the log, which SQLite makes again."""

DATABASE_SUFFIXES: Final = ("", *LOG_SUFFIXES, SHARED_MEMORY_SUFFIX)
"""Endings of the files of the database; SQLite gives later ones the mode of the first."""

OPERATOR_KEY_NAME: Final = "operator_ed25519"
"""The private key that the first start makes for an operator without one."""


def make_data_dir_private(data_dir: Path) -> None:
    """Deny other users the data directory, even if it existed with a wider mode.

    Raises:
        ForeignDataDirError: if it belongs to another user; then nothing is touched.
        DataDirInUseError: if the directory of a running server was moved away from there.
        OSError: if users share it, or it has other files and none of a world; likewise.
    """
    check_data_dir_owner(data_dir)
    _check_purpose(data_dir)
    if not (data_dir / DATABASE_NAME).exists():
        check_no_server_was_moved(data_dir)
        warn_of_unproved_server(data_dir)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (data_dir, data_dir / OPERATOR_KEY_NAME):
        if path.exists() and _remove_access_of_others(path):
            log.warning("access of other users was removed", path=str(path))


def _check_purpose(data_dir: Path) -> None:
    """Refuse a directory that has another purpose, such as /tmp or /opt."""
    if not data_dir.exists():
        return
    names = {path.name for path in data_dir.iterdir()}
    if names and data_dir.stat().st_mode & stat.S_ISVTX:  # a new file system in memory has it, too
        raise OSError(f"{data_dir} is shared by users. Choose another with --data-dir DIR.")
    foreign = [name for name in sorted(names) if not PREPARED_NAMES.fullmatch(name)]
    if foreign and not names & WORLD_NAMES:
        raise OSError(
            f"{data_dir} contains {foreign[0]!r} and no world. Choose an empty directory with"
            " --data-dir DIR."
        )


def make_database_private(database: Path) -> None:
    """Deny other users access to the database files."""
    for suffix in DATABASE_SUFFIXES:
        path = database.with_name(f"{database.name}{suffix}")
        if path.exists():
            _remove_access_of_others(path)


def _remove_access_of_others(path: Path) -> bool:
    """Return whether others had access until now."""
    mode = path.stat().st_mode & 0o777
    if not mode & 0o077:
        return False
    try:
        path.chmod(mode & 0o700)
    except OSError as error:
        log.warning("other users can read it", path=str(path), error=error.strerror)
        return False
    return True
