"""The database file: migrations, tables and views of reports, the first tree."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from sshwarma.verbs.registry import tool_specs
from sshwarma.world import equipment, search, sqlite_engine, things
from sshwarma.world.bootstrap import CONTAINERS, BuiltinToolSpec, bootstrap_world
from sshwarma.world.migrate import (
    DamagedDatabaseError,
    UnknownSchemaError,
    migrate_database,
    newest_revision,
    read_schema,
)
from sshwarma.world.schema import metadata
from sshwarma.world.sqlite_engine import create_sqlite_engine
from sshwarma.world.world import World
from support.people import arrive, do, make

DEFAULT_TOOLS = [
    "look", "who", "say", "history", "vibe", "inventory",
    "journal", "note", "decide", "idea", "milestone",
    "rooms", "exits", "join", "leave", "go", "create",
]  # fmt: skip

PROJECT_MEMORY = {f"memory:{one.name}" for one in tool_specs() if one.name.startswith("project_")}

# Columns that reports rely on.
VIEWS = {
    "messages": "id session_id role content tool_call_id status group_id created_at",
    "skills": "id name description system_prompt_patch",
    "sessions": "id context_size",
    "session_state": "session_id state_blob last_updated agent",
    "tools": "name description json_schema is_enabled tool_id toolset_id input_schema "
             "requires_confirmation enabled entrypoint",
    "toolsets": "id name version description enabled installed_at source_type source_ref "
                "manifest_version",
    "toolset_mcp_servers": "id toolset_id server_type enabled command args cwd url headers env "
                           "requires_confirmation created_at",
    "chats": "id active_leaf_message_id active_manifest_id",
    "workspace_manifests": "id chat_id parent_id files created_at source source_ref",
    "projects": "name path",
    "project_memory": "project key value",
}  # fmt: skip
TABLES = {
    "usage": "id session_id model prompt_tokens completion_tokens total_tokens created_at",
    "tool_calls": "id chat_id message_id tool_id args result render_plan status error started_at "
                  "finished_at pre_manifest_id post_manifest_id",
    "tool_overrides": "id toolset_id tool_id renderer renderer_config name_override "
                      "description_override requires_confirmation enabled leave_out",
    "toolset_files": "toolset_id path kind sha256 size stored_path",
    "things": "id parent_id kind name qualified_name description content uri metadata available "
              "created_at updated_at deleted_at",
    "equipped": "context_id thing_id priority created_at deleted_at",
    "exits": "from_room_id direction to_room_id created_at deleted_at",
}  # fmt: skip


def dump(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        return "\n".join(database.iterdump())


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


def test_empty_file_is_migrated_to_the_newest_schema(empty: Path) -> None:
    assert migrate_database(empty) == (None, newest_revision())
    assert migrate_database(empty) == (newest_revision(), newest_revision())
    engine = create_sqlite_engine(empty)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                # The search index is not SQLAlchemy's to know.
                "include_name": lambda name, kind, _: (
                    kind != "table" or not str(name).startswith("rows_")
                ),
            },
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_new_file_equals_one_that_every_migration_made(empty: Path, tmp_path: Path) -> None:
    migrated = tmp_path / "migrated.db"
    migrate_database(empty)
    migrate_database(migrated, newest_revision())
    assert dump(empty).split() == dump(migrated).split()


@pytest.mark.process
def test_new_file_needs_no_alembic(empty: Path) -> None:
    program = (
        "import pathlib, sys; from sshwarma.world.migrate import migrate_database;"
        f" migrate_database(pathlib.Path({str(empty)!r})); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_program_that_comes_second_finds_the_schema_made(empty: Path) -> None:
    """Both found an empty file; one transaction makes the schema, the other finds it."""
    for _ in range(20):
        empty.unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(migrate_database, [empty] * 8))
        assert {new for _, new in found} == {newest_revision()}
    assert dump(empty).count("CREATE TABLE things") == 1


def test_file_that_is_being_created_is_waited_for(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not wait when it changes the journal of a new file."""
    with closing(sqlite3.connect(empty, isolation_level=None)) as first:
        first.execute("PRAGMA journal_mode = DELETE")
        first.execute("BEGIN EXCLUSIVE")
        first.execute("CREATE TABLE other (x)")
        waits: list[float] = []

        def finish(seconds: float) -> None:
            waits.append(seconds)
            first.execute("COMMIT")

        monkeypatch.setattr(sqlite_engine, "BUSY_TIMEOUT_MS", 50)
        monkeypatch.setattr(time, "sleep", finish)
        monkeypatch.setattr(time, "monotonic", lambda: 0.0)
        engine = create_sqlite_engine(empty)
        engine.connect().close()
        engine.dispose()
    assert waits == [sqlite_engine.LOCK_RETRY_SECONDS]


