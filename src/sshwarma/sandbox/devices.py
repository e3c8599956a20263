"""Device files for the sandboxes of a server that runs as root.

Bubblewrap mounts those of the machine, and can mount none read-only. They belong to root, and the
owner of a file may change its mode: a program of a root server, though without any capability,
could make /dev/null useless for the machine. So it gets device files that belong to nobody.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from sshwarma.sandbox.bubblewrap import SandboxObstacle

DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
"""Devices in /dev inside."""

NOBODY: Final = 65534
"""The user and group that they belong to, whom no program runs as."""

_MODE: Final = 0o666


def make_devices(directory: Path) -> SandboxObstacle | None:
    """Make device files in a directory, if they are missing; return why it cannot be."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        for name in DEVICES:
            _make_device(directory / name, Path("/dev", name).stat().st_rdev)
        with (directory / "null").open("wb") as null:
            null.write(b"x")
    except OSError as error:
        return SandboxObstacle(
            "the server runs as root, and cannot make device files that do not belong to root:"
            f" {error.strerror}",
            "run the server as another user",
        )
    return None


def _make_device(path: Path, number: int) -> None:
    if os.path.lexists(path) and _is_right(path.lstat(), number):
        return
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        os.mknod(made, stat.S_IFCHR, number)
        os.chown(made, NOBODY, NOBODY)
        made.chmod(_MODE)  # mknod applies the umask
        made.replace(path)


def _is_right(found: os.stat_result, number: int) -> bool:
    wanted = (stat.S_IFCHR | _MODE, number, NOBODY, NOBODY)
    return (found.st_mode, found.st_rdev, found.st_uid, found.st_gid) == wanted
