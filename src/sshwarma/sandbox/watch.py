"""What the processes of a sandbox use, measured from outside.

The kernel's own limits hold for each process, or not for root at all; these are sums.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from sshwarma.common.limits import (
    MAX_SANDBOX_MEMORY_BYTES,
    MAX_SANDBOX_PROCESSES,
    MAX_WORKSPACE_BYTES,
    MAX_WORKSPACE_ENTRIES,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.units import KIB, MIB

_PROCESSES: Final = Path("/proc")

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def find_excess(init: int) -> str:
    """Return which limit the processes of a sandbox have passed, as a clause, or "".

    Memory that several share is counted once, where the kernel says how much that is.
    """
    # Those of a program that starts them without end are never all measured.
    pids = list(islice(_list_tree(init), MAX_SANDBOX_PROCESSES + 1))
    if len(pids) > MAX_SANDBOX_PROCESSES:
        return with_limit("it started too many processes", MAX_SANDBOX_PROCESSES)
    if sum(map(_measure_memory, pids)) > MAX_SANDBOX_MEMORY_BYTES:
        return with_limit("it used too much memory", f"{MAX_SANDBOX_MEMORY_BYTES // MIB} MiB")
    return ""


def find_folder_excess(folder: Path) -> str:
    """Return which limit the files in a folder have passed, as a clause, or "".

    What cannot be read is left out: programs inside may change it at the same time.
    """
    entries = size = 0
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    entries += 1
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(Path(entry.path))
                    elif stat.S_ISREG(status.st_mode):
                        size += status.st_size
                    if size > MAX_WORKSPACE_BYTES:
                        limit = f"{MAX_WORKSPACE_BYTES // MIB} MiB"
                        return with_limit("its files became too large", limit)
                    if entries > 2 * MAX_WORKSPACE_ENTRIES:  # folders with files are no entries
                        return with_limit("it made too many files", f"{MAX_WORKSPACE_ENTRIES:,}")
        except OSError:
            continue
    return ""


def _list_tree(init: int) -> Iterator[int]:
    """Yield the processes of a sandbox; one that ends meanwhile may be left out."""
    waiting = [init]
    while waiting:
        pid = waiting.pop()
        yield pid
        try:
            for thread in os.scandir(_PROCESSES / str(pid) / "task"):
                children = Path(thread.path, "children").read_text("ascii")
                waiting += map(int, children.split())
        except (FileNotFoundError, ProcessLookupError):
            continue


def _measure_memory(pid: int) -> int:
    """Return the bytes of a process, and its part of what it shares with others."""
    directory = _PROCESSES / str(pid)
    try:
        for line in (directory / "smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended
    except PermissionError:
        try:
            return int((directory / "statm").read_text("ascii").split()[1]) * _PAGE_BYTES
        except (FileNotFoundError, ProcessLookupError):
            return 0
    return 0
