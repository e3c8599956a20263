"""What killed processes leave of a database, put right before anything reads it."""

from __future__ import annotations

from pathlib import Path

import structlog

from sshwarma.admin.replaced_world import delete_second_names
from sshwarma.world.interrupted_change import undo_interrupted_change

log = structlog.get_logger(__name__)


def recover_database(database: Path) -> None:
    """Finish what a killed restore, a killed start or a killed change has left.

    The caller holds the lock of the data directory. A first start that was killed in its first
    change has stored nothing: its file is deleted, and the next start makes a new world.

    Raises:
        DamagedDatabaseError: if SQLite cannot read the database, or write to it.
    """
    delete_second_names(database)
    if not undo_interrupted_change(database):
        return
    log.warning("a change that was killed has been taken back", world=str(database))
    if database.stat().st_size == 0:
        database.unlink()
