"""The data directory of a running server, whose files others may delete.

Cleaners of old files, and people, do. What the server can make again, it does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Self

import asyncssh
import structlog

from sshwarma.admin.control_socket import ControlServer, OperationHandler
from sshwarma.admin.data_dir_lock import DataDirInUseError, DataDirLock, lock_data_dir
from sshwarma.admin.data_dir_modes import make_data_dir_private
from sshwarma.admin.held_database import HeldDatabase
from sshwarma.admin.held_host_key import HeldHostKey
from sshwarma.admin.host_key_announcement import record_announcement
from sshwarma.admin.start_errors import using_data_dir
from sshwarma.common.os_errors import describe_os_error
from sshwarma.settings import DATABASE_NAME
from sshwarma.ssh.transport.host_key import load_host_keys

log = structlog.get_logger(__name__)

CHECK_SECONDS: Final = 2.0
"""Seconds between two looks at the files: each is a few system calls."""


class ServedDataDir:
    """A data directory that is locked for a server until it is closed."""

    def __init__(self, path: Path) -> None:
        """Make and lock the directory.

        Raises:
            ForeignDataDirError: if it belongs to another user.
            DataDirInUseError: if another process uses it.
            OSError: if it cannot be used, with how to choose another.
        """
        self.path = path
        with using_data_dir(path):
            make_data_dir_private(path)
            self._lock: DataDirLock = lock_data_dir(path)
        self.database: HeldDatabase | None = None
        self.host_keys: list[asyncssh.SSHKey] = []  # in use, then those that clients learn
        self._host_key: HeldHostKey | None = None
        self._control: ControlServer | None = None
        self._is_lost = False
        self._reported: str | None = None
        log.debug("data directory taken", path=str(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.database is not None:
            self._save_lost_database(self.database)
            self.database.close()
        if self._host_key is not None:
            self._host_key.close()
        self._lock.close()

    def hold_database(self, database: Path) -> None:
        """Keep a database open, to save it if its file is deleted.

        Raises:
            sqlite3.Error: if it cannot be read.
        """
        self.database = HeldDatabase(database)

    def load_host_keys(self) -> None:
        """Read the host keys; the one in use stays, if its file is gone and was private.

        Raises:
            UnusableKey: if one cannot be used; then the earlier ones stay.
            OSError: if one cannot be written.
        """
        self._write_host_key_back()
        keys = load_host_keys(self.path)
        held = HeldHostKey(self.path, keys[0])
        if self._host_key is not None:
            self._host_key.close()
        self._host_key, self.host_keys = held, keys
        record_announcement(self.path, keys)

    def _write_host_key_back(self) -> None:
        if self._host_key is not None:
            self._host_key.write_back()

    async def open_control(self, operate: OperationHandler) -> None:
        """Listen on the control socket, whose requests `operate` answers."""
        self._control = ControlServer(self.path, operate)
        await self._control.start()
        self._lock.mark_server(is_reachable=True)

    async def close_control(self) -> None:
        """Stop listening, and remove the socket."""
        self._lock.mark_server(is_reachable=False)
        if self._control is not None:
            await self._control.stop()

    async def watch(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Make again what was deleted; what cannot be made is logged once."""
        self._report_lost_database()
        try:
            await self._make_again()
        except (OSError, DataDirInUseError) as error:
            reason = describe_os_error(error) if isinstance(error, OSError) else str(error)
            if reason != self._reported:
                log.error("the data directory has lost a file", path=str(self.path), reason=reason)
            self._reported = reason
        else:
            self._reported = None

    def _report_lost_database(self) -> None:
        was_lost, self._is_lost = self._is_lost, self.database is not None and self.database.is_lost
        if self._is_lost and not was_lost:
            log.critical(
                "the database was moved or replaced",
                path=str(self.path / DATABASE_NAME),
                remedy="put it back, or run sshwarma backup FILE before the server is stopped",
            )

    def _save_lost_database(self, database: HeldDatabase) -> None:
        """Copy a database whose file is lost: it ends with this process."""
        if not database.is_lost:
            return
        path = str(self.path / DATABASE_NAME)
        try:
            copy = database.copy()
        except OSError as error:
            reason = describe_os_error(error)
            log.critical("the world is lost with its database", path=path, reason=reason)
        else:
            remedy = f"put {DATABASE_NAME} back if it was moved, else restore the copy"
            log.critical(
                "the database was gone, and the world is saved as a copy",
                path=path,
                copy=str(copy),
                remedy=remedy,
            )

    async def _make_again(self) -> None:
        if self._lock.replace_file():
            log.warning("the lock file was deleted, and is made again", path=str(self.path))
        if self._lock.is_in_place():
            self._write_host_key_back()
        if self._control is None or not self._control.is_listening or not self._lock.is_in_place():
            return
        if await self._control.replace_file():
            log.warning("the control socket was deleted, and is made again", path=str(self.path))
        self._lock.mark_server(is_reachable=True)