async def test_world_that_lacks_a_table_does_not_open(empty: Path) -> None:
    migrate_database(empty)
    with closing(sqlite3.connect(empty)) as database:
        database.execute("DROP TABLE tokens")
        database.execute("DROP TABLE rows_fts")
        database.execute("DROP INDEX ix_things_parent")
    said = r"it lacks index 'ix_things_parent', table 'rows_fts', .*'tokens'"
    with pytest.raises(DamagedDatabaseError, match=said):
        await World.open(empty, tool_specs())


def test_directory_in_place_of_the_database_is_a_sentence(empty: Path) -> None:
    empty.mkdir()
    with pytest.raises(DamagedDatabaseError, match="is a directory"):
        read_schema(empty)


def test_migration_from_the_first_schema_keeps_data(empty: Path) -> None:
    migrate_database(empty, "0001")
    with closing(sqlite3.connect(empty)) as database:
        database.executescript("""
            INSERT INTO things (id, kind, name, created_at, updated_at)
                VALUES ('den', 'room', 'den', 1, 1), ('ann', 'agent', 'ann', 1, 1);
            INSERT INTO rows (id, room_id, seq, author_id, kind, content, created_at)
                VALUES ('r1', 'den', 1, 'ann', 'chat', 'old words', 1);
        """)
        before = database.execute("SELECT * FROM things ORDER BY id").fetchall()
    assert migrate_database(empty) == ("0001", newest_revision())
    with closing(sqlite3.connect(empty)) as database:
        columns = ", ".join(
            row[1] for row in database.execute("PRAGMA table_info(things)").fetchall()[:16]
        )
        after = database.execute(f"SELECT {columns} FROM things ORDER BY id").fetchall()
        assert after == before
        assert database.execute("SELECT content FROM messages").fetchall() == [("old words",)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_world_of_the_first_schema_opens_and_can_be_searched(empty: Path) -> None:
    test_migration_from_the_first_schema_keeps_data(empty)
    world = await World.open(empty, tool_specs())
    await world.index_rows()
    found = await world.store.read(lambda c: search.search_rows(c, "old", ["den"], 5))
    assert [hit.row.content for hit in found] == ["old words"]
    await world.close()


def test_database_of_a_newer_version_is_refused_and_unchanged(empty: Path) -> None:
    migrate_database(empty)
    with closing(sqlite3.connect(empty)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    before = dump(empty)
    with pytest.raises(UnknownSchemaError, match=r"9999.*newer sshwarma"):
        migrate_database(empty)
    assert dump(empty) == before


def test_failed_migration_changes_nothing(empty: Path) -> None:
    migrate_database(empty, "0001")
    with closing(sqlite3.connect(empty)) as database:
        database.execute("CREATE VIEW project_memory AS SELECT 1")  # in the way of 0002
    before = dump(empty)
    with pytest.raises(Exception, match="project_memory"):
        migrate_database(empty)
    assert dump(empty) == before


async def test_second_start_changes_nothing(empty: Path) -> None:
    await (await World.open(empty, tool_specs())).close()
    before = dump(empty)
    again = await World.open(empty, tool_specs())
    await again.close()
    assert dump(empty) == before


async def test_start_keeps_changes_made_by_people(empty: Path) -> None:
    world = await World.open(empty, tool_specs())
    alice = await arrive(world, "alice", role="owner")
    await do(alice, "/describe mine")
    await do(alice, "/unequip defaults sshwarma:look")
    await do(alice, "/unequip room sshwarma:say")
    await world.change(lambda tx: things.update_thing(tx, "tool_who", enabled=0))
    look = await world.store.read(lambda c: things.get_live_thing(c, "tool_rooms"))
    await world.change(lambda tx: things.delete_thing(tx, look))
    await world.close()
    changed = [
        BuiltinToolSpec(s.namespace, s.name, f"{s.description}!", s.input_schema, s.default)
        for s in tool_specs()
    ]
    world = await World.open(
        empty, [*changed, BuiltinToolSpec("sshwarma", "newer", "New", {}, True)]
    )

    def check(conn: Any) -> None:
        assert things.get_live_thing(conn, "lobby").description == "mine"
        who = things.get_live_thing(conn, "tool_who")
        assert (who.enabled, who.description) == (False, "List who is connected!")
        gone = things.get_thing(conn, "tool_rooms")
        assert gone is not None and gone.deleted_at is not None
        on = {
            (row.context_id, row.thing.id)
            for row in equipment.read_equipped_rows(conn, ["defaults", "lobby"])
            if row.equipped
        }
        assert ("defaults", "tool_look") not in on and ("lobby", "tool_say") not in on
        assert ("defaults", "tool_newer") in on and ("lobby", "tool_newer") not in on

    await world.store.read(check)
    await world.close()


async def test_failed_open_leaves_no_thread(empty: Path) -> None:
    before = set(threading.enumerate())

    class Broken(BuiltinToolSpec):
        @property
        def id(self) -> str:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await World.open(empty, [Broken("sshwarma", "x", "x", {})])
    left = [t for t in set(threading.enumerate()) - before if t.name.startswith("store-")]
    assert not left


async def test_new_world_has_the_expected_tree(world: World) -> None:
    def check(conn: Any) -> None:
        root = things.get_live_thing(conn, "world")
        assert (root.parent_id, root.kind) == (None, "container")
        for name in ("rooms", "agents", "mcps", "internal", "defaults"):
            assert name in CONTAINERS
        for name in CONTAINERS:
            found = things.get_live_thing(conn, name)
            assert (found.parent_id, found.kind, found.name) == ("world", "container", name)
        home, lobby = things.get_live_thing(conn, "home"), things.get_live_thing(conn, "lobby")
        assert (home.parent_id, home.kind) == ("world", "room")
        assert home.metadata["vibe"] == "Shared resources"
        assert (lobby.parent_id, lobby.kind) == ("rooms", "room")
        assert lobby.metadata["vibe"] == "Welcome to sshwarma"
        assert things.read_children(conn, "defaults") == [], "only equipped rows"

        def equipped(context: str) -> set[str | None]:
            return {
                row.thing.qualified_name for row in equipment.read_equipped_rows(conn, [context])
            }

        expected = {f"sshwarma:{name}" for name in DEFAULT_TOOLS} | PROJECT_MEMORY
        assert equipped("defaults") == equipped("lobby") == expected
        for name in DEFAULT_TOOLS:
            tool = things.get_live_thing(conn, f"tool_{name}")
            assert (tool.parent_id, tool.name) == ("internal", name)
            assert tool.qualified_name == f"sshwarma:{name}"
        assert things.get_live_thing(conn, "tool_look").description == "Show this room"
        assert things.get_live_thing(conn, "tool_say").description == "Say something to the room"
        assert things.get_live_thing(conn, "tool_who").description == "List who is connected"

    await world.store.read(check)
    assert not await world.change(lambda tx: bootstrap_world(tx, tool_specs()))


def _retirement(conn: Any, ids: set[str]) -> tuple[set[str], set[str], set[str]]:
    """The ids that are live, and those equipped in the lobby and by default."""
    found = [things.get_thing(conn, id) for id in ids]
    live = {thing.id for thing in found if thing and thing.deleted_at is None}
    query = "SELECT thing_id FROM equipped WHERE context_id = :context AND deleted_at IS NULL"
    lobby, defaults = (
        set(conn.execute(text(query), {"context": context}).scalars())
        for context in ("lobby", "defaults")
    )
    return live, lobby, defaults


async def test_tools_without_a_verb_are_retired_and_restored_with_it(world: World) -> None:
    specs = list(tool_specs())
    old = [
        BuiltinToolSpec("sshwarma", "skill", "An old verb", {}, default=True),
        BuiltinToolSpec("global", "namespace", "Another", {}),
    ]
    await world.change(lambda tx: bootstrap_world(tx, [*specs, *old]))
    ids = {spec.id for spec in old}
    ours = await world.change(
        lambda tx: [
            things.create_thing(
                tx, "internal", "tool", "mine", qualified_name="sshwarma:mine", created_by="alice"
            ),
            things.create_thing(tx, "global", "tool", "theirs", qualified_name="global:theirs"),
            # Made by somebody, with an id as of a built-in tool.
            things.create_thing(
                tx,
                "internal",
                "tool",
                "his",
                id="tool_his",
                qualified_name="sshwarma:his",
                created_by="alice",
            ),
            things.create_thing(tx, "global", "data", "global_text"),
        ]
    )

    def equip(tx: Any) -> None:
        tools = [things.get_live_thing(tx.conn, id) for id in ids]
        equipment.equip_things(tx, "lobby", [*tools, *ours])
        equipment.unequip_things(tx, "home", tools)

    await world.change(equip)

    live, lobby, defaults = before = await world.store.read(lambda conn: _retirement(conn, ids))
    assert live == ids and ids <= lobby and "tool_skill" in defaults
    everything = len(await world.store.read(lambda conn: things.read_children(conn, "internal")))

    await world.change(lambda tx: bootstrap_world(tx, specs))
    assert await world.store.read(lambda conn: _retirement(conn, ids)) == (
        set(),
        lobby - ids,
        defaults - ids,
    )
    assert {thing.id for thing in ours} <= lobby - ids
    for thing in ours:
        kept = await world.store.read(lambda conn, id=thing.id: things.get_live_thing(conn, id))
        assert kept == thing
    left = await world.store.read(lambda conn: things.read_children(conn, "internal"))
    assert len(left) == everything - 1
    await world.change(lambda tx: bootstrap_world(tx, []))
    assert await world.store.read(lambda conn: things.read_children(conn, "internal")) == left

    await world.change(lambda tx: bootstrap_world(tx, [*specs, *old]))
    assert await world.store.read(lambda conn: _retirement(conn, ids)) == before
    tool = await world.store.read(lambda conn: things.get_live_thing(conn, "tool_skill"))
    assert "retired" not in tool.metadata


@pytest.mark.parametrize("name", [*VIEWS, *TABLES])
def test_table_or_view_has_its_columns(newborn: Path, name: str) -> None:
    with closing(sqlite3.connect(newborn)) as database:
        query = "SELECT type FROM sqlite_schema WHERE name = ?"
        kind = database.execute(query, (name,)).fetchone()[0]
        found = [row[0] for row in database.execute(f'SELECT * FROM "{name}"').description]
    assert kind == ("view" if name in VIEWS else "table")
    assert set((VIEWS | TABLES)[name].split()) <= set(found) and len(found) == len(set(found))


@pytest.mark.sqlite
async def test_reporting_views_are_read_only(world: World) -> None:
    for view in VIEWS:
        with pytest.raises(Exception, match="because it is a view"):
            await world.change(lambda tx, v=view: tx.conn.execute(text(f"DELETE FROM {v}")))
    assert (await make(world, "lobby", "data", "fine")).name == "fine"
