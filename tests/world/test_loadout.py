"""Every rule of the docstring of `world/loadout.py`, one test a rule.

The tree machine holds the same rules against random worlds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sshwarma.world import equipment, things
from sshwarma.world.loadout import Loadout
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.people import Someone, do, make, refused, tool_names

Equip = Callable[..., Awaitable[None]]


@pytest.fixture
async def den(world: World) -> Thing:
    """A room with nothing in it and nothing equipped."""
    return await make(world, "rooms", "room", "den")


@pytest.fixture
async def git(world: World) -> Thing:
    """A namespace with a tool, and a nested one with two that loads with it."""
    top = await make(world, "mcps", "mcp", "git", qualified_name="git")
    await make(world, top.id, "tool", "status", qualified_name="git:status", id="status")
    nested = await make(
        world, top.id, "toolset", "branch", qualified_name="git.branch", id="branch",
        metadata={"load_with_parent": True},
    )  # fmt: skip
    for name in ("create", "drop"):
        await make(world, nested.id, "tool", name, qualified_name=f"git.branch:{name}", id=name)
    return top


async def on(world: World, context: str, *ids: str, priority: float | None = None) -> None:
    def work(tx: Any) -> None:
        equipment.equip_things(
            tx, context, [things.get_live_thing(tx.conn, i) for i in ids], priority
        )

    await world.change(work)


async def off(world: World, context: str, *ids: str) -> None:
    """A row that says off."""

    def work(tx: Any) -> None:
        equipment.switch_off_things(tx, context, [things.get_live_thing(tx.conn, i) for i in ids])

    await world.change(work)


EVERY = ["git.branch:create", "git.branch:drop", "git:status"]


async def test_empty_equipment_leaves_only_global_tools(
    world: World, den: Thing, bob: Someone
) -> None:
    load = await world.loadout(den.id, bob.id)
    assert {item.source for item in load.tools} == {"always"}
    assert {item.thing.label for item in load.tools} == {
        "global:expand", "global:help", "global:version", "global:search",
        "global:find_rooms", "global:list_rooms", "global:load_room", "global:unload_room",
    }  # fmt: skip
    assert load.data == ()
    assert await world.loadout(None, None) == Loadout(load.tools, ())


async def test_equipped_tool_is_in_the_loadout(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, "status")
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    assert await tool_names(world, "lobby", None) == await tool_names(world, "lobby", bob.id)
    await off(world, den.id, "status")
    assert await tool_names(world, den.id, bob.id) == []


async def test_equipment_of_an_agent_applies_to_it_alone(
    world: World, den: Thing, git: Thing, bob: Someone, alice: Someone
) -> None:
    await on(world, bob.id, "status")
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    assert await tool_names(world, den.id, alice.id) == []
    assert await tool_names(world, den.id, None) == []


async def test_equipped_namespace_includes_its_tools_and_children(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, git.id)
    assert sorted(await tool_names(world, den.id, bob.id)) == EVERY
    await world.change(lambda tx: things.set_metadata(tx, "branch", load_with_parent=None))
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    await on(world, den.id, "branch")
    assert sorted(await tool_names(world, den.id, bob.id)) == EVERY


async def test_explicit_off_overrides_an_equipped_namespace(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, git.id)
    await off(world, den.id, "create")
    assert await tool_names(world, den.id, bob.id) == ["git.branch:drop", "git:status"]
    await off(world, den.id, "branch")
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    await on(world, den.id, "create")
    assert await tool_names(world, den.id, bob.id) == ["git.branch:create", "git:status"]


async def test_room_row_wins_over_agent_row_of_the_same_level(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, bob.id, "status", git.id)
    await off(world, den.id, "status")
    assert "git:status" not in await tool_names(world, den.id, bob.id)
    assert "git:status" in await tool_names(world, "lobby", bob.id)
    await off(world, den.id, git.id)
    assert await tool_names(world, den.id, bob.id) == []
    await off(world, bob.id, "status", git.id)
    await on(world, den.id, git.id)
    # The tool's own row says more than its namespace's, whosever it is.
    await on(world, den.id, "status")
    assert sorted(await tool_names(world, den.id, bob.id)) == EVERY


async def test_more_specific_row_wins(world: World, den: Thing, git: Thing, bob: Someone) -> None:
    await on(world, den.id, git.id)
    await off(world, bob.id, "create")
    assert "git.branch:create" not in await tool_names(world, den.id, bob.id)
    await off(world, bob.id, "branch")
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    await off(world, den.id, git.id)
    await on(world, bob.id, "branch")
    load = await world.loadout(den.id, bob.id)
    assert [(i.thing.name, i.source) for i in load.tools if i.source != "always"] == [
        ("drop", "agent")
    ]


async def test_auto_loaded_namespace_is_equipped_until_turned_off(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await world.change(lambda tx: things.update_thing(tx, git.id, auto_load=1))
    load = await world.loadout(den.id, bob.id)
    assert {i.thing.label for i in load.usable_tools if i.source == "always"} >= set(EVERY)
    await off(world, den.id, "branch")
    await off(world, bob.id, "status")
    load = await world.loadout(den.id, bob.id)
    assert not {i.thing.label for i in load.tools} & set(EVERY)
    assert {i.thing.label for i in (await world.loadout("lobby", None)).tools} >= set(EVERY)


@pytest.mark.parametrize("pattern", ["git:status", "git"])
async def test_auto_loaded_tools_can_be_unequipped_and_equipped(
    world: World, den: Thing, git: Thing, alice: Someone, pattern: str
) -> None:
    await world.change(lambda tx: things.update_thing(tx, git.id, auto_load=1))
    assert "git:status" in {i.thing.label for i in (await world.loadout("lobby", None)).tools}
    assert (await do(alice, f"/unequip room {pattern} --off")).switched_off == (pattern,)
    assert "git:status" not in {i.thing.label for i in (await world.loadout("lobby", None)).tools}
    again = await do(alice, f"/unequip room {pattern} --off")
    assert (again.changed, again.switched_off, again.already) == ((), (), (pattern,))
    assert "git:status" in {i.thing.label for i in (await world.loadout(den.id, None)).tools}
    await do(alice, f"/equip room {pattern}")
    assert "git:status" in {i.thing.label for i in (await world.loadout("lobby", None)).tools}


async def test_global_tools_cannot_be_unequipped(world: World, den: Thing, alice: Someone) -> None:
    assert "always there" in (await refused(alice, "/unequip room global:help")).message
    await do(alice, "/equip room global:help,version")
    await do(alice, "/unequip room global:help,version")
    await off(world, alice.id, "global")
    load = await world.loadout("lobby", alice.id)
    assert {i.thing.label for i in load.usable_tools} >= {"global:help", "global:version"}


async def test_disabled_tool_or_namespace_is_listed_but_unusable(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, git.id)

    async def obstacles(**columns: int) -> dict[str, str]:
        load = await world.loadout(den.id, bob.id)
        return {i.thing.label: i.obstacle for i in load.tools if i.source != "always"}

    async def switch(thing_id: str, **columns: Any) -> None:
        await world.change(lambda tx: things.update_thing(tx, thing_id, **columns))

    await switch("status", enabled=0)
    assert (await obstacles())["git:status"] == "disabled"
    await switch("status", enabled=1, available=0)
    assert (await obstacles())["git:status"] == "unavailable"
    await switch("status", available=1)
    await switch("branch", enabled=0)
    assert (await obstacles()) == {
        "git:status": "",
        "git.branch:create": "namespace git.branch is disabled",
        "git.branch:drop": "namespace git.branch is disabled",
    }
    await switch("branch", enabled=1)
    await switch("mcps", enabled=0)
    assert set((await obstacles()).values()) == {"namespace mcps is disabled"}
    assert await tool_names(world, den.id, bob.id) == []


async def test_missing_required_states_make_tools_unusable(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, git.id)

    async def meta(thing_id: str, **values: Any) -> None:
        await world.change(lambda tx: things.set_metadata(tx, thing_id, **values))

    await meta("branch", required_states=["repo"])
    await meta("create", required_states=["clean"])
    assert await tool_names(world, den.id, bob.id) == ["git:status"]
    load = await world.loadout(den.id, bob.id)
    assert {i.obstacle for i in load.tools if i.thing.id == "create"} == {"needs clean, repo"}
    await meta(den.id, states=["repo"])
    assert sorted(await tool_names(world, den.id, bob.id)) == ["git.branch:drop", "git:status"]
    await meta(den.id, states=["repo", "clean"])
    assert sorted(await tool_names(world, den.id, bob.id)) == EVERY


async def test_deleted_tool_or_namespace_leaves_the_loadout(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, den.id, "status", "create")
    await on(world, den.id, git.id)
    thing = await world.store.read(lambda c: things.get_live_thing(c, "status"))
    await world.change(lambda tx: things.delete_thing(tx, thing))
    assert "git:status" not in [i.thing.label for i in (await world.loadout(den.id, None)).tools]
    await world.change(lambda tx: things.restore_thing(tx, thing))
    assert "git:status" in await tool_names(world, den.id, bob.id)
    await world.change(lambda tx: things.delete_thing(tx, git))
    load = await world.loadout(den.id, bob.id)
    assert {i.obstacle for i in load.tools if i.thing.id == "create"} == {
        "MCP server git was removed"
    }
    assert await tool_names(world, den.id, bob.id) == []


async def test_tools_lying_in_a_room_are_equipped_there(
    world: World, den: Thing, bob: Someone
) -> None:
    await make(world, den.id, "tool", "lever", qualified_name="den:lever")
    assert await tool_names(world, den.id, bob.id) == ["den:lever"]
    assert "den:lever" not in await tool_names(world, "lobby", bob.id)


async def test_order_is_room_first_then_priority_then_name(
    world: World, den: Thing, git: Thing, bob: Someone
) -> None:
    await on(world, bob.id, "status", priority=-9)
    await on(world, den.id, "create", priority=2)
    await on(world, den.id, "tool_who", "tool_look")
    await on(world, den.id, "drop", priority=-1)
    assert await tool_names(world, den.id, bob.id) == [
        "git.branch:drop", "sshwarma:look", "sshwarma:who", "git.branch:create", "git:status",
    ]  # fmt: skip


async def test_room_data_wins_over_agent_data_of_the_same_name(
    world: World, den: Thing, bob: Someone
) -> None:
    mine = await make(world, bob.id, "data", "prompt:style", content="mine")
    ours = await make(world, den.id, "data", "prompt:style", content="ours")
    other = await make(world, bob.id, "data", "prompt:other")

    async def data() -> list[str]:
        return [item.thing.id for item in (await world.loadout(den.id, bob.id)).data]

    await on(world, bob.id, mine.id, other.id)
    assert sorted(await data()) == sorted([mine.id, other.id])
    await on(world, den.id, ours.id, priority=5)
    assert await data() == [ours.id, other.id]
    await off(world, den.id, ours.id)
    assert await data() == [other.id], "the room says there is no such prompt here"
    assert len((await world.loadout("lobby", bob.id)).data) == 2


async def test_unequipped_thing_does_not_hide_another_of_the_same_name(
    alice: Someone,
) -> None:
    await do(alice, "/put prompt:style = the room's")
    await do(alice, "/put me:prompt:style = alice's")
    await do(alice, "/move me:prompt:style to home")
    await do(alice, "/equip room home:prompt:style")
    await do(alice, "/unequip room home:prompt:style")
    await do(alice, "/equip room prompt:style")
    load = await alice.world.loadout("lobby", alice.id)
    assert [item.thing.content for item in load.data] == ["the room's"]


async def test_fork_copies_equipment(alice: Someone) -> None:
    await do(alice, "/create studio")
    await do(alice, "/put prompt:style = tidy")
    await do(alice, "/put prompt:off = not equipped")
    await do(alice, "/equip room prompt:style --priority 3")
    await do(alice, "/unequip room sshwarma:say")
    source = alice.room_id
    await do(alice, "/fork studio")
    assert alice.room_id != source
    load = await alice.world.loadout(alice.room_id, alice.id)
    assert [(i.thing.name, i.thing.parent_id, i.priority) for i in load.data] == [
        ("prompt:style", alice.room_id, 3.0)
    ]
    assert await tool_names(alice.world, alice.room_id, None) == await tool_names(
        alice.world, source, None
    )


async def test_new_room_copies_the_current_defaults(alice: Someone) -> None:
    await do(alice, "/create first")
    before = await tool_names(alice.world, alice.room_id, None)
    assert before == sorted(before) and "sshwarma:look" in before
    first = alice.room_id
    await do(alice, "/unequip defaults sshwarma:look")
    await do(alice, "/equip defaults sshwarma:put")
    await do(alice, "/create second")
    assert await tool_names(alice.world, first, None) == before
    assert set(await tool_names(alice.world, alice.room_id, None)) == (
        set(before) - {"sshwarma:look"}
    ) | {"sshwarma:put"}


async def test_room_with_nothing_equipped_stays_empty(alice: Someone) -> None:
    await do(alice, "/create bare")
    await do(alice, "/unequip room *")
    assert await tool_names(alice.world, alice.room_id, alice.id) == []
    await do(alice, "/create bare-2")
    assert await tool_names(alice.world, alice.room_id, alice.id) != []
