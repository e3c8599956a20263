"""The path on which a process was started, told to others by a memfd.

It is in a file in memory that a process keeps open beside its lock: it needs no disk, ends with the
process, and is found in /proc by the same user alone. The kernel's table of sockets does not prove
as much: it has those of all containers of a network, under names that mean another place in each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.files import identify_file

log = structlog.get_logger(__name__)

PROCESSES: Final = Path("/proc")

_NAME: Final = "sshwarma-data-dir"

_LINK: Final = f"/memfd:{_NAME}"
"""How the kernel shows such a file among those that a process has open."""


def publish_start_path(data_dir: Path) -> int | None:
    """Return the open file that tells others which directory this process uses.

    None where the system has no files in memory, or lets this process make none.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        handle = os.memfd_create(_NAME)
        os.write(handle, os.fsencode(data_dir.absolute()))
    except OSError as error:
        log.debug("others do not see the path of this process", reason=str(error))
        return None
    return handle


def is_start_path(data_dir: Path) -> bool:
    """Return whether a process of this user was started on this path, and still runs."""
    place = data_dir.resolve()
    return any(
        path.resolve() == place and _is_same_place(process, place)
        for process, path in _list_start_paths()
    )


def _list_start_paths() -> Iterator[tuple[Path, Path]]:
    """Yield each process of this user, in /proc, and where it was started."""
    user = os.geteuid()
    for process in PROCESSES.glob("[0-9]*"):
        try:
            if process.stat().st_uid != user:
                continue
            handles = list((process / "fd").iterdir())
        except OSError:  # it has ended, or has rights that we have not
            continue
        for handle in handles:
            try:
                if str(handle.readlink()).startswith(_LINK):
                    yield process, Path(os.fsdecode(handle.read_bytes()))
            except OSError:  # it is closed by now
                continue


def _is_same_place(process: Path, place: Path) -> bool:
    """Return whether a path means the same for another process.

    That may be in a container. What is at the path may be gone: the directories above it decide.
    """
    for folder in place.parents:
        ours, theirs = identify_file(folder), identify_file(process / "root" / f"./{folder}")
        if ours is not None or theirs is not None:
            return ours == theirs
    return False
