"""The reporting views: every column by name, its type, and rules of its values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from sqlalchemy import insert, text

from sshwarma.verbs.registry import tool_specs
from sshwarma.world import calls, drop_turns, rows, things, turns, usage
from sshwarma.world.database_schema import read_relations
from sshwarma.world.rows import CALL_KINDS
from sshwarma.world.schema import tool_overrides
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do

KINDS = ("chat", "emote", "tell", "presence", "notice", *CALL_KINDS, "journal.note",
         "journal.decision", "journal.idea", "journal.milestone")  # fmt: skip

# Columns and their types; a `?` may be NULL.
TYPES = {
    "messages": "id INTEGER, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT?, "
                "status TEXT, group_id TEXT?, created_at TEXT",
    "tools": "tool_id TEXT, toolset_id TEXT?, name TEXT, description TEXT, json_schema TEXT, "
             "input_schema TEXT, is_enabled INTEGER, enabled INTEGER, "
             "requires_confirmation INTEGER, entrypoint TEXT?",
    "skills": "id INTEGER, name TEXT, description TEXT, system_prompt_patch TEXT",
    "sessions": "id TEXT, context_size INTEGER",
    "session_state": "session_id TEXT, agent TEXT, state_blob TEXT, last_updated TEXT",
    "usage": "id INTEGER, session_id TEXT, model TEXT, prompt_tokens INTEGER, "
             "completion_tokens INTEGER, total_tokens INTEGER, created_at TEXT, cost REAL?, "
             "estimated INTEGER, agent_id TEXT, turn_id TEXT",
    "toolsets": "id TEXT, name TEXT, version TEXT, description TEXT, enabled INTEGER, "
                "installed_at TEXT, source_type TEXT, source_ref TEXT, manifest_version TEXT",
    "toolset_mcp_servers": "id TEXT, toolset_id TEXT, server_type TEXT, enabled INTEGER, "
                           "command TEXT?, args TEXT?, cwd TEXT?, url TEXT?, headers TEXT?, "
                           "env TEXT?, requires_confirmation INTEGER, created_at TEXT",
    "chats": "id TEXT, name TEXT, active_leaf_message_id TEXT?, active_manifest_id TEXT?, "
             "created_at TEXT",
    "projects": "project_id TEXT, name TEXT, path TEXT",
    "project_memory": "project TEXT, key TEXT, value TEXT",
}  # fmt: skip


async def ask(world: World, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await world.store.read(lambda c: c.execute(text(query)).all())]


@pytest.fixture
async def full(world: World, alice: Someone, qwen: Someone) -> World:
    """A world with something in every view."""

    def fill(tx: Change) -> None:
        turn = turns.open_turn(tx, "lobby", qwen.id, alice.id)
        for kind in KINDS:
            for author in (alice.id, qwen.id, None):
                rows.append_row(tx, "lobby", kind, kind, author_id=author, turn_id=turn.id)
                rows.append_row(tx, "lobby", kind, kind, author_id=author, status="dropped")
        spent = usage.TokenUsage(100, 20, estimated=True, cost=0.5)
        usage.record_usage(tx, "lobby", qwen.id, turn.id, "m", spent)
        usage.record_usage(tx, "lobby", qwen.id, turn.id, "m", usage.TokenUsage(0, 0))
        things.create_thing(tx, "skills", "data", "skill:tidy", description="d", content="be tidy",
                      metadata={"role": "skill", "number": 7})  # fmt: skip
        states = things.create_thing(tx, "lobby", "container", "states")
        things.create_thing(tx, states.id, "data", "qwen", content="S", metadata={"role": "state"})
        kit = things.create_thing(
            tx, "toolsets", "toolset", "kit", qualified_name="kit", description="A kit",
            metadata={"version": "1.0", "source_type": "zip", "source_ref": "kit.zip",
                      "installed_at": "2026-01-01T00:00:00Z", "manifest_version": "1"},
        )  # fmt: skip
        things.create_thing(tx, kit.id, "tool", "cut", qualified_name="kit:cut", description="Cut",
                      metadata={"input_schema": {"properties": {}}, "entrypoint": "m:f",
                                "requires_confirmation": True})  # fmt: skip
        server = things.create_thing(
            tx, kit.id, "mcp", "srv", qualified_name="kit.srv",
            metadata={"server_type": "stdio", "command": "npx", "args": ["-x"]},
        )  # fmt: skip
        things.create_thing(
            tx, server.id, "tool", "go", qualified_name="kit.srv:go", description="Go"
        )
        project = things.create_thing(
            tx, "projects", "container", "apollo", metadata={"path": "/a"}
        )
        things.create_thing(
            tx, project.id, "data", "goal", content="moon", metadata={"role": "memory"}
        )

    await world.change(fill)
    return world


VALUES = {"INTEGER": int, "TEXT": str, "REAL": float}

DECLARED = {
    "INT": "INTEGER", "BIGINT": "INTEGER", "FLOAT": "REAL", "NUM": "REAL",
    "DOUBLE PRECISION": "REAL",
}  # fmt: skip
"""Names that SQLite and PostgreSQL have for types."""


@pytest.mark.parametrize("name", TYPES)
async def test_columns_have_the_documented_names_and_types(full: World, name: str) -> None:
    columns = [column.split() for column in TYPES[name].split(", ")]
    listed = ", ".join(f'"{column}"' for column, _ in columns)
    found = await ask(full, f"SELECT {listed} FROM {name}")
    assert found
    for row in found:
        for (column, wanted), value in zip(columns, row, strict=True):
            is_empty = value is None and wanted[-1] == "?"
            assert is_empty or type(value) is VALUES[wanted.rstrip("?")], (column, value)
    relations = {one.name: one for one in await full.store.read(read_relations)}
    declared = {column.name: column.type for column in relations[name].columns}
    for column, wanted in columns:  # before SQLite 3.41, what is computed has no declared type
        shown = DECLARED.get(declared[column], declared[column])
        assert shown in (wanted.rstrip("?"), ""), column


async def test_roles_and_statuses_are_from_a_fixed_set(full: World) -> None:
    roles = dict(await ask(full, "SELECT role, count(*) FROM messages GROUP BY 1"))
    assert set(roles) == {"system", "user", "assistant", "tool"}
    assert sum(roles.values()) == len(KINDS) * 6
    statuses = dict(await ask(full, "SELECT status, count(*) FROM messages GROUP BY 1"))
    assert set(statuses) == {"completed", "tool_call", "dropped"}
    assert statuses["dropped"] == len(KINDS) * 3
    assert await ask(full, "SELECT DISTINCT role FROM messages WHERE status = 'tool_call'") == [
        ("assistant",)
    ]


async def test_ids_increase_with_time(full: World) -> None:
    found = await ask(full, "SELECT id, created_at FROM messages ORDER BY id")
    assert [row[0] for row in found] == sorted({row[0] for row in found})
    moments = [row[1] for row in found]
    assert moments == sorted(moments)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", at) for at in moments)


async def test_message_group_is_question_calls_and_answer(
    world: World, alice: Someone, qwen: Someone
) -> None:
    await do(alice, "before")

    def answer(tx: Change) -> tuple[str, str, str]:
        request = rows.append_row(tx, "lobby", "chat", "@qwen @opus who?", author_id=alice.id)
        one, two = (turns.open_turn(tx, "lobby", qwen.id, alice.id) for _ in "ab")
        tx.conn.execute(  # the row itself knows the first turn it opened
            text("UPDATE rows SET turn_id = :one WHERE id = :row"),
            {"row": request.id, "one": one.id},
        )
        turns.set_request_row(tx, [one.id, two.id], request)
        made = [
            calls.record_call_start(
                tx, "lobby", qwen.id, f"a:{name}", {}, turn_id=one.id, parent_row_id=None
            )
            for name in "bc"
        ]
        calls.record_call_end(tx, made[0], "result", "fine", None, 0.1)
        calls.record_call_end(tx, made[1], "error", "broken", None, 0.1)
        rows.append_row(tx, "lobby", "chat", "me", author_id=qwen.id, turn_id=one.id)
        rows.append_row(tx, "lobby", "chat", "me too", author_id=qwen.id, turn_id=two.id)
        return one.id, two.id, request.id

    one, two, _ = await world.change(answer)
    group = f"SELECT role, status, content FROM messages WHERE group_id = '{one}' ORDER BY id"
    assert await ask(world, group) == [
        ("user", "completed", "@qwen @opus who?"),
        ("assistant", "tool_call", "{}"),
        ("assistant", "tool_call", "{}"),
        ("tool", "completed", "fine"),
        ("tool", "completed", "broken"),
        ("assistant", "completed", "me"),
    ]
    assert await ask(world, "SELECT content FROM messages WHERE group_id IS NULL") == [("before",)]
    links = await ask(
        world,
        "SELECT c.tool_call_id, r.content FROM messages c JOIN messages r USING (tool_call_id)"
        " WHERE c.status = 'tool_call' AND r.role = 'tool' ORDER BY c.id",
    )
    assert [(link.split("|")[1], content) for link, content in links] == [
        ("a:b", "fine"), ("a:c", "broken"),
    ]  # fmt: skip

    # What opened two turns stays while one of them does, in that one's group.
    await world.change(lambda tx: tx.conn.execute(
        text("UPDATE turns SET status = 'dropped' WHERE id = :id"), {"id": one}))  # fmt: skip
    kept = await ask(world, "SELECT content, group_id FROM messages WHERE status != 'dropped'")
    assert kept == [("before", None), ("@qwen @opus who?", two), ("me too", two)]
    await world.change(lambda tx: tx.conn.execute(
        text("UPDATE turns SET status = 'dropped' WHERE id = :id"), {"id": two}))  # fmt: skip
    kept = await ask(world, "SELECT content FROM messages WHERE status != 'dropped'")
    assert kept == [("before",)]


async def test_total_tokens_are_the_sum_of_prompt_and_completion(full: World) -> None:
    found = await ask(full, "SELECT prompt_tokens, completion_tokens, total_tokens FROM usage")
    assert found == [(100, 20, 120), (0, 0, 0)]


async def test_every_tool_has_one_name_and_an_object_schema(full: World) -> None:
    tools = await ask(full, "SELECT name, json_schema, input_schema, is_enabled FROM tools")
    assert len(tools) == len({name for name, *_ in tools}) == len(tool_specs()) + 2
    for name, schema, same, enabled in tools:
        assert schema == same
        assert json.loads(schema)["type"] == "object", name
        assert enabled == 1
    assert await ask(
        full, "SELECT tool_id, toolset_id, requires_confirmation, entrypoint FROM tools"
              " WHERE toolset_id IS NOT NULL ORDER BY 1"
    ) == [("kit.srv:go", "kit", 0, None), ("kit:cut", "kit", 1, "m:f")]  # fmt: skip


async def test_tool_overrides_win_in_the_view(full: World) -> None:
    def override(tx: Change) -> None:
        tx.conn.execute(
            insert(tool_overrides).values(
                id="1", toolset_id="kit", tool_id="kit:cut", enabled=0, name_override="Cutter",
                description_override="Cuts.", requires_confirmation=0,
            )
        )  # fmt: skip

    await full.change(override)
    columns = "display_name, description, is_enabled, enabled, requires_confirmation"
    assert await ask(full, f"SELECT {columns} FROM tools WHERE name = 'kit:cut'") == [
        ("Cutter", "Cuts.", 0, 0, 0)
    ]


async def test_skills_keep_their_number_and_other_data_is_left_out(full: World) -> None:
    def more(tx: Change) -> None:
        things.create_thing(
            tx, "skills", "data", "skill:early", metadata={"role": "skill", "number": 2}
        )
        things.create_thing(tx, "skills", "data", "notes", content="no skill")
        gone = things.create_thing(tx, "skills", "data", "skill:gone", metadata={"role": "skill"})
        things.delete_thing(tx, gone)

    await full.change(more)
    assert await ask(full, "SELECT id, name FROM skills ORDER BY id") == [(2, "early"), (7, "tidy")]
    assert await ask(full, "SELECT * FROM skills WHERE id = 7") == [(7, "tidy", "d", "be tidy")]


async def test_window_of_a_room_is_five_until_it_is_set(full: World) -> None:
    await full.change(lambda tx: things.set_metadata(tx, "lobby", context_size=-1, active_leaf="m"))
    assert dict(await ask(full, "SELECT id, context_size FROM sessions")) == {
        "home": 5, "lobby": -1,
    }  # fmt: skip
    chat = "SELECT name, active_leaf_message_id, active_manifest_id FROM chats WHERE id = 'lobby'"
    assert await ask(full, chat) == [("lobby", None, None)]


async def test_active_leaf_is_the_newest_turn_that_is_not_dropped(full: World) -> None:
    asker = full.agents.find("alice").id

    def talk(tx: Change) -> list[str]:
        made = [turns.open_turn(tx, "lobby", asker, None).id for _ in range(3)]
        for turn_id in made:
            turns.close_turn(tx, turn_id, "completed")
        return made

    leaf = "SELECT active_leaf_message_id FROM chats WHERE id = 'lobby'"
    before = await ask(full, leaf)
    made = await full.change(talk)
    for left in (3, 2, 1, 0):
        assert await ask(full, leaf) == ([(made[left - 1],)] if left else before)
        if left:
            turn = await full.store.read(
                lambda c, id=made[left - 1]: turns.find_turn(c, "lobby", id)
            )
            await full.change(lambda tx, turn=turn: drop_turns.drop_turn(tx, turn))


async def test_each_model_has_its_own_state_and_update_time(full: World) -> None:
    def states(tx: Change) -> None:
        holder = things.find_child(tx.conn, "lobby", "states")
        assert holder is not None
        things.create_thing(tx, holder.id, "data", "opus", content="O", metadata={"role": "state"})
        things.create_thing(tx, "lobby", "data", "loose", content="x", metadata={"role": "state"})

    await full.change(states)
    query = "SELECT agent, state_blob FROM session_state WHERE session_id = 'lobby' ORDER BY 1"
    assert await ask(full, query) == [("opus", "O"), ("qwen", "S")]
    moment = "SELECT last_updated FROM session_state WHERE agent = 'opus'"
    before = await ask(full, moment)

    def again(tx: Change) -> None:
        tx.now += 5
        holder = things.find_child(tx.conn, "lobby", "states")
        opus = things.find_child(tx.conn, holder.id, "opus") if holder else None
        assert opus is not None
        things.update_thing(tx, opus.id, content="O2")

    await full.change(again)
    assert await ask(full, moment) > before


async def test_toolsets_servers_and_projects_are_listed(full: World) -> None:
    assert await ask(full, "SELECT id, name, version, source_type, enabled FROM toolsets") == [
        ("kit", "kit", "1.0", "zip", 1)
    ]
    servers = "SELECT id, toolset_id, server_type, command, args FROM toolset_mcp_servers"
    assert await ask(full, servers) == [("srv", "kit", "stdio", "npx", '["-x"]')]
    assert await ask(full, "SELECT name, path FROM projects") == [("apollo", "/a")]
    assert await ask(full, "SELECT * FROM project_memory") == [("/a", "goal", "moon")]
