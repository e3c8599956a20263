"""The names of tools in other lists, which are stored with the tools."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sshwarma.world.migrate import migrate_database
from support.databases import read_misnamed_tools

LONG = "x" * 50


def test_migration_stores_the_names_of_all_tools(tmp_path: Path) -> None:
    database_file = tmp_path / "world.db"
    migrate_database(database_file, "0016")
    names = ["den:dice", "git.branch:create", "evil:a.b", f"{LONG}:{LONG}", f"{LONG * 2}:{LONG}é"]
    with closing(sqlite3.connect(database_file)) as database:
        database.executemany(
            "INSERT INTO things (id, kind, name, qualified_name, deleted_at,"
            " created_at, updated_at) VALUES (?, ?, ?, ?, ?, 1, 1)",
            [
                *((name, "tool", str(n), name, n % 2 or None) for n, name in enumerate(names)),
                ("unnamed", "tool", "unnamed", None, None),
                ("space", "toolset", "git", "git", None),
            ],
        )
        database.commit()
    migrate_database(database_file)
    assert read_misnamed_tools(database_file) == []
    with closing(sqlite3.connect(database_file)) as database:
        query = "SELECT name_for_models, name_for_mcp FROM things WHERE id = 'git.branch:create'"
        assert database.execute(query).fetchall() == [("git_branch__create", "git.branch.create")]
