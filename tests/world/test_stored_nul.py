"""A NUL is stored as a visible character: PostgreSQL takes none in a text."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text, select

from sshwarma.world import (
    access,
    audit,
    calls,
    drafts,
    input_history,
    login_keys,
    memory,
    overrides,
    things,
    tokens,
    triggers,
    turns,
)
from sshwarma.world.schema import metadata
from sshwarma.world.store import Change
from sshwarma.world.triggers import Position
from sshwarma.world.world import World
from support.people import Someone

WORDS = "one\0two"
COLUMNS = {
    "agent_keys.comment", "audit.what", "drafts.text", "input_lines.line", "room_members.reason",
    "rows.content", "text_versions.content", "things.content", "things.description",
    "tokens.label", "tool_calls.error", "tool_overrides.description_override",
    "trigger_runs.text", "triggers.off_reason",
}  # fmt: skip


def store_words(tx: Change, alice: Someone, bob: Someone) -> None:
    turn = turns.open_turn(tx, "lobby", bob.id, alice.id)
    drafts.append_draft(tx, turn.id, WORDS)
    audit.record_change(tx, door="ssh", verb="say", request=WORDS)
    input_history.append_input_history(tx, [(alice.id, WORDS)])
    access.set_member(tx, "lobby", bob.id, created_by=alice.id, reason=WORDS)
    login_keys.add_key(tx, bob.id, "SHA256:x", "ssh-ed25519 x", comment=WORDS)
    tokens.issue_token(tx, bob.id, WORDS, None, created_by=bob.id)
    call = calls.record_call_start(
        tx, "lobby", bob.id, "sshwarma:look", {"a": WORDS}, turn_id=None, parent_row_id=None
    )
    calls.record_call_end(tx, call, "error", WORDS, None, 0.1)
    text = things.create_thing(
        tx, "lobby", "data", "trigger:pager", description=WORDS, content=WORDS
    )
    overrides.set_override(tx, "lobby:dice", description=WORDS)
    memory.write_value(tx, "lobby", "key", WORDS, author_id=alice.id)
    memory.write_value(tx, "lobby", "key", "other", author_id=alice.id)
    start = Position("", 0, frozenset())
    trigger_id = triggers.turn_on(tx, text, alice.id, start)
    trigger = triggers.begin_run(tx, trigger_id, "1", "row", start)
    assert trigger is not None
    triggers.end_run(tx, trigger, "1", "failed", 1, WORDS)
    triggers.turn_off(tx, trigger_id, WORDS)


async def test_no_text_has_a_nul(world: World, alice: Someone, bob: Someone) -> None:
    await world.change(lambda tx: store_words(tx, alice, bob))

    def read(conn: Any) -> dict[str, list[str]]:
        return {
            str(column): [text for text in conn.scalars(select(column)) if text]
            for table in metadata.sorted_tables
            for column in table.columns
            if isinstance(column.type, Text)
        }

    found = await world.store.read(read)
    assert not [name for name, texts in found.items() if any("\0" in text for text in texts)]
    shown = {name for name, texts in found.items() if any("one␀two" in text for text in texts)}
    assert shown >= COLUMNS
