"""Equipping: changes, repetitions, names without a match, and the rows behind it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.common.limits import MAX_EQUIP_PATTERNS
from sshwarma.world import equipment
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.world import World
from support.people import Someone, do, make, refused, tool_names


async def row_of(world: World, context: str, thing: str) -> Any:
    query = text("SELECT * FROM equipped WHERE context_id = :c AND thing_id = :t")
    return await world.store.read(lambda c: c.execute(query, {"c": context, "t": thing}).first())


async def test_equip_is_idempotent_and_reports_each_name(alice: Someone) -> None:
    done = await do(alice, "/equip room sshwarma:put,look,nothing-like-it")
    assert done.changed == ("sshwarma:put",)
    assert done.already == ("sshwarma:look",)
    assert done.unmatched == ("sshwarma:nothing-like-it",)
    again = await do(alice, "/equip room sshwarma:put")
    assert (again.changed, again.already) == ((), ("sshwarma:put",))


async def test_unequip_keeps_the_row_and_equip_restores_it(alice: Someone) -> None:
    await do(alice, "/equip room sshwarma:put --priority 7")
    made = await row_of(alice.world, "lobby", "tool_put")
    await do(alice, "/unequip room sshwarma:put")
    off = await row_of(alice.world, "lobby", "tool_put")
    assert off.deleted_at is not None
    assert (await do(alice, "/unequip room sshwarma:put")).already == ("sshwarma:put",)
    await do(alice, "/equip room sshwarma:put")
    assert await row_of(alice.world, "lobby", "tool_put") == made
    await do(alice, "/equip room sshwarma:put --priority 2")
    assert (await row_of(alice.world, "lobby", "tool_put")).priority == 2
    assert (await do(alice, "/examine sshwarma:put")).kind == "tool", "the tool itself stays"


async def test_unequip_takes_a_list_of_names(alice: Someone) -> None:
    await do(alice, "/create calm")
    done = await do(alice, "/unequip room sshwarma:join,leave,go,create")
    assert sorted(done.changed) == [f"sshwarma:{n}" for n in ("create", "go", "join", "leave")]
    left = await tool_names(alice.world, alice.room_id, None)
    assert not {"sshwarma:join", "sshwarma:go"} & set(left)
    assert "sshwarma:look" in left


async def test_tool_can_be_off_under_an_equipped_namespace(alice: Someone) -> None:
    world = alice.world
    await make(world, "mcps", "mcp", "holler", id="holler", qualified_name="holler")
    for name in ("play", "sample"):
        await make(world, "holler", "tool", name, id=name, qualified_name=f"holler:{name}")
    await do(alice, "/create studio")
    await do(alice, "/unequip room *")
    await do(alice, "/equip room holler")
    await do(alice, "/unequip room holler:play")
    assert await tool_names(world, alice.room_id, None) == ["holler:sample"]
    assert (await row_of(world, alice.room_id, "play")).deleted_at is not None
    await do(alice, "/equip room holler:*")
    assert await tool_names(world, alice.room_id, None) == ["holler:play", "holler:sample"]
    back = await do(alice, "/unequip room holler:*")
    assert back.changed == ("holler:play", "holler:sample")
    assert back.note == (
        "Still on, because they are loaded in this room: holler:play, holler:sample."
    )
    assert await tool_names(world, alice.room_id, None) == ["holler:play", "holler:sample"]
    off = await do(alice, "/unequip room holler:*")
    assert off.switched_off == ("holler:play", "holler:sample")
    assert await tool_names(world, alice.room_id, None) == []


async def test_things_at_home_can_be_equipped_anywhere(alice: Someone, bob: Someone) -> None:
    await do(alice, "/put prompt:common = be kind")
    await do(alice, "/move prompt:common to home")
    await do(bob, "/create studio")
    assert (await do(bob, "/equip room home:prompt:common")).changed == ("prompt:common",)
    load = await bob.world.loadout(bob.room_id, None)
    assert [item.thing.content for item in load.data] == ["be kind"]


async def test_equip_checks_rights(alice: Someone, bob: Someone, guest: Someone) -> None:
    for line in ("/equip room sshwarma:put", "/unequip room sshwarma:look"):
        assert "build right in lobby" in (await refused(bob, line)).message
    assert "admin right" in (await refused(bob, "/equip @alice sshwarma:look")).message
    assert "admin right" in (await refused(bob, "/equip defaults sshwarma:put")).message
    await do(guest, "/equip me sshwarma:put")
    await do(alice, "/equip @bob sshwarma:put")
    assert await tool_names(alice.world, None, bob.id) == ["sshwarma:put"]
    wrong = await refused(bob, "/equip chair sshwarma:put")
    assert "one of: room, me, defaults, @agent (got chair)" in str(wrong)


async def test_equip_without_a_match_is_refused(alice: Someone) -> None:
    assert "Nothing matches nope:*" in (await refused(alice, "/equip room nope:*")).message
    assert "Nothing matches" in (await refused(alice, "/unequip me nope")).message


@pytest.mark.parametrize("priority", ["nan", "inf", "-inf", "1e999", "high"])
async def test_invalid_priority_is_refused(alice: Someone, priority: str) -> None:
    await refused(alice, f"/equip room sshwarma:put --priority {priority}")


@pytest.mark.parametrize(("typed", "patterns"), [
    ("sshwarma:join,leave,go", ["sshwarma:join", "sshwarma:leave", "sshwarma:go"]),
    ("sshwarma:join, leave", ["sshwarma:join", "sshwarma:leave"]),
    ("a:x,b:y,z", ["a:x", "b:y", "b:z"]),
    ("a:x b", ["a:x", "b"]),
    ("prompt:style", ["prompt:style"]),
    ("a:x,a:x", ["a:x"]),
    (",,a,", ["a"]),
    ("\"a:*\" 'b:c'", ["a:*", "b:c"]),
])  # fmt: skip
def test_split_patterns_repeats_the_namespace(typed: str, patterns: list[str]) -> None:
    assert equipment.split_patterns(typed) == patterns


def test_the_number_of_patterns_is_bounded() -> None:
    most = ",".join(f"p{n}" for n in range(MAX_EQUIP_PATTERNS))
    assert len(equipment.split_patterns(most)) == MAX_EQUIP_PATTERNS
    with pytest.raises(Invalid, match=f"at most {MAX_EQUIP_PATTERNS} at a time"):
        equipment.split_patterns(f"{most},one-over")
    with pytest.raises(Invalid):
        equipment.split_patterns(" , ")


async def test_only_star_and_question_mark_are_wildcards(world: World) -> None:
    await make(world, "lobby", "data", "a1")
    await make(world, "lobby", "data", "ab")

    async def match(pattern: str) -> list[str]:
        found = await world.store.read(lambda c: equipment.match_things(c, pattern, ["lobby"]))
        return [thing.name for thing in found]

    assert await match("a?") == ["a1", "ab"]
    assert await match("[ab]1") == await match("a[0-9]") == await match("a_") == []
    assert await match("%") == []


async def test_first_bag_wins_for_the_same_name(world: World, bob: Someone) -> None:
    ours = await make(world, "lobby", "data", "note")
    mine = await make(world, bob.id, "data", "note")
    both = await world.store.read(lambda c: equipment.match_things(c, "note", ["lobby", bob.id]))
    assert both == [ours]
    both = await world.store.read(lambda c: equipment.match_things(c, "no*", [bob.id, "lobby"]))
    assert both == [mine]


async def test_wildcard_does_not_match_namespaces(world: World) -> None:
    await make(world, "mcps", "mcp", "holler", qualified_name="holler")
    found = await world.store.read(lambda c: equipment.match_things(c, "h*", []))
    assert found == []
    found = await world.store.read(lambda c: equipment.match_things(c, "holler", []))
    assert [thing.kind for thing in found] == ["mcp"]


async def test_dropped_thing_cannot_be_equipped(alice: Someone) -> None:
    await do(alice, "/put note = x")
    await do(alice, "/equip room note")
    await do(alice, "/drop room note")
    with pytest.raises(NotFound):
        await do(alice, "/equip room note")
    assert (await alice.world.loadout("lobby", None)).data == ()
    await do(alice, "/restore note")
    assert len((await alice.world.loadout("lobby", None)).data) == 1, "it returns as it was"
