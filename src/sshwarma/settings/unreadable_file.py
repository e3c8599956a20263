"""Settings files that the server may not read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sshwarma.common.user_names import name_user


def describe_unreadable_file(path: Path) -> str:
    """Return who cannot read a settings file, and what mode it has."""
    try:
        status = path.stat()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    owner, user = (name_user(uid) for uid in (status.st_uid, os.geteuid()))
    return (
        f"{path} cannot be read by {user}: it is a file of {owner} with mode"
        f" {stat.S_IMODE(status.st_mode):04o}. Give it the group of the server and mode 0640"
    )
