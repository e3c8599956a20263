"""/schema: the tables and views, the same on each database."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from sshwarma.terminal.render import render_plain
from sshwarma.verbs.views import draw_result
from sshwarma.world.schema import metadata
from sshwarma.world.world import World
from support.people import Someone, do

VIEWS = {
    "messages", "skills", "sessions", "session_state", "tools", "toolsets", "toolset_mcp_servers",
    "projects", "project_memory", "workspace_manifests", "chats",
}  # fmt: skip


@pytest.mark.sqlite
async def test_schema_verb_matches_the_database(world: World, guest: Someone) -> None:
    found = {one.name: one for one in (await do(guest, "/schema")).relations}
    with closing(sqlite3.connect(world.store.path)) as database:
        for name, one in found.items():
            names = [row[1] for row in database.execute(f'PRAGMA table_xinfo("{name}")')]
            assert [column.name for column in one.columns] == names
            query = "SELECT type, sql FROM sqlite_master WHERE name = ?"
            assert database.execute(query, (name,)).fetchone() == (one.kind, one.sql)


async def test_schema_has_the_tables_and_columns_of_the_program(
    guest: Someone, store_name: str
) -> None:
    found = {one.name: one for one in (await do(guest, "/schema")).relations}
    tables = {one.name for one in found.values() if one.kind == "table"}
    assert tables == {*metadata.tables, "alembic_version"}
    assert {one.name for one in found.values() if one.kind == "view"} == VIEWS
    for name, table in metadata.tables.items():
        columns = {column.name: column for column in found[name].columns}
        assert set(columns) == {column.name for column in table.columns}, name
        keys = {column.name for column in table.primary_key.columns}
        assert {name for name, column in columns.items() if column.key} == keys, name
    assert found["messages"].readable and found["usage"].readable
    assert not found["agent_keys"].readable
    assert not [name for name in found if name.startswith(("sqlite_", "rows_fts_"))]
    screen = render_plain(draw_result(await do(guest, "/schema")))
    assert "messages" in screen and "group_id" in screen and "agent_keys" in screen
    name = {"sqlite": "SQLite", "postgres": "PostgreSQL"}[store_name]
    assert f"The SQL is that of {name}." in screen


async def test_schema_of_one_table_is_shown_in_full(guest: Someone) -> None:
    screen = render_plain(draw_result(await do(guest, "/schema usage")))
    assert screen.startswith("usage (table)\n")
    assert "prompt_tokens" in screen and "CREATE TABLE" in screen and "INTEGER" in screen
    assert "CREATE VIEW messages" in render_plain(draw_result(await do(guest, "/schema MESSAGES")))
    assert "not read by /sql" in render_plain(draw_result(await do(guest, "/schema tokens")))
