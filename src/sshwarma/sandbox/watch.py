"""What the processes of a sandbox use, measured from outside.

The kernel's own limits hold for each process, or not for root at all; these are sums.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from sshwarma.common.limits import (
    MAX_SANDBOX_ALL_OPEN_FILES,
    MAX_SANDBOX_FILE_LOCKS,
    MAX_SANDBOX_FILE_WATCHES,
    MAX_SANDBOX_MEMORY_BYTES,
    MAX_SANDBOX_PROCESSES,
    MAX_SANDBOX_SOCKETS,
    MAX_SANDBOX_TCP_SOCKETS,
    MAX_SANDBOX_TEMPORARY_FILES,
    MAX_SANDBOX_TERMINALS,
    MAX_WORKSPACE_BYTES,
    MAX_WORKSPACE_ENTRIES,
    MIN_SANDBOX_FREE_BYTES,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.units import MIB
from sshwarma.sandbox.pause import PauseError, pause
from sshwarma.sandbox.processes import Usage, measure_processes

_LOOKS: Final = 3
"""Looks at processes that go on. Of some that begin and end all the time, one look in a few sees
all."""

_TEMPORARY_FOLDERS: Final = ("tmp", "dev/shm")

_SPAWN_SECONDS: Final = 0.02
"""Until a process that begins as a copy, such as of `vfork`, has memory of its own: until then its
parent's counts twice."""

_PAUSED_LOOKS: Final = 20
"""Looks at processes that are being stopped."""

_PAUSED_LOOK_SECONDS: Final = 0.005

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_MAX_DEPTH: Final = 64
"""Folders in each other: twice as many as a room may have."""

_UNREADABLE: Final = "it made a folder that cannot be read"

_SIZE_EXCESS: Final = with_limit("its files became too large", f"{MAX_WORKSPACE_BYTES // MIB} MiB")


def find_excess(init: int, folder: Path | None) -> str:
    """Return which limit the processes of a sandbox have passed, as a clause, or "".

    Memory that several share is counted once, where the kernel says how much that is.

    Args:
        init: the first process.
        folder: the workspace; None if it is in memory. Its open files that have no name any more
            count here, and its disk must not become full.
    """
    if folder is not None and shutil.disk_usage(folder).free < MIN_SANDBOX_FREE_BYTES:
        return "the disk of the server is nearly full"
    device = folder.stat().st_dev if folder is not None else None
    try:
        folders = _TEMPORARY_FOLDERS if folder is not None else (*_TEMPORARY_FOLDERS, "ws")
        root = Path(f"/proc/{init}/root")
        if root.samefile("/"):
            return ""  # it is still being made, and nothing foreign runs in it
        return (
            _find_kernel_excess(root, folders)
            or _find_socket_excess(Path(f"/proc/{init}"))
            or _find_process_excess(init, device)
        )
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended


def _find_kernel_excess(root: Path, folders: Sequence[str]) -> str:
    """Look at files in folders in memory, terminals, and locks: memory of the kernel.

    Raises:
        FileNotFoundError: if the sandbox has ended.
    """
    counts = [os.statvfs(root / folder) for folder in folders]
    if sum(count.f_files - count.f_ffree for count in counts) > MAX_SANDBOX_TEMPORARY_FILES:
        limit = f"{MAX_SANDBOX_TEMPORARY_FILES:,}"
        return with_limit("it made too many temporary files", limit)
    with os.scandir(root / "dev/pts") as terminals:
        if sum(1 for _ in terminals) > MAX_SANDBOX_TERMINALS + 1:  # one makes the others
            return with_limit("it opened too many terminals", MAX_SANDBOX_TERMINALS)
    with (root / "proc/locks").open("rb") as locks:  # those of other sandboxes are not in it
        if next(islice(locks, MAX_SANDBOX_FILE_LOCKS, None), b""):
            limit = f"{MAX_SANDBOX_FILE_LOCKS:,}"
            return with_limit("it locked too many parts of files", limit)
    return ""


def _find_socket_excess(process: Path) -> str:
    """Look at the sockets of a network, accepted and open or not.

    In the network of the machine, those of a sandbox are not told from others.

    Raises:
        FileNotFoundError: if the sandbox has ended.
    """
    if (process / "ns/net").samefile("/proc/self/ns/net"):
        return ""
    words = (process / "net/sockstat").read_text().split()
    with contextlib.suppress(FileNotFoundError):  # the machine has no IPv6
        words += (process / "net/sockstat6").read_text().split()
    # "sockets: used 3 TCP: inuse 1 orphan 0 ... TCP6: inuse 0 ..."
    counts = {name: int(words[n + 2]) for n, name in enumerate(words) if name.endswith(":")}
    if counts["sockets:"] > MAX_SANDBOX_SOCKETS:
        return with_limit("it opened too many sockets", f"{MAX_SANDBOX_SOCKETS:,}")
    if counts["TCP:"] + counts.get("TCP6:", 0) > MAX_SANDBOX_TCP_SOCKETS:
        return with_limit("it opened too many sockets of TCP", MAX_SANDBOX_TCP_SOCKETS)
    return ""


