"""Deletion of a folder that a program may have made as hard to delete as it can."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from sshwarma.workspaces.modes import open_up


def delete_tree(path: Path) -> None:
    """Delete a folder with all that is in it; one that does not exist is deleted.

    It is renamed first, so that its name is free at once. Folders may be thousands deep, or have
    no rights: their contents are moved to the top, so that no path becomes long.

    Raises:
        OSError: if the disk fails.
    """
    if not os.path.lexists(path):
        return
    old = path.with_name(f".deleted-{secrets.token_hex(8)}")
    path.rename(old)
    old.chmod(stat.S_IRWXU)
    top = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        while names := _list_names(top):
            for name in names:
                _delete_or_lift(top, name)
    finally:
        os.close(top)
    old.rmdir()


def delete_leftovers(directory: Path) -> None:
    """Delete what a server that was killed had not deleted yet."""
    for old in directory.glob(".deleted-*"):
        delete_tree(old)


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
