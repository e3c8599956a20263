"""The owner of a data directory: only that user's processes use its files.

A file that root creates beside a service cannot be opened by the service any more.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sshwarma.common.reported_error import ReportedError
from sshwarma.settings import DATABASE_NAME

NUMBER_MARK: Final = "\\#"
"""What sudo wants before the number of a user, as a shell reads it."""

PROGRAM: Final = "sshwarma"

PROCESSES: Final = Path("/proc")

OWN_NAMES: Final = re.compile(r"world|backups|ssh_host|operator|control|sshwarma|\.sshwarma")
"""How the names begin of what the program makes in a data directory."""

NOBODY_LOGGED_IN: Final = 2**32 - 1
"""What the kernel says of a process that no login has started, such as a service."""


class ForeignDataDirError(ReportedError):
    """A data directory, or a file in it, belongs to another user."""


def check_data_dir_owner(data_dir: Path) -> None:
    """Check that this user owns a data directory and what the program makes in it.

    Others may put files beside, and a file system has its `lost+found`. Nothing is opened or
    changed. A directory that does not exist is not foreign.

    Raises:
        ForeignDataDirError: with both users and the way out.
    """
    user = os.geteuid()
    try:
        owner = data_dir.stat().st_uid
        if owner != user:
            raise ForeignDataDirError(_describe_foreign_directory(data_dir, owner))
        with os.scandir(data_dir) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                owner = entry.stat(follow_symlinks=False).st_uid
                if owner != user and OWN_NAMES.match(entry.name):
                    raise ForeignDataDirError(_describe_foreign_file(data_dir, entry.name, owner))
    except FileNotFoundError:
        return
    except PermissionError:
        raise ForeignDataDirError(
            f"You are {name_user(user)}, who may not open the directory {data_dir}."
            " Run the command as the user that the server runs as."
        ) from None


def name_user(uid: int) -> str:
    """Return the name of a user, or `user 1234` if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def name_process_user(pid: int, uid: int) -> str:
    """Return the user of a process, with the one who logged in, if that is another.

    After `sudo -u sshwarma` that is "sshwarma (alice)". The kernel keeps who has logged in; a
    process cannot change it.
    """
    user = name_user(uid)
    try:
        login = int((PROCESSES / str(pid) / "loginuid").read_text())
    except (OSError, ValueError):  # not this system's, or of a process that we may not see
        return user
    return user if login in (uid, NOBODY_LOGGED_IN) else f"{user} ({name_user(login)})"


def _describe_foreign_directory(data_dir: Path, owner: int) -> str:
    facts = f"The directory {data_dir} belongs to {name_user(owner)}, and you are"
    facts = f"{facts} {name_user(os.geteuid())}."
    if owner == 0 and not (data_dir / DATABASE_NAME).exists():  # such as /etc
        return f"{facts} Choose a directory of your own with --data-dir DIR."
    if owner == 0:
        return f"{facts} Give it to the user that runs the server: chown -R USER {data_dir}"
    return f"{facts} Run the command as that user: {_describe_command(data_dir, owner)}"


def describe_new_world(data_dir: Path) -> str:
    """Return how a world is made in a directory that has none, and as which user."""
    try:
        owner = data_dir.stat().st_uid
    except OSError:  # it does not exist, or somewhere above it is closed to this user
        owner = os.geteuid()
    if owner == os.geteuid():
        return f"Make one with: sshwarma init --data-dir {shlex.quote(str(data_dir))}"
    facts = f"It belongs to {name_user(owner)}, and you are {name_user(os.geteuid())}."
    if owner == 0:
        return f"{facts} Choose a directory of your own with --data-dir DIR."
    command = _describe_command(data_dir, owner, ["init"])
    return f"{facts} Make one as that user: {command}"


def _describe_command(data_dir: Path, user: int, words: Sequence[str] = ()) -> str:
    """Return a command, or that of this process, as another user types it."""
    program = Path(sys.argv[0]).absolute()
    if program.name == PROGRAM:
        words = [str(program), *(words or sys.argv[1:])]
    else:
        words = [PROGRAM, *(words or ["..."])]
    variable = f"SSHWARMA_DATA_DIR={shlex.quote(str(data_dir))}"
    name = name_or_number(user, NUMBER_MARK)
    # Root needs no sudo, which not every machine has; runuser takes no numbers.
    is_root = os.geteuid() == 0 and not name.startswith(NUMBER_MARK)
    run_as = f"runuser -u {name} --" if is_root else f"sudo -u {name}"
    return f"{run_as} env {variable} {shlex.join(words)}"


def _describe_foreign_file(data_dir: Path, name: str, owner: int) -> str:
    user = os.geteuid()
    return (
        f"{data_dir / name} belongs to {name_user(owner)}, its directory to {name_user(user)}."
        f" Give it back: chown -R {name_or_number(user, '')} {data_dir}"
    )


def name_or_number(uid: int, mark: str) -> str:
    """Return the name of a user, or its number after a mark, for a command."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"{mark}{uid}"
