"""Renamed and removed agents: what stays theirs, and what ends."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.admin.operations import run_operation
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, invites, things, tokens, triggers
from sshwarma.world.databases import Location
from sshwarma.world.errors import Conflict, Forbidden, Invalid
from sshwarma.world.events import AgentEvicted, Event, TokenRevoked
from sshwarma.world.store import Change
from sshwarma.world.triggers import Position
from sshwarma.world.world import World
from support.people import Someone, arrive, do, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo one"


async def rename(world: World, name: str, new_name: str) -> Any:
    return await run_operation(world, "agents_rename", {"name": name, "new_name": new_name})


async def remove(world: World, name: str) -> Any:
    return await run_operation(world, "agents_remove", {"name": name})


async def authors(world: World) -> list[str]:
    return [
        world.agents.name_of(row.author_id)
        for row in await world.last_rows("lobby", 50)
        if row.kind == "chat"
    ]


async def test_everything_of_a_renamed_agent_has_the_new_name(
    world: World, alice: Someone, bob: Someone
) -> None:
    await do(bob, "hello")
    await do(bob, "/create den")
    await do(alice, "/tell bob psst")
    old_id = bob.id
    assert await rename(world, "bob", "robert") == {"name": "robert", "old_name": "bob"}
    assert (bob.id, bob.name) == (old_id, "robert")
    assert world.agents.find_by_name("bob") is None
    assert await authors(world) == ["robert"]
    assert "psst" in str(await do(alice, "/history @robert"))
    assert (await world.find_room("den")).members[old_id].role == "owner"
    await do(alice, "/tell robert psst again")
    last = (await world.last_rows(bob.room_id, 1))[0]
    assert (last.kind, last.content) == ("notice", "bob is now called robert")
    newcomer = await arrive(world, "bob")
    assert newcomer.id != old_id
    assert await authors(world) == ["robert"]


async def test_rename_is_checked_as_a_new_name_is(
    world: World, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    for new_name, reason in (
        ("alice", "The name alice is taken"),
        ("a1ice", "looks too much like alice"),
        ("lobby", "The name lobby is taken"),
        ("bob", "bob has that name already"),
    ):
        with pytest.raises(Conflict, match=reason):
            await rename(world, "bob", new_name)
    with pytest.raises(Invalid, match="qwen is a model, and cannot be renamed"):
        await rename(world, "qwen", "llama")
    await rename(world, "bob", "b0b")  # alike, but nobody else's
    assert world.agents.find_by_name("b0b") == bob.agent


async def test_removed_agent_loses_everything_that_lets_it_in(
    world: World, alice: Someone, bob: Someone
) -> None:
    received: list[Event] = []
    world.bus.on_agent(bob.id, received.append)
    world.bus.on_event(TokenRevoked, received.append)
    await run_operation(world, "keys_add", {"name": "bob", "public_key": KEY, "role": "admin"})
    made = await run_operation(world, "token_new", {"name": "bob", "label": "ci"})
    code = await world.change(lambda tx: invites.create_invite(tx, "guest", 1, bob.id))
    await do(bob, "/create den")
    await do(bob, "/create shed")
    await do(bob, "/join lobby")
    await do(alice, "/join shed")
    await do(alice, "/room owner alice")
    assert await remove(world, "bob") == {
        "name": "bob", "keys": 1, "tokens": 1, "invites": 1, "rooms_without_owner": ["den"],
    }  # fmt: skip
    ended = [event for event in received if isinstance(event, AgentEvicted)]
    assert [(event.room_id, event.reason) for event in ended] == [
        (None, "Your account was removed.")
    ]
    assert [e.token_id for e in received if isinstance(e, TokenRevoked)] == [made["id"]]
    with pytest.raises(Forbidden):
        world.agents.get_enabled(bob.id)
    secret = made["token"]
    token = await world.store.read(lambda conn: tokens.find_token(conn, secret))
    assert token is not None and not token.is_live
    assert await run_operation(world, "keys_list", {}) == []
    with pytest.raises(Invalid, match="unknown, used or expired"):
        await world.change(lambda tx: invites.redeem_invite(tx, code.code, "eve", "F", "k"))
    assert (await world.find_room("den")).members == {}
    await do(alice, "/join den")
    await do(alice, "/room owner alice")


async def test_triggers_of_a_removed_agent_are_off(
    world: World, alice: Someone, bob: Someone
) -> None:
    await do(bob, "/create den")

    def turn_on(tx: Change) -> str:
        text = things.create_thing(
            tx, bob.room_id, "data", "trigger:x", content="-- @on row", created_by=bob.id
        )
        return triggers.turn_on(tx, text, bob.id, Position(""))

    trigger_id = await world.change(turn_on)
    await remove(world, "bob")
    found = await world.store.read(lambda conn: triggers.read_trigger(conn, trigger_id))
    assert found is not None and found.off_reason == "the account bob was removed"


async def test_what_a_removed_agent_said_keeps_its_name(
    world: World, database: Location, alice: Someone, bob: Someone
) -> None:
    await do(bob, "hello")
    await do(bob, "/tell alice psst")
    await do(bob, "/alias people = who")
    await remove(world, "bob")
    [row] = await run_operation(world, "audit_list", {"name": "bob"})
    assert (row["agent"], row["verb"]) == ("bob", "alias")
    assert await authors(world) == ["bob"]
    refusal = await refused(alice, "/reply yes?")
    assert refusal.message == "bob, who sent you the last private message, was removed."
    again = await arrive(world, "bob")
    await do(again, "hello too")
    assert await authors(world) == ["bob (removed)", "bob"]
    await run_operation(world, "keys_add", {"name": "bob", "public_key": KEY})
    assert world.agents.keys_of(again.id)
    await world.close()
    reopened = await World.open(database, tool_specs())
    try:
        assert await authors(reopened) == ["bob (removed)", "bob"]
    finally:
        await reopened.close()


async def test_neither_the_last_owner_nor_a_model_is_removed(
    world: World, alice: Someone, qwen: Someone
) -> None:
    with pytest.raises(Conflict, match="needs an owner with a key, and this is the only one"):
        await remove(world, "alice")
    with pytest.raises(Invalid, match="qwen is a model"):
        await remove(world, "qwen")


async def test_key_of_a_removed_agent_can_be_another_ones(
    world: World, alice: Someone, bob: Someone
) -> None:
    await run_operation(world, "keys_add", {"name": "bob", "public_key": KEY})
    await remove(world, "bob")
    done = await run_operation(world, "keys_add", {"name": "carol", "public_key": KEY})
    carol = world.agents.find_by_name("carol")
    assert carol is not None and world.agents.find_by_key(done["fingerprint"]) == carol


async def test_name_of_a_renamed_agent_is_free_at_once(world: World, bob: Someone) -> None:
    """Also if the directory reads the new bearer of the name first."""

    def swap(tx: Any) -> tuple[str, str]:
        agents.rename_agent(tx, bob.id, "robert")
        return bob.id, agents.create_agent(tx, "bob").id

    old_id, new_id = await world.change(swap)
    found = world.agents.find_by_name("bob")
    assert found is not None and found.id == new_id
    assert world.agents.name_of(old_id) == "robert"
