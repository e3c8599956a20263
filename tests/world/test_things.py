"""Things: names, the tree, going and coming back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext

from sshwarma.world import names, things
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.people import Someone, do, make, refused


async def reread(world: World, thing: Thing) -> Thing | None:
    return await world.store.read(lambda conn: things.get_thing(conn, thing.id))


async def test_live_name_is_unique_per_bag_and_kind(world: World) -> None:
    await make(world, "lobby", "data", "note")
    with pytest.raises(Conflict, match="A data named note already exists"):
        await make(world, "lobby", "data", "note")
    await make(world, "lobby", "reference", "note")
    await make(world, "home", "data", "note")


async def test_qualified_name_is_unique_until_deleted(
    world: World,
) -> None:
    first = await make(world, "mcps", "tool", "sample", qualified_name="holler:sample")
    with pytest.raises(Conflict, match="holler:sample already exists"):
        await make(world, "mcps", "tool", "other", qualified_name="holler:sample")
    await world.change(lambda tx: things.delete_thing(tx, first))
    second = await make(world, "mcps", "tool", "other", qualified_name="holler:sample")
    found = await world.store.read(lambda c: things.find_by_qualified_name(c, "holler:sample"))
    assert found == second
    with pytest.raises(Conflict, match="holler:sample already exists"):
        await world.change(lambda tx: things.restore_thing(tx, first))


async def test_concurrent_creation_of_one_name_succeeds_once(alice: Someone, bob: Someone) -> None:
    results = await asyncio.gather(
        do(alice, "/create studio"), do(bob, "/create studio"), return_exceptions=True
    )
    refusals = [result for result in results if isinstance(result, Conflict)]
    assert [refusal.message for refusal in refusals] == ["A room named studio already exists."]
    assert refusals[0].hint_for(PERSON) == "Enter it with /join studio."
    rooms = [room.name for room in await alice.world.rooms()]
    assert rooms.count("studio") == 1
    assert sorted([alice.room_id == "lobby", bob.room_id == "lobby"]) == [False, True]


async def test_delete_is_soft_and_restore_returns_the_same_thing(world: World) -> None:
    thing = await make(world, "lobby", "data", "note", content="words", metadata={"a": 1})
    inside = await make(world, thing.id, "data", "inner")
    await world.change(lambda tx: things.delete_thing(tx, thing))
    gone = await reread(world, thing)
    assert gone is not None and gone.deleted_at is not None
    assert await world.store.read(lambda c: things.read_children(c, "lobby")) == []
    back = await world.change(lambda tx: things.restore_thing(tx, thing))
    assert (back.id, back.content, back.metadata) == (thing.id, "words", {"a": 1})
    assert await world.store.read(lambda c: things.read_children(c, thing.id)) == [inside]


async def test_restore_is_refused_if_the_name_is_taken_or_the_bag_is_gone(world: World) -> None:
    bag = await make(world, "lobby", "container", "box")
    old = await make(world, bag.id, "data", "note")
    await world.change(lambda tx: things.delete_thing(tx, old))
    await make(world, bag.id, "data", "note")
    with pytest.raises(Conflict):
        await world.change(lambda tx: things.restore_thing(tx, old))
    other = await make(world, bag.id, "data", "other")
    await world.change(lambda tx: things.delete_thing(tx, other))
    await world.change(lambda tx: things.delete_thing(tx, bag))
    with pytest.raises(NotFound):
        await world.change(lambda tx: things.restore_thing(tx, other))
    assert (await reread(world, other)).deleted_at is not None


@pytest.mark.parametrize("depth", [0, 1, 2, 63, 64, 65, 100])
async def test_thing_cannot_contain_itself(world: World, depth: int) -> None:
    top = await make(world, "lobby", "container", "top")
    bottom = top
    for _ in range(depth):
        bottom = await make(world, bottom.id, "container", "in")
    with pytest.raises(Invalid, match="cannot contain itself"):
        await world.change(lambda tx: things.move_thing(tx, top.id, bottom.id))
    assert (await reread(world, top)).parent_id == "lobby"


async def test_cycle_through_a_deleted_bag_is_refused(world: World) -> None:
    top = await make(world, "lobby", "container", "top")
    middle = await make(world, top.id, "container", "middle")
    bottom = await make(world, middle.id, "container", "bottom")
    await world.change(lambda tx: things.delete_thing(tx, middle))
    with pytest.raises(Invalid, match="cannot contain itself"):
        await world.change(lambda tx: things.move_thing(tx, top.id, bottom.id))


@pytest.mark.parametrize("outer", things.THING_KINDS)
async def test_any_kind_may_contain_any_kind(world: World, outer: str) -> None:
    bag = await make(world, "world", outer, "bag")
    for kind in things.THING_KINDS:
        await make(world, bag.id, kind, "inside")
    inside = await world.store.read(lambda c: things.read_children(c, bag.id))
    assert {thing.kind for thing in inside} == set(things.THING_KINDS)


async def test_move_into_a_bag_with_the_same_name_is_refused(world: World) -> None:
    here = await make(world, "lobby", "data", "note", content="mine")
    await make(world, "home", "data", "note", content="theirs")
    with pytest.raises(Conflict):
        await world.change(lambda tx: things.move_thing(tx, here.id, "home"))
    assert (await reread(world, here)).parent_id == "lobby"


async def test_drop_takes_only_things_in_that_bag(alice: Someone) -> None:
    await do(alice, "/put me:mine = 1")
    await do(alice, "/put ours = 2")
    assert "Unknown thing mine in this room" in (await refused(alice, "/drop room mine")).message
    assert "Unknown thing ours in your bag" in (await refused(alice, "/drop me ours")).message
    await refused(alice, "/drop me alice")
    await do(alice, "/drop room ours")
    assert "Unknown thing ours in this room" in (await refused(alice, "/drop room ours")).message
    await do(alice, "/restore ours")
    assert (await do(alice, "/examine ours")).content == "2"


async def test_restore_takes_the_thing_dropped_last(alice: Someone) -> None:
    await do(alice, "/put note = first")
    await do(alice, "/drop room note")
    await do(alice, "/put note = second")
    await do(alice, "/drop room note")
    await do(alice, "/restore note")
    assert (await do(alice, "/examine note")).content == "second"
    assert "named note already" in (await refused(alice, "/restore note")).message


async def test_things_move_between_bags(alice: Someone, bob: Someone) -> None:
    await do(alice, "/put note = words")
    await do(alice, "/move note to me")
    assert (await do(alice, "/examine me:note")).content == "words"
    await do(alice, "/move note home")
    assert (await do(bob, "/examine home:note")).content == "words"
    assert "build right" in (await refused(bob, "/move home:note to me")).message
    assert "there already" in (await refused(alice, "/move home:note to home")).message
    assert "cannot be moved" in (await refused(alice, "/move @bob to me")).message


async def test_link_stores_a_url(alice: Someone) -> None:
    await do(alice, "/link design https://example.org/design")
    assert (await do(alice, "/examine design")).uri == "https://example.org/design"
    await do(alice, "/link design https://example.org/newer")
    assert (await do(alice, "/examine design")).uri == "https://example.org/newer"
    for uri in ("nothing", "https://[::1", "x:\x1b]0;"):
        assert "is not a URL" in (await refused(alice, f"/link bad {uri}")).message


async def test_things_per_bag_are_limited(alice: Someone) -> None:
    alice.limits = alice.limits.model_copy(update={"bag_things": 2})
    await do(alice, "/put one = 1")
    await do(alice, "/link two https://example.org/")
    for line in ("/put three = 3", "/link three https://example.org/"):
        assert "A bag can have at most 2 things" in (await refused(alice, line)).message
    await do(alice, "/put one = changed")
    await do(alice, "/put me:three = 3")
    assert (
        "A bag can have at most 2 things"
        in (await refused(alice, "/move me:three to room")).message
    )


async def test_bytes_per_thing_are_limited(alice: Someone) -> None:
    alice.limits = alice.limits.model_copy(update={"thing_bytes": 10})
    await do(alice, "/put note = éééé12")
    assert "at most 10" in (await refused(alice, "/put note = éééé123")).message


@pytest.mark.parametrize("name", ["alice", "a", "x" * 32, "qwen-8b", "a_b"])
def test_valid_names_are_accepted(name: str) -> None:
    assert names.check_name(name, "agent") == name


@pytest.mark.parametrize("name", [
    "", "A", "Alice", "1st", "-a", "a b", "a.b", "x" * 33, "álice", "аlice", "ali\u200bce",
    "ali\u202ece", "ali\x00ce", "ali\x1b[2Jce", "ali\nce", "alice\n", "@alice", "a/b", "..",
    "\u2067alice", "\U000e0061lice", "ﬁ",
])  # fmt: skip
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        names.check_name(name, "agent")
    assert caught.value.message.isprintable(), "the refusal shows the name escaped"
    assert caught.value.message.isascii()


@pytest.mark.parametrize("name", ["sshwarma", "system", "room", "me", "all", "sshwarrna", "a11"])
def test_reserved_and_similar_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match=r"reserved|looks too much like"):
        names.check_name(name, "agent")


@pytest.mark.parametrize("name", ["", "-x", ".x", "a b", "x" * 129, "a/b", "ä", "a\x00", "a\n"])
def test_invalid_thing_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        names.check_thing_name(name)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(("short", "full", "back"), [
    ("n", "north", "south"), ("s", "south", "north"), ("e", "east", "west"),
    ("w", "west", "east"), ("u", "up", "down"), ("d", "down", "up"),
    ("ne", "northeast", "southwest"), ("sw", "southwest", "northeast"),
    ("nw", "northwest", "southeast"), ("se", "southeast", "northwest"),
    ("in", "in", "out"), ("out", "out", "in"), ("Attic", "attic", None),
])  # fmt: skip
def test_directions_have_short_forms_and_opposites(short: str, full: str, back: str | None) -> None:
    assert names.parse_direction(short) == full
    assert names.opposite_direction(full) == back


async def test_taken_names_are_no_errors_of_the_database(world: World) -> None:
    """PostgreSQL would refuse the rest of a unit that goes on."""
    note = await make(world, "lobby", "data", "note")
    await make(world, "mcps", "tool", "sample", qualified_name="holler:sample")
    deleted = await make(world, "lobby", "data", "old")
    await world.change(lambda tx: things.delete_thing(tx, deleted))
    await make(world, "lobby", "data", "old")
    failed: list[str] = []

    def work(tx: Change) -> None:
        def note_error(context: ExceptionContext) -> None:
            failed.append(str(context.original_exception))

        event.listen(tx.conn.engine, "handle_error", note_error)
        attempts: tuple[Callable[[], object], ...] = (
            lambda: things.create_thing(tx, "lobby", "data", "note"),
            lambda: things.create_thing(tx, "lobby", "data", "x", qualified_name="holler:sample"),
            lambda: things.update_thing(tx, note.id, name="old"),
            lambda: things.update_thing(tx, note.id, qualified_name="holler:sample"),
            lambda: things.restore_thing(tx, deleted),
        )
        for attempt in attempts:
            with pytest.raises(Conflict):
                attempt()
        event.remove(tx.conn.engine, "handle_error", note_error)
        things.update_thing(tx, note.id, name="note", content="kept")

    await world.change(work)
    assert failed == []
    kept = await reread(world, note)
    assert kept is not None and (kept.name, kept.content) == ("note", "kept")


async def test_thing_needs_a_parent_that_exists(world: World) -> None:
    with pytest.raises(NotFound, match="was deleted"):
        await make(world, "nowhere", "data", "note")


async def test_stored_metadata_is_json_that_every_database_reads(world: World) -> None:
    values = {"a\0": ["\0", {"b": math.nan}], "c": math.inf, "d": "\\u0000", "e": 1.5}
    thing = await make(world, "lobby", "data", "note", metadata=values)
    found = await reread(world, thing)
    assert found is not None
    assert found.metadata == {"a␀": ["␀", {"b": None}], "c": None, "d": "\\u0000", "e": 1.5}
