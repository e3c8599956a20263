"""Pages of the database that nothing uses any more, and their return to the disk.

SQLite keeps such pages for later rows. A database that was made with `auto_vacuum = INCREMENTAL`
returns them in steps; an older one is rewritten once, by `sshwarma vacuum`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from sshwarma.world.store import Change

INCREMENTAL: Final = 2
"""The value of `PRAGMA auto_vacuum` of a database that returns pages in steps."""

PAGES_PER_STEP: Final = 200
"""Pages that one change returns: about 4 ms of the writer."""


CHECKPOINT_WAIT_SECONDS: Final = 1.0
"""Seconds that the last step waits for those who read what is older than the log's end."""


@dataclass(frozen=True, slots=True)
class FreePages:
    """The unused pages of a database.

    Attributes:
        count: how many there are.
        page_bytes: the size of one.
        can_shrink: whether they can be returned in steps.
    """

    count: int
    page_bytes: int
    can_shrink: bool

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return self.count * self.page_bytes


def read_free_pages(conn: Connection) -> FreePages:
    """Return the unused pages of a database; PostgreSQL looks after its own."""
    if conn.dialect.name == "postgresql":
        return FreePages(0, 0, can_shrink=True)
    count, page_bytes, mode = (
        int(conn.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("freelist_count", "page_size", "auto_vacuum")
    )
    return FreePages(count, page_bytes, mode == INCREMENTAL)


def return_pages(tx: Change) -> None:
    """Return PAGES_PER_STEP unused pages to the disk."""
    for _ in range(PAGES_PER_STEP):  # the driver takes one step of a statement: one page
        tx.conn.exec_driver_sql("PRAGMA incremental_vacuum(1)")


def shrink_files(database: Path) -> bool:
    """Write the log of a database back, so that both files get smaller.

    Returned pages leave the file only then. Blocks; others read and write meanwhile, and wait for
    at most CHECKPOINT_WAIT_SECONDS.

    Returns:
        Whether it was done; it is not while somebody reads what is older.
    """
    uri = f"{database.absolute().as_uri()}?mode=rw"  # it makes none where the file was moved away
    try:
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, timeout=CHECKPOINT_WAIT_SECONDS, isolation_level=None)
        ) as connection:
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:  # locked, gone, or a full disk
        return False
    return not is_busy
