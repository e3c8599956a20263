"""The database that a running server holds open, also after its file is gone.

Nobody else can open a file that was deleted. A connection that was open before reads it to the end
of the process: so the server itself saves the world.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

import structlog

from sshwarma.admin.backup_names import COPY_TIME
from sshwarma.admin.database_copy import choose_free_name, is_disk_full
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.common.files import NamedFile, give_name, store_on_disk

log = structlog.get_logger(__name__)

RESCUED_NAME: Final = "world-rescued-{time}.db"
"""The name of a copy that a server made of a database without a name."""


class HeldDatabase:
    """A connection to the database of a server, closed after the world.

    It can write: whichever connection is the last empties the log.
    """

    def __init__(self, path: Path) -> None:
        """Open a database that exists.

        Raises:
            sqlite3.Error: if it cannot be read.
        """
        self._path = path
        self._file = NamedFile(path)
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # opens the log

    @property
    def is_lost(self) -> bool:
        """Whether the file was moved, deleted or replaced, and is not back."""
        return self._file.is_lost

    def copy(self) -> Path:
        """Copy the database, with all that is stored, into a new file beside its place.

        The copy gets its name when it is complete. Others read and write meanwhile.

        Raises:
            OSError: with the reason, if it cannot be made; then nothing is left of it.
        """
        directory = self._path.parent
        now = time.strftime(COPY_TIME)
        name = choose_free_name(directory / RESCUED_NAME.format(time=now))
        with make_work_directory(directory) as work:
            part = work / name.name
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                with contextlib.closing(sqlite3.connect(part)) as target:
                    self._connection.backup(target)
                    target.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.Error as error:
                is_full = is_disk_full(error, directory)
                reason = "the disk is full" if is_full else str(error)
                raise OSError(f"{self._path} was not copied: {reason}.") from error
            store_on_disk(part)
            give_name(part, name)
        store_on_disk(directory)
        return name

    def close(self) -> None:
        """Close the connection; the file is deleted now if it has no name.

        SQLite leaves the log of a file that was moved, which is then beside another database or
        none. So its changes are written into that file before.
        """
        try:
            if self.is_lost:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:  # a copy was made before, and the log stays
            log.error("the log of the database was not emptied", error=str(error))
        finally:
            self._connection.close()
