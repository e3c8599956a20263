"""Deletion of a folder that a program may have made as hard to delete as it can."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.finish import StoppedError, check_stop
from sshwarma.workspaces.modes import open_up

_PREFIX: Final = ".deleted-"

log = structlog.get_logger(__name__)


def set_aside(path: Path, directory: Path | None = None) -> Path | None:
    """Rename a folder, so that its name is free at once, for `delete_leftovers`.

    Args:
        path: the folder.
        directory: where it is then (default: where it was).

    Returns:
        Where it is now; None if it does not exist.

    Raises:
        OSError: if the disk fails.
    """
    if not os.path.lexists(path):
        return None
    return path.rename((directory or path.parent) / f"{_PREFIX}{secrets.token_hex(8)}")


def is_set_aside(path: Path) -> bool:
    """Return whether a folder was renamed by `set_aside`."""
    return path.name.startswith(_PREFIX)


def list_set_aside(directory: Path) -> list[Path]:
    """Return what was set aside there, and the rest of deletions that were killed."""
    return list(directory.glob(f"{_PREFIX}*"))


def delete_tree(path: Path, stop: threading.Event | None = None) -> None:
    """Delete a folder with all that is in it; one that does not exist is deleted.

    It is renamed first, so that its name is free at once. Folders may be thousands deep, or have
    no rights: their contents are moved to the top, so that no path becomes long.

    `stop` ends it early; `delete_leftovers` deletes the rest.

    Raises:
        OSError: if the disk fails.
    """
    old = set_aside(path)
    if old is None:
        return
    old.chmod(stat.S_IRWXU)
    top = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        while names := _list_names(top):
            for name in names:
                check_stop(stop)
                _delete_or_lift(top, name)
    finally:
        os.close(top)
    old.rmdir()


def delete_leftovers(directory: Path, stop: threading.Event | None = None) -> None:
    """Delete what was set aside, and the rest of deletions that were killed.

    Args:
        directory: where the folders were.
        stop: ends it early; the rest stays for the next time.
    """
    with contextlib.suppress(StoppedError):
        for old in list_set_aside(directory):
            delete_tree(old, stop)


@contextlib.asynccontextmanager
async def deleting_leftovers(directory: Path) -> AsyncIterator[None]:
    """Delete leftovers beside what is done in the context; stop that at its end."""
    stop = threading.Event()

    def delete() -> None:
        try:
            delete_leftovers(directory, stop)
        except OSError as error:
            log.error("old folders were not deleted", reason=str(error))

    deleting = asyncio.create_task(asyncio.to_thread(delete), name="old folders")
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait({deleting})


def _list_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _delete_or_lift(top: int, name: str) -> None:
    """Delete a file; empty a folder into the top, then delete it."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return
    open_up(name, top)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in _list_names(folder):
            if stat.S_ISDIR(os.stat(child, dir_fd=folder, follow_symlinks=False).st_mode):
                # To move a folder, one must be able to write in it: its entry .. changes.
                open_up(child, folder)
                os.rename(child, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
            else:
                os.unlink(child, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
