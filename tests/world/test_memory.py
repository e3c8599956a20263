"""Values of a memory, and their earlier ones."""

from __future__ import annotations

import pytest

from sshwarma.common import limits
from sshwarma.world import memory, projects, rows, text_history
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.events import MemoryChanged, WorldChanged
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do


async def test_hint_of_a_value_too_long_for_the_editor_has_no_signs_of_it(alice: Someone) -> None:
    def write(tx: Change) -> None:
        container = memory.get_or_create_session_container(tx, alice.room_id)
        value = "a line\tof words\r\n" * 2_000
        memory.write_value(
            tx, container.id, "long", value, author_id=alice.id, room_id=alice.room_id
        )

    await alice.world.change(write)
    with pytest.raises(Invalid, match="too long for the line editor") as caught:
        await do(alice, "/mem session edit long")
    assert "mem session edit long --base 1 < FILE" in caught.value.hint_for(PERSON)
    await do(alice, "/mem session edit long --base 1 --crlf = a\r\nb\n")
    value = await alice.world.store.read(
        lambda conn: memory.find_value(
            conn, memory.find_session_container(conn, alice.room_id).id, "long"
        )
    )
    assert value.content == "a\r\nb\r\n"


async def test_value_of_an_empty_row_is_empty_for_all_readers(alice: Someone) -> None:
    row = await alice.world.change(
        lambda tx: rows.append_row(tx, alice.room_id, "chat", "", author_id=alice.id)
    )
    for verb in ("get", "chars", "lines"):
        result = await do(alice, f"/mem session {verb} stubs.{row.seq}")
        assert result.exact_text == "", verb


async def make_project(world: World, by: Someone) -> str:
    made = await world.change(
        lambda tx: projects.create_project(tx, "/p", owner_id=None, created_by=by.id)
    )
    return made.id


async def test_a_change_of_a_memory_moves_no_version_of_the_world(
    world: World, alice: Someone
) -> None:
    scope = await make_project(world, alice)
    heard: list[object] = []
    for kind in (MemoryChanged, WorldChanged):
        world.bus.on_event(kind, heard.append)

    def write(tx: Change, value: str) -> memory.WriteOutcome:
        return memory.write_value(tx, scope, "k", value, author_id=alice.id)

    outcomes = [await world.change(lambda tx, v=v: write(tx, v)) for v in ("a", "b", "b")]
    await world.change(lambda tx: memory.delete_value(tx, scope, "k", author_id=alice.id))
    assert outcomes == ["new", "changed", "unchanged"]
    assert [event.done for event in heard if isinstance(event, MemoryChanged)] == [
        "set", "set", "deleted",
    ]  # fmt: skip
    assert len(heard) == 3


async def test_earlier_values_are_kept_up_to_a_number_and_a_size(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = await make_project(world, alice)

    async def versions() -> list[int]:
        old = await world.store.read(lambda conn: text_history.read_old_texts(conn, scope, "k"))
        return [one.version for one in old]

    async def write(*values: str) -> None:
        for value in values:
            await world.change(
                lambda tx, v=value: memory.write_value(tx, scope, "k", v, author_id=alice.id)
            )

    monkeypatch.setattr(text_history, "MAX_KEPT_TEXTS", 3)
    await write(*"abcdef")
    assert await versions() == [5, 4, 3]
    monkeypatch.setattr(text_history, "MAX_KEPT_TEXT_BYTES", 10)
    await write("g" * 20, "h")  # one that is too large stays while it is the newest
    assert await versions() == [7]
    await write("i")
    assert await versions() == [8]


async def test_history_tells_deleted_from_replaced(world: World, alice: Someone) -> None:
    scope = await make_project(world, alice)
    for value in ("a", None, "b", "c"):
        if value is None:
            await world.change(lambda tx: memory.delete_value(tx, scope, "k", author_id=alice.id))
        else:
            await world.change(
                lambda tx, v=value: memory.write_value(tx, scope, "k", v, author_id=alice.id)
            )
    old = await world.store.read(lambda conn: text_history.read_old_texts(conn, scope, "k"))
    assert [(one.version, one.is_deleted) for one in old] == [(2, False), (1, True)]


async def test_a_memory_has_a_number_of_keys(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = await make_project(world, alice)
    monkeypatch.setattr(memory, "MAX_MEMORY_KEYS", 2)

    def write(tx: Change, key: str) -> memory.WriteOutcome:
        return memory.write_value(tx, scope, key, "x", author_id=alice.id)

    for key in ("a", "b"):
        await world.change(lambda tx, k=key: write(tx, k))
    with pytest.raises(Conflict, match="at most 2 keys"):
        await world.change(lambda tx: write(tx, "c"))
    assert await world.change(lambda tx: write(tx, "a")) == "unchanged"


@pytest.mark.parametrize("key", ["", "a\nb", "\x1b[1m", "\u202ea", "k" * 256])
def test_what_cannot_be_a_key(key: str) -> None:
    with pytest.raises(Invalid):
        memory.check_key(key)
    assert limits.MAX_MEMORY_KEY_CHARACTERS == 255
