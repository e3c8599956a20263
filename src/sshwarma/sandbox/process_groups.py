"""Control groups that limit the processes of sandboxes of a server that is root.

The limit of a process on its user's processes (RLIMIT_NPROC) does not bind root, also not in a
sandbox without capabilities. A program that starts others without end would keep both processors
and all memory before a look from outside (`watch.py`) comes to its turn: it took a machine with two
processors six minutes to end 20,000 processes.

cgroups(7) of both versions are known: a machine has the controller `pids` in one of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sshwarma.common.limits import MAX_SANDBOX_PROCESSES

_MOUNTS: Final = Path("/proc/self/mountinfo")
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_CONTROLLER: Final = "pids"


@dataclass(frozen=True, slots=True)
class ProcessGroups:
    """Makes a group for each sandbox of a server.

    Attributes:
        parent: the group in which they are made.
        prefix: what their names begin with, as those of no other server do.
    """

    parent: Path
    prefix: str
    _numbers: itertools.count[int] = field(default_factory=itertools.count, compare=False)

    def add(self, process: int) -> Path:
        """Limit a process and all that it will start; return its group.

        It takes a tenth of a millisecond, and some 20 ms if the kernel waits for other processors.

        Raises:
            OSError: if it cannot be limited.
        """
        group = self.parent / f"{self.prefix}-{os.getpid()}-{next(self._numbers)}"
        group.mkdir()
        try:
            (group / "pids.max").write_text(f"{MAX_SANDBOX_PROCESSES}\n")
            (group / "cgroup.procs").write_text(f"{process}\n")
        except OSError:
            remove_group(group)
            raise
        return group

    def remove_leftovers(self) -> None:
        """Remove the groups of a server that was killed, in which nothing runs."""
        for group in self.parent.glob(f"{self.prefix}-*"):
            remove_group(group)


def remove_group(group: Path) -> None:
    """Remove a group whose processes have ended; one that still has some stays."""
    with contextlib.suppress(OSError):
        group.rmdir()


def find_process_groups(
    prefix: str, mounts: Path = _MOUNTS, own_groups: Path = _OWN_GROUPS
) -> ProcessGroups | None:
    """Return where a server that runs as root can limit processes; None if nowhere.

    In the second version, groups with processes have none below them, so they are made beside the
    group of the server.

    Args:
        prefix: what the names of the groups begin with.
        mounts: where the kernel lists what is mounted.
        own_groups: where it lists the groups of the server.
    """
    with contextlib.suppress(OSError):
        for version, parent in _list_parents(mounts, own_groups):
            if version == 2 and not _enable(parent):
                continue
            if os.access(parent, os.W_OK):
                return ProcessGroups(parent, prefix)
    return None


def _list_parents(mounts: Path, own_groups: Path) -> list[tuple[int, Path]]:
    """Return the groups in which others could be made, with the version of each."""
    paths = {}
    for line in own_groups.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    found = []
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split(" ")[3:5]
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2" and "" in paths:
            own = _place(paths[""], root, mount_point)
            found.append((2, own if own == Path(mount_point) else own.parent))
        elif kind == "cgroup" and _CONTROLLER in options.split(","):
            names = (name for name in paths if _CONTROLLER in name.split(","))
            found += [(1, _place(paths[name], root, mount_point)) for name in names]
    return found


def _place(path: str, root: str, mount_point: str) -> Path:
    """Return where the group of a path is, if what is mounted begins at `root`."""
    with contextlib.suppress(ValueError):
        return Path(mount_point) / Path(path).relative_to(root)
    return Path(mount_point)


def _enable(parent: Path) -> bool:
    """Let groups below one of the second version limit processes, if possible."""
    switch = parent / "cgroup.subtree_control"
    if _CONTROLLER in switch.read_text().split():
        return True
    try:
        switch.write_text(f"+{_CONTROLLER}\n")
    except OSError:
        return False
    return True
