"""`sshwarma vacuum` without a server: the database is rebuilt."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from sshwarma.admin.data_dir_lock import lock_data_dir
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.database_copy import check_room, measure_size
from sshwarma.admin.recovery import recover_database
from sshwarma.world.migrate import prepare_database


def rebuild_database(database: Path) -> int:
    """Rebuild a database; from then on it returns unused pages in steps.

    Returns:
        The bytes by which the file is smaller.

    Raises:
        DataDirInUseError: if a server is running.
        ForeignDataDirError: if the world belongs to another user.
        SchemaError: if the file is damaged, or not at the newest schema.
        OSError: if the disk has no room for it, or the file is damaged; then nothing has changed.
    """
    check_data_dir_owner(database.parent)
    with lock_data_dir(database.parent):
        recover_database(database)
        prepare_database(database)
        before = measure_size(database)
        # The new file is made beside the old one, and then passes through its log.
        check_room(database.parent, "A vacuum", 2 * before)
        try:
            with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise OSError(f"{database} was not changed: {error}.") from error
        return before - measure_size(database)
