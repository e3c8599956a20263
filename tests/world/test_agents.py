"""Agents, keys and invites; and what the directory in memory knows of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.world import agents, input_history, invites, login_keys, owners, private_messages
from sshwarma.world import world as world_module
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid, NotFound, Unavailable
from sshwarma.world.events import AgentEvicted, AgentsChanged, Event, KeyRemoved
from sshwarma.world.world import World
from support.people import Someone, arrive, do

F1, F2 = "SHA256:aaaa1first", "SHA256:aaab2second"


async def add(world: World, name: str, **values: Any) -> Agent:
    return await world.change(lambda tx: agents.create_agent(tx, name, **values))


async def give_key(world: World, agent: Agent | Someone, fingerprint: str) -> None:
    await world.change(lambda tx: login_keys.add_key(tx, agent.id, fingerprint, "ssh-ed25519 AAAA"))


@pytest.mark.parametrize(("first", "second"), [
    ("bo0", "boo"), ("bill", "bi1l"), ("bill", "blll"), ("arne", "ame"), ("a-b", "a_b"),
    ("ivvo", "iwo"), ("clan", "dan"), ("kim5", "kims"),
])  # fmt: skip
async def test_name_similar_to_another_is_refused(world: World, first: str, second: str) -> None:
    await add(world, first)
    with pytest.raises(Conflict, match=f"{second} looks too much like {first}"):
        await add(world, second)
    assert world.agents.find_by_name(second) is None


async def test_name_of_a_room_is_refused_as_that_of_an_agent_is(world: World, bob: Someone) -> None:
    """Else a newcomer would find out the names of private rooms."""
    await do(bob, "/create den")
    refusals = []
    for name in ("bob", "den"):
        with pytest.raises(Conflict) as caught:
            await arrive(world, name)
        refusals.append((caught.value.message.replace(name, "NAME"), str(caught.value.hints)))
    assert refusals[0] == refusals[1]


async def test_a_taken_name_is_refused(world: World, bob: Someone) -> None:
    with pytest.raises(Conflict, match="The name bob is taken"):
        await add(world, "bob")


async def test_change_of_an_agent_is_visible_at_once(world: World, bob: Someone) -> None:
    await world.change(lambda tx: owners.set_agent_role(tx, bob.id, "admin"))
    assert world.agents.find_by_name("bob").role == "admin"
    await world.change(lambda tx: agents.update_agent(tx, bob.id, prefs={"bell": "off"}))
    assert bob.agent.prefs == {"bell": "off"}
    await asyncio.gather(
        *(world.change(lambda tx, n=n: agents.create_agent(tx, f"m{n:02}xyz"[:6])) for n in (3, 7))
    )
    assert world.agents.find_by_name("m03xyz") and world.agents.find_by_name("m07xyz")


async def test_agent_directory_equals_the_database(world: World, alice: Someone) -> None:
    bob = await add(world, "bob")
    for agent, fingerprint in ((alice, F1), (bob, F2)):
        await give_key(world, agent, fingerprint)
    await world.change(lambda tx: owners.remove_key(tx, bob.id, F2))
    await world.change(lambda tx: owners.set_agent_disabled(tx, bob.id, True))
    found, keys = await world.store.read(agents.read_agents)
    assert sorted(world.agents, key=lambda a: a.id) == sorted(found, key=lambda a: a.id)
    assert world.agents.keys_of(alice.id) == keys
    assert world.agents.keys_of(bob.id) == []


async def test_last_owner_cannot_be_demoted_or_disabled(world: World, alice: Someone) -> None:
    for work in (
        lambda tx: owners.set_agent_role(tx, alice.id, "admin"),
        lambda tx: owners.set_agent_disabled(tx, alice.id, True),
    ):
        with pytest.raises(Conflict, match="needs an owner with a key, and this is the only one"):
            await world.change(work)
    assert (alice.agent.role, alice.agent.disabled) == ("owner", False)
    other = await add(world, "zoe", role="owner")
    await world.change(lambda tx: owners.set_agent_disabled(tx, alice.id, True))
    with pytest.raises(
        Conflict, match="needs an owner with a key, and this is the only one"
    ):  # a disabled owner does not count
        await world.change(lambda tx: owners.set_agent_role(tx, other.id, "member"))


async def test_key_belongs_to_one_agent(world: World, alice: Someone, bob: Someone) -> None:
    await give_key(world, alice, F1)
    await give_key(world, alice, F2)
    assert world.agents.find_by_key(F1) == world.agents.find_by_key(F2) == alice.agent
    with pytest.raises(Conflict, match="already belongs to alice"):
        await give_key(world, bob, F1)
    await world.change(lambda tx: owners.remove_key(tx, alice.id, F1))
    assert world.agents.find_by_key(F1) is None
    await give_key(world, bob, F1)
    assert world.agents.find_by_key(F1) == bob.agent


async def test_remove_key_takes_a_unique_prefix_and_ends_connections(
    world: World, alice: Someone, bob: Someone
) -> None:
    received: list[Event] = []
    world.bus.on_agent(alice.id, received.append)
    await give_key(world, alice, F1)
    await give_key(world, alice, F2)
    received.clear()
    for wanted, count in (
        ("aaa", "several keys of alice begin with it"),
        ("zzz", "Unknown key SHA256:zzz of alice"),
        ("aaaa1first ", "Unknown key"),
    ):
        with pytest.raises(NotFound, match=count):
            await world.change(lambda tx, wanted=wanted: owners.remove_key(tx, alice.id, wanted))
    with pytest.raises(NotFound):
        await world.change(lambda tx: owners.remove_key(tx, bob.id, F1))
    assert not received
    assert await world.change(lambda tx: owners.remove_key(tx, alice.id, "aaaa1fir")) == F1
    assert [event for event in received if not isinstance(event, AgentsChanged)] == [
        KeyRemoved(alice.id, F1)
    ]


async def test_disabling_an_agent_ends_its_connections(world: World, bob: Someone) -> None:
    received: list[Event] = []
    world.bus.on_agent(bob.id, received.append)
    await world.change(lambda tx: owners.set_agent_disabled(tx, bob.id, True))
    assert [e.room_id for e in received if isinstance(e, AgentEvicted)] == [None]
    assert bob.agent.disabled
    await world.change(lambda tx: owners.set_agent_disabled(tx, bob.id, False))
    assert not bob.agent.disabled


async def test_invite_code_works_once(world: World, alice: Someone) -> None:
    code = (await world.change(lambda tx: invites.create_invite(tx, "guest", 1, alice.id))).code
    stored = await world.store.read(lambda c: c.execute(text("SELECT * FROM invites")).all())
    assert code not in repr(stored), "only the hash is stored"

    async def redeem(name: str, fingerprint: str, with_code: str = code) -> Agent:
        agent, _ = await world.change(
            lambda tx: invites.redeem_invite(tx, with_code, name, fingerprint, "ssh-ed25519 AAAA")
        )
        return agent

    with pytest.raises(Invalid, match="unknown, used or expired"):
        await redeem("carol", F1, code.swapcase())
    with pytest.raises(Conflict, match="taken"):
        await redeem("alice", F1)  # then the code is still good
    with pytest.raises(Invalid, match="reserved"):
        await redeem("system", F1)
    both = await asyncio.gather(redeem("carol", F1), redeem("dave", F2), return_exceptions=True)
    assert sorted(type(result).__name__ for result in both) == ["Agent", "InvalidInviteCode"]
    admitted = next(result for result in both if isinstance(result, Agent))
    assert admitted.role == "guest"
    assert world.agents.find_by_key(F1) == world.agents.find_by_name("carol")
    assert {agent.name for agent in world.agents} == {"alice", admitted.name}
    with pytest.raises(Invalid, match="used"):
        await redeem("erin", "SHA256:e")


async def test_invite_code_expires(world: World) -> None:
    code = (await world.change(lambda tx: invites.create_invite(tx, "member", 1, None))).code
    await world.change(lambda tx: tx.conn.execute(text("UPDATE invites SET expires_at = 1")))
    with pytest.raises(Invalid, match="expired"):
        await world.change(lambda tx: invites.redeem_invite(tx, code, "carol", F1, "k"))
    assert world.agents.find_by_name("carol") is None


async def test_find_takes_a_unique_prefix(world: World, alice: Someone, bob: Someone) -> None:
    bea = await add(world, "bea")
    assert world.agents.find("@ALI").id == alice.id
    assert world.agents.find("bea") == bea
    with pytest.raises(NotFound, match="b is ambiguous: bea, bob"):
        world.agents.find("@b")
    for nobody in ("", "@", "zoe"):
        with pytest.raises(NotFound):
            world.agents.find(nobody)


async def test_input_history_keeps_the_last_lines(
    world: World, alice: Someone, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_history, "MAX_INPUT_HISTORY_LINES", 3)
    typed = [(alice.id, f"a{n}") for n in range(5)] + [(bob.id, "b0")]
    await world.change(lambda tx: input_history.append_input_history(tx, typed))
    await world.change(lambda tx: input_history.append_input_history(tx, [(alice.id, "a5")]))
    read = world.store.read
    assert await read(lambda c: input_history.read_input_history(c, alice.id)) == ["a3", "a4", "a5"]
    assert await read(lambda c: input_history.read_input_history(c, bob.id)) == ["b0"]
    stored = await read(lambda c: c.execute(text("SELECT count(*) FROM input_lines")).scalar())
    assert stored == 4


async def test_private_messages_reach_only_the_two_agents(
    world: World, alice: Someone, bob: Someone, guest: Someone
) -> None:
    heard: list[tuple[str, str]] = []
    for who in (alice, bob, guest):
        world.bus.on_agent(who.id, lambda e, who=who: heard.append((who.name, e.row.content)))
    world.bus.on_room("lobby", lambda e: heard.append(("lobby", e.row.content)))
    forth = await world.change(
        lambda tx: private_messages.send_private_message(tx, alice.id, bob.id, "psst")
    )
    back = await world.change(
        lambda tx: private_messages.send_private_message(tx, bob.id, alice.id, "what")
    )
    assert sorted(heard) == [("alice", "psst"), ("alice", "what"), ("bob", "psst"), ("bob", "what")]
    assert (forth.room_id, forth.seq, back.room_id, back.seq) == (
        forth.room_id,
        1,
        forth.room_id,
        2,
    )

    def check(conn: Any) -> None:
        assert private_messages.find_private_log(conn, bob.id, alice.id) == forth.room_id
        assert private_messages.find_private_log(conn, guest.id, alice.id) is None
        assert private_messages.read_private_logs(
            conn, alice.id
        ) == private_messages.read_private_logs(conn, bob.id)
        assert private_messages.read_private_logs(conn, guest.id) == []
        assert private_messages.read_last_sender(conn, alice.id) == bob.id
        assert private_messages.read_last_sender(conn, bob.id) == alice.id
        assert private_messages.read_last_sender(conn, guest.id) is None

    await world.store.read(check)


async def test_changed_agent_is_read_again_after_a_failed_read(
    world: World, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_module, "AGENT_REFRESH_RETRY_SECONDS", 0.0)
    read, failures = world.store.read, [Unavailable("The database could not be read.")]

    async def fail_once(query: Any) -> Any:
        if failures:
            raise failures.pop()
        return await read(query)

    monkeypatch.setattr(world.store, "read", fail_once)
    published: list[Event] = []
    changed = asyncio.Event()

    def on_event(event: AgentsChanged) -> None:
        published.append(event)
        changed.set()

    world.bus.on_event(AgentsChanged, on_event)
    await world.change(lambda tx: owners.set_agent_disabled(tx, bob.id, True))
    await asyncio.wait_for(changed.wait(), 30)
    assert bob.agent.disabled
    assert published == [AgentsChanged(bob.id)]
