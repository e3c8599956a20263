"""What the processes of a sandbox use, all together.

They are listed by the /proc that the sandbox itself has, which shows all of its process namespace:
from parent to child, one whose parent has ended in the meantime would be missed.
"""

from __future__ import annotations

import os
import select
import stat
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from sshwarma.common.limits import MAX_SANDBOX_FILE_WATCHES, MAX_SANDBOX_PROCESSES
from sshwarma.common.units import KIB

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_GONE: Final = (FileNotFoundError, ProcessLookupError)

_PARTS: Final = ("Pss:", "SwapPss:", "Private_Hugetlb:", "VmPTE:")
"""Lines of smaps_rollup and status: the memory of a process, its part of what it shares with
others, and its page tables."""

_EPOLL: Final = Path("anon_inode:[eventpoll]")


@dataclass(slots=True)
class Usage:
    """What processes use.

    Attributes:
        tasks: processes and threads; counted to just above MAX_SANDBOX_PROCESSES.
        memory: bytes.
        descriptors: open files, sockets and pipes.
        watches: files that are watched with epoll; counted to just above MAX_SANDBOX_FILE_WATCHES.
        nameless: bytes of open files of a device that have no name any more.
        is_whole: whether no process began or ended meanwhile: one could have passed its memory on
            to another that was not there yet, and have been gone itself when it was looked at.
    """

    tasks: int = 0
    memory: int = 0
    descriptors: int = 0
    watches: int = 0
    nameless: int = 0
    is_whole: bool = True
    seen: set[int] = field(default_factory=set)
    """Files without a name that were counted."""


def measure_processes(init: int, device: int | None) -> Usage:
    """Return what the processes of a sandbox use, whose first one is `init`.

    Args:
        init: the first process.
        device: where files without a name are counted.

    Raises:
        FileNotFoundError: if the sandbox has ended.
    """
    directory = f"/proc/{init}/root/proc"
    usage = Usage()
    before = _list_numbers(directory)
    for number in sorted(before, reverse=True):  # the newest may end first
        _add_process(usage, f"{directory}/{number}", device)
        if usage.tasks > MAX_SANDBOX_PROCESSES:
            return usage
    if _list_numbers(directory) != before:
        usage.is_whole = False
    return usage


def _add_process(usage: Usage, directory: str, device: int | None) -> None:
    """Add what a process uses.

    The first thread may have ended: then the memory and files are seen at the others alone. All
    have the same, because the filter of system calls lets no thread have files of its own.
    """
    try:
        threads = _list_numbers(f"{directory}/task")
    except _GONE:
        return
    usage.tasks += len(threads)
    for number in sorted(threads):
        thread = f"{directory}/task/{number}"
        memory = _measure_memory(thread)
        if memory is not None:
            usage.memory += memory
            _add_open(usage, thread, device)
            return
    if _count_threads(directory) > 1:  # all that were listed have ended
        usage.is_whole = False


def _add_open(usage: Usage, directory: str, device: int | None) -> None:
    """Add what a process has opened; nothing if that cannot be read."""
    try:
        numbers = _list_numbers(f"{directory}/fd")
    except OSError:  # it has ended, or is another user's
        return
    for number in numbers:
        try:
            status = Path(f"{directory}/fd/{number}").stat()
        except OSError:  # it was closed
            continue
        usage.descriptors += 1
        if status.st_dev == _find_anonymous_device():
            _add_watches(usage, directory, number)
        is_nameless = status.st_dev == device and status.st_nlink == 0
        if is_nameless and stat.S_ISREG(status.st_mode) and status.st_ino not in usage.seen:
            usage.seen.add(status.st_ino)
            usage.nameless += 512 * status.st_blocks


@cache
def _find_anonymous_device() -> int:
    """Return the device of what has no file, such as an epoll."""
    with select.epoll() as example:
        return os.fstat(example.fileno()).st_dev


def _add_watches(usage: Usage, directory: str, number: int) -> None:
    """Add what a descriptor watches, if it is an epoll; no more than the limit."""
    left = MAX_SANDBOX_FILE_WATCHES + 1 - usage.watches
    try:
        if left <= 0 or Path(f"{directory}/fd/{number}").readlink() != _EPOLL:
            return
        with Path(f"{directory}/fdinfo/{number}").open("rb") as lines:
            usage.watches += sum(1 for _ in islice(filter(_is_watch, lines), left))
    except OSError:  # it was closed
        return


def _is_watch(line: bytes) -> bool:
    return line.startswith(b"tfd:")


def _measure_memory(directory: str) -> int | None:
    """Return the bytes of a process and its part of shared ones; None if it ended.

    Page tables belong to a process, but are in no sum of its mappings.
    """
    try:
        lines = _read(f"{directory}/smaps_rollup").splitlines()
        lines += _read(f"{directory}/status").splitlines()
    except _GONE:
        return None
    except PermissionError:
        try:
            return int(_read(f"{directory}/statm").split()[1]) * _PAGE_BYTES
        except _GONE:
            return None
    return KIB * sum(int(line.split()[1]) for line in lines if line.startswith(_PARTS))


def _count_threads(directory: str) -> int:
    """Return how many threads a process has; one that has ended still has one."""
    try:
        return int(_read(f"{directory}/stat").rpartition(")")[2].split()[17])
    except _GONE:
        return 0


def _list_numbers(directory: str) -> set[int]:
    with os.scandir(directory) as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def _read(path: str) -> str:
    return Path(path).read_text("utf-8", errors="replace")
