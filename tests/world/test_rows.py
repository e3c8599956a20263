"""Logs: appending, reading back, and the tail in memory that equals the database."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest
from cachetools import LRUCache

from sshwarma.world import rows
from sshwarma.world import world as world_module
from sshwarma.world.errors import WorldError
from sshwarma.world.events import RowAppended
from sshwarma.world.reader import PERSON
from sshwarma.world.world import World
from support.people import Someone, do, make, refused
from support.rows import read_rows_after


async def say(world: World, words: str, room: str = "lobby", **values: Any) -> Any:
    return await world.change(
        lambda tx: rows.append_row(tx, room, "chat", words, author_id=None, **values)
    )


async def stored(world: World, room: str = "lobby", limit: int = 200) -> list[tuple[int, str]]:
    found = await world.store.read(lambda c: rows.read_tail(c, room, limit))
    return [(row.seq, row.content) for row in found]


async def remembered(world: World, room: str = "lobby", limit: int = 200) -> list[tuple[int, str]]:
    return [(row.seq, row.content) for row in await world.last_rows(room, limit)]


async def test_row_reads_back_as_announced(world: World, bob: Someone) -> None:
    received: list[RowAppended] = []
    world.bus.on_room("lobby", received.append)
    parent = await say(world, "first")
    await world.change(
        lambda tx: rows.append_row(
            tx, "lobby", "tool.call", "wörds\n\x00\x1b[2J", author_id=bob.id,
            parent_row_id=parent.id, status="running", meta={"tool": "a:b", "é": [1, None]},
            tags=("tool:a:b", "x"),
        )
    )  # fmt: skip
    read = await world.store.read(lambda c: read_rows_after(c, "lobby", 0, 10))
    assert read[1].content == "wörds\n\u2400\x1b[2J"
    assert [event.row for event in received] == read


async def test_read_tail_filters_and_pages(world: World) -> None:
    for n in range(1, 11):
        kind = "journal.note" if n % 3 == 0 else "tool.call" if n % 3 == 1 else "chat"
        await world.change(
            lambda tx, n=n, kind=kind: rows.append_row(tx, "lobby", kind, str(n), author_id=None)
        )

    async def tail(*args: Any, **values: Any) -> list[int]:
        found = await world.store.read(lambda c: rows.read_tail(c, "lobby", *args, **values))
        return [row.seq for row in found]

    assert await tail(3) == [8, 9, 10]
    assert await tail(3, before=4) == [1, 2, 3]
    assert await tail(9, before=1) == []
    assert await tail(2, kinds=rows.CALL_KINDS) == [7, 10]
    assert await tail(9, prefix="journal.") == [3, 6, 9]
    assert await tail(9, prefix="journal_") == []
    assert [r.seq for r in await world.store.read(lambda c: read_rows_after(c, "lobby", 8, 5))] == [
        9,
        10,
    ]
    assert await world.store.read(lambda c: rows.read_last_seq(c, "home")) == 0


async def test_cached_tail_equals_the_database_under_concurrent_appends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_module, "MAX_TAIL_ROWS", 40)
    world._tails = LRUCache(2)
    await make(world, "rooms", "room", "den", id="den")
    rooms = ("lobby", "home", "den")

    async def talk(n: int) -> None:
        for turn in range(5):
            await say(world, f"{n}.{turn}", rooms[(n + turn) % 3])

    async def look(room: str) -> None:
        for limit in (1, 5, 40, 60, 0):
            seen = await remembered(world, room, limit)
            seqs = [seq for seq, _ in seen]
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) if seqs else True
            assert len(seen) <= limit

    await asyncio.gather(*(talk(n) for n in range(40)), *(look(rooms[n % 3]) for n in range(30)))
    for room in rooms:
        for limit in (1, 39, 40, 41):
            assert await remembered(world, room, limit) == await stored(world, room, limit)
    assert await remembered(world, "lobby", 0) == []


async def test_row_read_before_its_announcement_is_not_duplicated(world: World) -> None:
    """The writer has committed and not yet told the loop when a reader starts."""
    settle = world.store._settle
    held: list[Any] = []
    world.store._settle = lambda heard, batch: held.append((heard, batch))
    saying = asyncio.create_task(say(world, "once"))
    while not held:  # noqa: ASYNC110 - the writer's thread announces nothing yet
        await asyncio.sleep(0)
    assert await remembered(world) == [(1, "once")]
    world.store._settle = settle
    settle(*held.pop())
    await saying
    assert await remembered(world) == [(1, "once")] == await stored(world)


async def test_row_appended_during_a_tail_read_is_included(world: World) -> None:
    await say(world, "before")
    read = world.store.read

    async def slowly(query: Any) -> Any:
        found = await read(query)
        await say(world, "meanwhile")
        return found

    world.store.read = slowly
    first = await remembered(world)
    world.store.read = read
    assert first == [(1, "before"), (2, "meanwhile")] == await remembered(world)


async def test_failed_write_leaves_no_gap_in_the_log(world: World) -> None:
    await remembered(world)
    await say(world, "one")

    def fails(tx: Any) -> None:
        rows.append_row(tx, "lobby", "chat", "never", author_id=None)
        raise WorldError("no")

    with pytest.raises(WorldError):
        await world.change(fails)
    await say(world, "two")
    assert await remembered(world) == [(1, "one"), (2, "two")]


async def test_announced_change_is_visible_at_once(world: World, alice: Someone) -> None:
    """A reader that was notified of a change sees it."""
    seen: list[str] = []
    await do(alice, "/look")
    await do(alice, "/describe one")
    seen.append((await do(alice, "/look")).description)
    version = world.version
    await do(alice, "/look")
    assert world.version == version, "looking changes nothing"
    await do(alice, "/describe two")
    seen.append((await do(alice, "/look")).description)
    assert seen == ["one", "two"]
    load = await world.loadout("lobby", alice.id)
    assert await world.loadout("lobby", alice.id) is load, "from memory while nothing changes"
    await do(alice, "/unequip room sshwarma:look")
    assert await world.loadout("lobby", alice.id) is not load


async def test_messages_do_not_change_the_world_version(world: World, alice: Someone) -> None:
    version = world.version
    await do(alice, "hello")
    await do(alice, "/note something")
    assert world.version == version


async def test_history_pages_back_to_the_first_row(alice: Someone) -> None:
    for n in range(1, 8):
        await do(alice, f"line {n}")
    line = "/history 3"
    seen: list[Any] = []
    while line:
        page = await do(alice, line)
        seen = [entry.seq for entry in page.entries] + seen
        older = asdict(page.older) if page.older is not None else None
        line = PERSON.name_call("history show", **older) if older else ""
    assert seen == list(range(1, 8))
    assert [e.seq for e in (await do(alice, "/history 3 --at 4")).entries] == [3, 4, 5]
    assert (await do(alice, "/history --row 2")).entries[0].text == "line 2"
    for wrong in ("0", "1001", "9" * 5000, "²", "x", "-1"):
        await refused(alice, f"/history {wrong}")
    for number in ("0", "9223372036854775808", "9" * 5000):
        for flag in ("before", "at", "row"):
            await refused(alice, f"/history --{flag} {number}")
