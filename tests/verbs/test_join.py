"""Simultaneous moves and evictions: nobody stays where they may not be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sshwarma.admin import operations
from sshwarma.world.access import Right
from sshwarma.world.events import AgentEvicted
from sshwarma.world.ids import now_ms
from support.people import Someone, do


async def may_enter(someone: Someone, room_id: str) -> bool:
    room = await someone.world.room(room_id)
    agent = someone.world.agents.get(someone.id)
    return agent is not None and Right.ENTER in room.rights_of(agent, now=now_ms())


@pytest.mark.parametrize("delay", range(6))
@pytest.mark.parametrize("line", ["/room private", "/ban bob"])
async def test_agent_that_enters_a_closing_room_is_evicted(
    alice: Someone, bob: Someone, line: str, delay: int
) -> None:
    await do(alice, "/create vault")
    vault = alice.room_id
    evicted: list[Any] = []
    bob.world.bus.on_agent(
        bob.id, lambda event: evicted.append(event) if isinstance(event, AgentEvicted) else None
    )

    async def enter() -> None:
        for _ in range(delay):
            await asyncio.sleep(0)
        await do(bob, "/join vault")

    await asyncio.gather(do(alice, line), enter(), return_exceptions=True)
    assert not await may_enter(bob, vault)
    assert bob.room_id != vault or vault in [event.room_id for event in evicted]


async def test_losing_a_server_role_evicts_from_private_rooms(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create vault")
    await do(alice, "/room private")
    vault = alice.room_id
    await operations.run_operation(alice.world, "agents_role", {"name": "bob", "role": "admin"})
    await do(bob, "/join vault")
    evicted: list[Any] = []
    bob.world.bus.on_agent(
        bob.id, lambda event: evicted.append(event) if isinstance(event, AgentEvicted) else None
    )
    await operations.run_operation(alice.world, "agents_role", {"name": "bob", "role": "member"})
    assert [event.room_id for event in evicted] == [vault]


@pytest.mark.parametrize(("role", "is_put_out"), [("member", True), ("admin", False)])
async def test_losing_a_room_role_evicts_unless_entry_is_still_allowed(
    alice: Someone, bob: Someone, role: str, is_put_out: bool
) -> None:
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(alice, "/room builder bob")
    await operations.run_operation(alice.world, "agents_role", {"name": "bob", "role": role})
    await do(bob, "/join vault")
    evicted: list[Any] = []
    bob.world.bus.on_agent(
        bob.id, lambda event: evicted.append(event) if isinstance(event, AgentEvicted) else None
    )
    await do(alice, "/room remove bob")
    assert [event.room_id for event in evicted] == ([alice.room_id] if is_put_out else [])
