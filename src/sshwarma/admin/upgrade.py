"""Upgrade of a world to the schema of this program, after a copy of its database.

Only `sshwarma serve` and `sshwarma migrate` upgrade.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import structlog

from sshwarma.admin.data_dir_lock import lock_data_dir
from sshwarma.admin.database_copy import (
    check_room,
    choose_free_name,
    copy_database,
    empty_log,
    is_same_content,
    measure_size,
)
from sshwarma.admin.recovery import recover_database
from sshwarma.admin.service_notify import ServiceNotifier
from sshwarma.common.background import BackgroundTasks
from sshwarma.settings import Settings
from sshwarma.world.databases import check_driver
from sshwarma.world.migrate import (
    migrate_database,
    newest_revision,
    read_schema,
    run_migrations,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaUpgrade:
    """What an upgrade did: the schemas before and after, and the copy from before."""

    before: str
    after: str
    copy: Path

    def log(self) -> None:
        """Write it to the log, with the copy that somebody must delete one day."""
        log.warning(
            "world upgraded; delete the copy when this version has proved itself",
            before=self.before,
            after=self.after,
            copy=str(self.copy),
        )


def check_free(settings: Settings) -> None:
    """Check that the database of the settings on PostgreSQL is empty.

    Raises:
        FileExistsError: if it has a world.
        SchemaError: if it has something else, or cannot be used.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    with opened_in_bulk(settings.database) as bulk:
        if bulk.read_revision() is not None:
            raise FileExistsError(f"{bulk.place} already contains a world.")
        bulk.check_empty()


def upgrade_postgres(settings: Settings) -> tuple[str, str]:
    """Upgrade a world on PostgreSQL to the newest schema, in one transaction.

    Returns the revisions before and after.

    Raises:
        SchemaError: if the database cannot be used, a server uses it, or a newer program has.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    with lock_data_dir(settings.data_dir), opened_in_bulk(settings.database) as bulk:
        bulk.take_locks()
        with bulk.transaction():
            before = bulk.check_known_world()
            if before != newest_revision():
                run_migrations(bulk.conn)
            bulk.check_world()
            return before, newest_revision()


async def upgrade_at_start(database: Path, notifier: ServiceNotifier) -> None:
    """Upgrade a database, and extend the time of the start meanwhile.

    Raises:
        SchemaError, OSError: as `upgrade_database`.
    """
    telling = BackgroundTasks()
    telling.spawn(notifier.extend_start(), name="start")
    working = asyncio.create_task(asyncio.to_thread(upgrade_database, database))
    try:
        await asyncio.shield(working)
    finally:
        # If this is cancelled, the thread goes on: until it ends, the directory stays locked.
        await asyncio.wait([working])
        await telling.cancel()
        if working.exception() is None and (upgrade := working.result()) is not None:
            upgrade.log()


def upgrade_database(database: Path) -> SchemaUpgrade | None:
    """Upgrade a database to the newest schema; None if there is nothing to do.

    Its copy stays beside it, named for the new schema. Delete it when the new version has proved
    itself; until then it is the way back. One that a killed upgrade left is used again.

    Raises:
        SchemaError: if the file is damaged, or a newer program has used it.
        OSError: if the disk has no room for the copy; then nothing has changed.
    """
    recover_database(database)
    if not database.exists():
        return None
    before = read_schema(database)
    after = newest_revision()
    if before == after:
        return None
    left = _find_equal_copy(database, after)
    copy = left or _make_copy(database, after)
    try:
        migrate_database(database)
    except Exception:  # nothing has changed: a service that starts again and again keeps no copies
        if left is None:
            copy.unlink()
        raise
    return SchemaUpgrade(before, after, copy)


def _make_copy(database: Path, after: str) -> Path:
    """Copy a database beside itself; copies of upgrades that were undone stay."""
    check_room(database.parent, "The copy of the world before its upgrade", measure_size(database))
    copy = choose_free_name(database.with_name(f"world-before-{after}.db"))
    copy_database(database, copy)
    return copy


def _find_equal_copy(database: Path, after: str) -> Path | None:
    """Return a copy that a killed upgrade left, if it has what the database has."""
    candidates = sorted(database.parent.glob(f"world-before-{after}*.db"))
    try:
        if not candidates or not empty_log(database):
            return None
    except sqlite3.Error:  # what makes a copy says what is wrong
        return None
    return next((copy for copy in candidates if is_same_content(database, copy)), None)