def _find_process_excess(init: int, device: int | None) -> str:
    """Look until no process has begun or ended meanwhile; else stop them first.

    Too much memory has to be seen at each look: a look may count some twice, and never too
    little.
    """
    for look in range(_LOOKS):
        usage = measure_processes(init, device)
        excess = _judge(usage)
        if usage.memory > MAX_SANDBOX_MEMORY_BYTES and look < _LOOKS - 1:
            time.sleep(_SPAWN_SECONDS)
        elif excess or usage.is_whole:
            return excess
    with contextlib.suppress(PauseError), pause(init) as is_paused:
        for _ in range(_PAUSED_LOOKS if is_paused else 0):
            usage = measure_processes(init, device)
            if (excess := _judge(usage)) or usage.is_whole:
                return excess
            time.sleep(_PAUSED_LOOK_SECONDS)
    return "its processes changed too fast to be measured"


def _judge(usage: Usage) -> str:
    if usage.tasks > MAX_SANDBOX_PROCESSES:
        return with_limit("it started too many processes and threads", MAX_SANDBOX_PROCESSES)
    if usage.memory > MAX_SANDBOX_MEMORY_BYTES:
        return with_limit("it used too much memory", f"{MAX_SANDBOX_MEMORY_BYTES // MIB} MiB")
    # The kernel keeps memory for each socket and pipe.
    if usage.descriptors > MAX_SANDBOX_ALL_OPEN_FILES:
        return with_limit("it opened too many files", f"{MAX_SANDBOX_ALL_OPEN_FILES:,}")
    if usage.watches > MAX_SANDBOX_FILE_WATCHES:
        return with_limit("it watched too many files", f"{MAX_SANDBOX_FILE_WATCHES:,}")
    return _SIZE_EXCESS if usage.nameless > MAX_WORKSPACE_BYTES else ""


def find_folder_excess(folder: Path) -> str:
    """Return which limit the files in a folder have passed, as a clause, or "".

    It goes from folder to folder by descriptors, because programs inside change what is there, and
    a path may be too long. Files that vanish meanwhile are left out.
    """
    try:
        top = os.open(folder, _FOLDER_FLAGS)
    except PermissionError:
        return _UNREADABLE
    except OSError:
        return ""
    walk = _Walk()
    try:
        walk.visit(top, 0)
    except _Excess as excess:
        return str(excess)
    finally:
        os.close(top)
    return ""


class _Excess(Exception):
    """A limit that was passed, as a clause."""


class _Walk:
    """Counts what is in folders."""

    def __init__(self) -> None:
        self._entries = 0
        self._size = 0

    def visit(self, folder: int, depth: int) -> None:
        """Count what is in an open folder.

        Raises:
            _Excess: if a limit is passed.
        """
        if depth > _MAX_DEPTH:
            raise _Excess(with_limit("it made folders in folders", _MAX_DEPTH))
        with os.scandir(folder) as found:
            for entry in found:
                try:
                    status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue  # it is gone
                self._count(status)
                if stat.S_ISDIR(status.st_mode):
                    self._enter(folder, entry.name, depth)

    def _enter(self, folder: int, name: str, depth: int) -> None:
        try:
            child = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        except PermissionError:
            raise _Excess(_UNREADABLE) from None
        except OSError:
            return
        try:
            self.visit(child, depth + 1)
        finally:
            os.close(child)

    def _count(self, status: os.stat_result) -> None:
        self._entries += 1
        if stat.S_ISREG(status.st_mode):
            # Blocks may be beyond the end (`fallocate -n`); one that is not full is no excess.
            self._size += max(status.st_size, 512 * status.st_blocks - status.st_blksize)
        if self._size > MAX_WORKSPACE_BYTES:
            raise _Excess(_SIZE_EXCESS)
        if self._entries > 2 * MAX_WORKSPACE_ENTRIES:  # folders with files are no entries
            raise _Excess(with_limit("it made too many files", f"{MAX_WORKSPACE_ENTRIES:,}"))
