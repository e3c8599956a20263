"""The worlds whose servers run on this machine, found by their control sockets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sshwarma.admin.control_client import SOCKET_NAME
from sshwarma.settings import DATABASE_NAME
from sshwarma.world.move_mark import MARK_NAME

SOCKETS: Final = Path("/proc/net/unix")
"""The kernel's table of Unix sockets; its last column is the name of a bound one."""

PATH_COLUMN: Final = 7


def find_running_worlds() -> list[Path]:
    """Return the data directories of servers that this user may operate.

    Servers of other users, of containers, and those whose directory has over 90 bytes are not
    found; on systems without /proc, none is.
    """
    try:
        table = os.fsdecode(SOCKETS.read_bytes())
    except OSError:
        return []
    found = set()
    for line in table.splitlines()[1:]:
        columns = line.split(maxsplit=PATH_COLUMN)
        if len(columns) <= PATH_COLUMN:
            continue
        path = Path(columns[PATH_COLUMN])
        if path.name == SOCKET_NAME and path.is_absolute() and _is_ours(path):
            found.add(path.parent)
    return sorted(found)


def _is_ours(path: Path) -> bool:
    """Return whether a socket is this user's; root sees those of all users.

    Another user's socket, open to all, would be a trap. A world has one owner: its directory, its
    socket, and its file or the note that it is on PostgreSQL belong to the same user.
    """
    database, note = path.with_name(DATABASE_NAME), path.with_name(MARK_NAME)
    try:
        place = database if os.path.lexists(database) else note
        owners = {one.lstat().st_uid for one in (path, path.parent, place)}
    except OSError:
        return False
    return len(owners) == 1 and (os.geteuid() == 0 or os.geteuid() in owners)
