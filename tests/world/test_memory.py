"""Values of a memory, and their earlier ones."""

from __future__ import annotations

import pytest

from sshwarma.common import limits
from sshwarma.world import memory, memory_history, projects
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.events import MemoryChanged, WorldChanged
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone


async def make_project(world: World, by: Someone) -> str:
    made = await world.change(
        lambda tx: projects.get_or_create_project(tx, "/p", owner_id=None, created_by=by.id)
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
        old = await world.store.read(lambda conn: memory_history.read_old_values(conn, scope, "k"))
        return [one.version for one in old]

    async def write(*values: str) -> None:
        for value in values:
            await world.change(
                lambda tx, v=value: memory.write_value(tx, scope, "k", v, author_id=alice.id)
            )

    monkeypatch.setattr(memory_history, "MAX_KEPT_VALUES", 3)
    await write(*"abcdef")
    assert await versions() == [5, 4, 3]
    monkeypatch.setattr(memory_history, "MAX_KEPT_VALUE_BYTES", 10)
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
    old = await world.store.read(lambda conn: memory_history.read_old_values(conn, scope, "k"))
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
