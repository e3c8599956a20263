"""Upgrade of a world to the schema of this program, after a copy of its database.

Only `sshwarma serve` and `sshwarma migrate` upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from sshwarma.admin.database_copy import (
    check_room,
    choose_free_name,
    copy_database,
    measure_size,
)
from sshwarma.world.migrate import migrate_database, newest_revision, read_schema

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upgrade:
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


def upgrade_database(database: Path) -> Upgrade | None:
    """Upgrade a database to the newest schema; None if there is nothing to do.

    Its copy stays beside it, named for the new schema. Delete it when the new version has proved
    itself; until then it is the way back.

    Raises:
        SchemaError: if the file is damaged, or a newer program has used it.
        OSError: if the disk has no room for the copy; then nothing has changed.
    """
    if not database.exists():
        return None
    before = read_schema(database)
    after = newest_revision()
    if before == after:
        return None
    check_room(database.parent, "The copy of the world before its upgrade", measure_size(database))
    # An earlier copy, of an upgrade that was undone, is kept.
    copy = choose_free_name(database.with_name(f"world-before-{after}.db"))
    copy_database(database, copy)
    try:
        migrate_database(database)
    except Exception:  # nothing has changed: a service that starts again and again keeps no copies
        copy.unlink()
        raise
    return Upgrade(before, after, copy)
