"""The lock that keeps a data directory to one process.

It is on the directory itself, so that nobody breaks it by deleting a file, and on a file in it:
older versions look at that alone, and some file systems lock no directories.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import IO, Final, Self

import structlog

from sshwarma.admin.control_client import SOCKET_NAME
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.start_path import is_start_path, publish_start_path
from sshwarma.common.files import NamedFile
from sshwarma.common.reported_error import ReportedError

log = structlog.get_logger(__name__)

LOCK_NAME: Final = "sshwarma.lock"

OTHERS: Final = 0o077
"""The bits of a mode for other users: who can read a lock can hold it, too."""

NO_DIRECTORY_LOCKS: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
)
"""What file systems answer that lock files and no directories, such as NFS."""

SERVER_MARK: Final = (1, 1)
"""Length and start of the bytes that a server locks in the file while commands can reach it.

That is a lock of POSIX, beside the one that keeps others out: it needs no room on the disk, and
ends with the process.
"""


_SOCKETS: Final = Path("/proc/net/unix")

_LISTENING: Final = b" 00010000 "
"""Flags of a socket there that takes connections."""


class DataDirInUseError(ReportedError):
    """Another process uses the data directory."""


class MovedServerError(DataDirInUseError):
    """A server runs whose directory was moved away.

    Attributes:
        finding: what is wrong, without a final stop.
        remedy: what makes it right, for `sshwarma doctor`.
    """

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding}. {remedy[0].upper()}{remedy[1:]}.")
        self.finding = finding
        self.remedy = remedy


LOCK_WAIT_SECONDS: Final = 5.0
"""Seconds that a command waits for others: most take a fraction of one."""

_LOCK_LOOK_SECONDS: Final = 0.1


class DataDirLock:
    """The lock of a data directory, held until it is closed."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._directory = _lock_directory(data_dir)
        try:
            self._file = _lock_file(data_dir)
        except BaseException:
            os.close(self._directory)
            raise
        self._named_directory = NamedFile(data_dir, self._directory)
        self._named_file = self._name_file()
        self._start_path = publish_start_path(data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the directory."""
        self._file.close()
        os.close(self._directory)
        if self._start_path is not None:
            os.close(self._start_path)

    def mark_server(self, *, is_reachable: bool) -> None:
        """Mark the lock as that of a server which commands reach by its socket, or not.

        It is for messages alone: file systems that cannot, and a command that looks at the mark in
        this moment, do no harm.
        """
        kind = fcntl.LOCK_EX | fcntl.LOCK_NB if is_reachable else fcntl.LOCK_UN
        with contextlib.suppress(OSError):
            fcntl.lockf(self._file, kind, *SERVER_MARK)

    def is_in_place(self) -> bool:
        """Return whether the directory still has its name."""
        return not self._named_directory.is_lost

    def replace_file(self) -> bool:
        """Make and lock the file again if it was deleted; return whether it was.

        A file that has replaced it is locked, too.

        Raises:
            OSError: if it cannot be made.
            DataDirInUseError: if another process has locked the file that is there now.
        """
        if not self.is_in_place() or not self._named_file.is_lost:
            return False
        new = _lock_file(self._data_dir)
        self._file.close()
        self._file = new
        self._named_file = self._name_file()
        return True

    def _name_file(self) -> NamedFile:
        return NamedFile(self._data_dir / LOCK_NAME, self._file.fileno())


def lock_data_dir(data_dir: Path) -> DataDirLock:
    """Lock the data directory for this process until the returned lock is closed.

    Raises:
        ForeignDataDirError: if it belongs to another user; then nothing is touched.
        DataDirInUseError: if another process holds it.
    """
    check_data_dir_owner(data_dir)
    return DataDirLock(data_dir)


def check_no_server_was_moved(data_dir: Path) -> None:
    """Check that no server runs whose directory had this path before it was moved.

    Raises:
        MovedServerError: with what to do.
    """
    if not _is_held_in_place(data_dir) and is_start_path(data_dir):
        raise MovedServerError(
            f"A server that was started on {data_dir} is running, but the directory was moved or"
            " deleted",
            "move it back; or stop that server before you make a new world there",
        )


def warn_of_unproved_server(data_dir: Path) -> None:
    """Log a warning if it only looks as if a server was moved away from this path.

    It may be one that cannot be looked into, such as of an older version.
    """
    if _is_listed(data_dir / SOCKET_NAME) and not (data_dir / SOCKET_NAME).exists():
        log.warning(
            "a socket of this path is in use, and is not there",
            path=str(data_dir / SOCKET_NAME),
            remedy="if a server was started here, and its directory moved, stop it first; one in a"
            " container does no harm",
        )


def _is_held_in_place(data_dir: Path) -> bool:
    """Return whether a process uses what has this path now."""
    try:
        return is_in_use(data_dir)
    except OSError:  # a file, or a directory that is closed to us: other checks report that
        return False


def _is_listed(path: Path) -> bool:
    """Return whether the kernel lists a socket that was made with this path.

    That can be the path of another container, or a socket of another user.
    """
    name = os.fsencode(path.absolute())
    try:
        listed = _SOCKETS.read_bytes().split(b"\n")
    except OSError:  # another system
        return False
    return any(line.endswith(b" " + name) for line in listed if _LISTENING in line)


def is_in_use(data_dir: Path) -> bool:
    """Return whether a process has locked a data directory; nothing is changed.

    Raises:
        OSError: if the directory cannot be read.
    """
    for path in (data_dir, data_dir / LOCK_NAME):
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            if not _try_lock(handle, fcntl.LOCK_SH):
                return True
        finally:
            os.close(handle)
    return False


def lock_when_free(data_dir: Path) -> DataDirLock:
    """Lock the data directory as `lock_data_dir`, but wait for other commands to end.

    Blocks for up to LOCK_WAIT_SECONDS.
    """
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            return lock_data_dir(data_dir)
        except DataDirInUseError:
            if time.monotonic() > deadline or is_served(data_dir):
                raise
        time.sleep(_LOCK_LOOK_SECONDS)


def is_served(data_dir: Path) -> bool:
    """Return whether the process that has locked a directory is a server.

    One that starts or stops is not meant. Without the file, the lock on the directory decides: a
    server makes the file again within seconds.
    """
    if data_dir.is_dir() and not (data_dir / LOCK_NAME).exists():
        return is_in_use(data_dir)
    return _is_marked(data_dir)


def _is_marked(data_dir: Path) -> bool:
    """Return whether a server has marked the lock file as its own."""
    try:
        with (data_dir / LOCK_NAME).open() as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, *SERVER_MARK)
    except (BlockingIOError, PermissionError):  # POSIX lets a system say either of a lock
        return os.access(data_dir / LOCK_NAME, os.R_OK)  # else the file is another user's
    except OSError:
        return False
    return False


def describe_lost_socket(data_dir: Path) -> str:
    """Return what to do where a server runs, and its socket does not answer."""
    return (
        f"A server is running on {data_dir}, but its {SOCKET_NAME} is gone. It makes it again"
        " within seconds: try again. If that does not help, restart the server."
    )


def _lock_directory(data_dir: Path) -> int:
    """Return the descriptor that holds the lock of the directory itself."""
    handle = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _try_lock(handle, fcntl.LOCK_EX):
            raise _in_use_error(data_dir)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _lock_file(data_dir: Path) -> IO[str]:
    """Return the file that holds the other lock; it is made if it does not exist."""
    file = (data_dir / LOCK_NAME).open("a+")
    try:
        if not _try_lock(file.fileno(), fcntl.LOCK_EX):
            raise _in_use_error(data_dir)
        status = os.fstat(file.fileno())
        if not status.st_nlink:  # a refused restore has just deleted what it made
            raise DataDirInUseError(f"Another sshwarma was using {data_dir}. Try again.")
        mode = stat.S_IMODE(status.st_mode)
        if mode & OTHERS:  # of a version that did not set its umask
            os.fchmod(file.fileno(), mode & ~OTHERS)
    except BaseException:
        file.close()
        raise
    return file


def _try_lock(handle: int, kind: int) -> bool:
    """Lock an open file or directory; return False if another process has it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        is_directory = stat.S_ISDIR(os.fstat(handle).st_mode)
        if not is_directory or error.errno not in NO_DIRECTORY_LOCKS:
            raise
    return True


def _in_use_error(data_dir: Path) -> DataDirInUseError:
    if _is_marked(data_dir) and not (data_dir / SOCKET_NAME).exists():
        return DataDirInUseError(describe_lost_socket(data_dir))
    if is_served(data_dir):
        return DataDirInUseError(f"Another sshwarma is using {data_dir}. Stop it first.")
    return DataDirInUseError(
        f"Another sshwarma command, or a server of an older version, is using {data_dir}. Try again"
        " when it has ended."
    )
