"""The migration that gives invites the user who ran the command."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sshwarma.world.migrate import migrate_database


def test_migration_finds_the_makers_of_invites_in_the_audit(tmp_path: Path) -> None:
    database_file = tmp_path / "world.db"
    migrate_database(database_file, "0014")
    with closing(sqlite3.connect(database_file)) as database:
        database.executescript("""
            INSERT INTO things (id, parent_id, kind, name, created_at, updated_at)
                VALUES ('ann', NULL, 'agent', 'ann', 1, 1);
            INSERT INTO invites (id, code_sha256, role, created_by, created_at, expires_at)
                VALUES ('i1', 'a', 'guest', NULL, 5, 9), ('i2', 'b', 'guest', NULL, 5, 9),
                       ('i3', 'c', 'guest', NULL, 6, 9), ('i4', 'd', 'guest', 'ann', 5, 9);
            INSERT INTO audit (at, door, verb, what, os_user)
                VALUES (5, 'cli', 'invite', '--role guest --hours 1 i1', 'bob'),
                       (5, 'cli', 'invite', '--role guest --hours 1 i2', 'carol'),
                       (5, 'cli', 'invite', '--role guest --hours 1 i4', 'dave');
        """)
    migrate_database(database_file)
    with closing(sqlite3.connect(database_file)) as database:
        found = database.execute("SELECT id, os_user FROM invites ORDER BY id").fetchall()
    assert found == [("i1", "bob"), ("i2", "carol"), ("i3", None), ("i4", None)]
