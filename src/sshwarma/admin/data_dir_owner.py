"""The owner of a data directory: only that user's processes use its files.

A file that root creates beside a service cannot be opened by the service any more.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sshwarma.common.reported_error import ReportedError
from sshwarma.common.user_names import name_user
from sshwarma.settings import DATABASE_NAME

NUMBER_MARK: Final = "\\#"
"""What sudo wants before the number of a user, as a shell reads it."""

PROGRAM: Final = "sshwarma"

PROCESSES: Final = Path("/proc")

WORLD_FOLDERS: Final = re.compile(r"(?:blobs|cache|toolsets|workspaces)$")
"""Names of folders with what rooms have, which may be links to another disk."""

OWN_NAMES: Final = re.compile(
    rf"world|backups|ssh_host|operator|control|sshwarma|\.sshwarma|{WORLD_FOLDERS.pattern}"
)
"""How the names begin of what the program makes in a data directory, or what they are."""

NOBODY_LOGGED_IN: Final = 2**32 - 1
"""What the kernel says of a process that no login has started, such as a service."""


class ForeignDataDirError(ReportedError):
    """A data directory, or a file in it, that this user cannot use.

    It is another user's, or its mode does not let them.

    Attributes:
        finding: what is wrong, as a sentence.
        remedy: what makes it right, as a sentence.
        is_foreign: whether the directory itself is another user's.
    """

    def __init__(self, finding: str, remedy: str, *, is_foreign: bool = False) -> None:
        super().__init__(f"{finding} {remedy}")
        self.finding = finding
        self.remedy = remedy
        self.is_foreign = is_foreign


def check_data_dir_owner(data_dir: Path) -> None:
    """Check that this user owns, and can use, a data directory and what it has.

    Others may put files beside, and a file system has its `lost+found`. Nothing is opened or
    changed. A directory that does not exist is not foreign.

    Raises:
        ForeignDataDirError: with both users, or the mode, and the way out.
    """
    user = os.geteuid()
    try:
        status = data_dir.stat()
        if status.st_uid != user:
            raise _foreign_directory_error(data_dir, status.st_uid)
        _check_mode(data_dir, status)
        with os.scandir(data_dir) as entries:
            own = [entry for entry in entries if OWN_NAMES.match(entry.name)]
        for entry in sorted(own, key=lambda entry: entry.name):
            status = entry.stat(follow_symlinks=bool(WORLD_FOLDERS.match(entry.name)))
            if status.st_uid != user:
                raise _foreign_file_error(data_dir, entry.name, status.st_uid)
            if stat.S_ISDIR(status.st_mode) or entry.name == DATABASE_NAME:
                _check_mode(Path(entry.path), status)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ForeignDataDirError(
            f"A part of the path {data_dir} is a file.", "Choose another with --data-dir DIR."
        ) from None
    except PermissionError:
        raise ForeignDataDirError(
            f"You are {name_user(user)}, who may not open the directory {data_dir}.",
            "Run the command as the user that the server runs as.",
            is_foreign=True,
        ) from None


def _check_mode(path: Path, status: os.stat_result) -> None:
    """Check that a mode lets this user use a file or directory; root needs none."""
    if stat.S_ISREG(status.st_mode):
        bits, access, change = 0o600, os.R_OK | os.W_OK, "u+rw"
    elif stat.S_ISDIR(status.st_mode):
        bits, access, change = 0o700, os.R_OK | os.W_OK | os.X_OK, "u+rwx"
    else:
        return
    if status.st_mode & bits != bits and not os.access(path, access, effective_ids=True):
        mode = stat.S_IMODE(status.st_mode)
        raise ForeignDataDirError(
            f"The mode of {path} is {mode:04o}, with which it cannot be used.",
            f"Run: chmod {change} {shlex.quote(str(path))}",
        )


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


def _foreign_directory_error(data_dir: Path, owner: int) -> ForeignDataDirError:
    facts = f"The directory {data_dir} belongs to {name_user(owner)}, and you are"
    facts = f"{facts} {name_user(os.geteuid())}."
    if owner == 0 and not (data_dir / DATABASE_NAME).exists():  # such as /etc
        remedy = "Choose a directory of your own with --data-dir DIR."
    elif owner == 0:
        remedy = f"Give it to the user that runs the server: chown -R USER {data_dir}"
    else:
        remedy = f"Run the command as that user: {_describe_command(data_dir, owner)}"
    return ForeignDataDirError(facts, remedy, is_foreign=True)


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


def _foreign_file_error(data_dir: Path, name: str, owner: int) -> ForeignDataDirError:
    user = os.geteuid()
    return ForeignDataDirError(
        f"{data_dir / name} belongs to {name_user(owner)}, its directory to {name_user(user)}.",
        f"Give it back: chown -R {name_or_number(user, '')} {data_dir}",
    )


def name_or_number(uid: int, mark: str) -> str:
    """Return the name of a user, or its number after a mark, for a command."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"{mark}{uid}"
