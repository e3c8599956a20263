"""Arrivals, moves and departures of connections, and the rows announcing them."""

from __future__ import annotations

import contextlib

from sshwarma.world import agents, rooms, rows
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.audit import record_change
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound, Unavailable
from sshwarma.world.events import AgentEvicted
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.presence import AgentConnection
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change
from sshwarma.world.world import World


async def move_caller(
    caller: Caller, target: Room, direction: str = "", *, is_audited: bool = False
) -> Room:
    """Move the caller's connection, or only its remembered place if it has none.

    Returns the room that the caller was in, which may be the target: then nothing changes.
    `is_audited`: whether the request has its audit row already; a move then adds none.

    Raises:
        Forbidden: if the caller may not enter; then nothing has changed.
    """
    await caller.require(Right.ENTER, target)
    world, connection = caller.world, caller.connection
    agent = world.agents.get(caller.agent.id)
    origin = (
        await world.room(caller.room_id) if await _room_exists(world, caller.room_id) else target
    )
    if target.id == (
        connection.room_id if connection else agent.room_id if agent else caller.room_id
    ):
        return target
    leaves = connection is not None and _is_last_connection(world, connection)
    enters = connection is not None and not _has_connection(world, connection, target.id)

    def move(tx: Change) -> None:
        # The room may have been closed since the check: writes are done one after another.
        if not _may_enter(rooms.read_room(tx.conn, target.id), caller.agent, tx.now):
            raise Forbidden(f"You may no longer enter {target.name}.")
        agents.update_agent(tx, caller.agent.id, room_id=target.id)
        if leaves:
            phrase = f"goes {direction} to" if direction else "goes to"
            text = f"{phrase} {target.name}" if target.mode != "private" else "leaves"
            rows.append_row(tx, origin.id, "presence", text, author_id=caller.agent.id)
        if enters:
            arrival = f"arrives from {origin.name}" if origin.mode != "private" else "arrives"
            rows.append_row(tx, target.id, "presence", arrival, author_id=caller.agent.id)

    await (world.change(move) if is_audited else caller.change(move))
    if connection is not None:
        world.presence.move(connection, target.id)
        if await evict_if_closed(world, caller.agent.id, target.id):
            raise Forbidden(f"You may no longer enter {target.name}.")
    return origin


async def check_target(caller: Caller, target: Room) -> Room:
    """Check a move that is not made; return the room that the caller is in.

    Raises:
        Forbidden: if the caller may not enter.
    """
    await caller.require(Right.ENTER, target)
    return await caller.room()


def _may_enter(room: Room, agent: Agent, now: int) -> bool:
    return Right.ENTER in room.rights_of(agent, now=now)


async def evict_if_closed(world: World, agent_id: str, room_id: str, reason: str = "") -> bool:
    """Evict an agent from a room that it may not enter now; return whether it was.

    Call it after its presence has changed: a change of the room's access in the meantime evicts
    only who is present.
    """
    agent = world.agents.get(agent_id)
    room = await world.room(room_id)
    if agent is None or _may_enter(room, agent, now_ms()):
        return False
    reason = reason or f"You may no longer stay in {room.name}."
    world.publish(AgentEvicted(agent_id, reason, room_id))
    return True


async def evict_strangers(world: World, room_id: str, reason: str) -> None:
    """Evict everyone in a room who may not enter it now. Call it after the change."""
    for agent_id in _agents_in(world, room_id):
        await evict_if_closed(world, agent_id, room_id, reason)


def evict_everyone(world: World, room_id: str, reason: str) -> None:
    """Move everyone in a room to the lobby. Call it after the room was deleted."""
    for agent_id in _agents_in(world, room_id):
        world.publish(AgentEvicted(agent_id, reason, room_id))


def rooms_with(world: World, agent_id: str) -> set[str]:
    """Return the rooms in which an agent is present or has requests in progress."""
    connections = world.presence.connections_of(agent_id)
    return {connection.room_id for connection in connections} | world.open_requests.rooms_of(
        agent_id
    )


def _agents_in(world: World, room_id: str) -> list[str]:
    """Return agents that are present in a room or have requests in progress there."""
    present = [present.agent_id for present in world.presence.in_room(room_id)]
    return list(dict.fromkeys([*present, *world.open_requests.agents_in(room_id)]))


async def _room_exists(world: World, room_id: str) -> bool:
    try:
        await world.room(room_id)
    except NotFound:
        return False
    return True


def _is_last_connection(world: World, connection: AgentConnection) -> bool:
    return not any(
        other is not connection and other.room_id == connection.room_id
        for other in world.presence.connections_of(connection.agent_id)
    )


def _has_connection(world: World, connection: AgentConnection, room_id: str) -> bool:
    return any(
        other.room_id == room_id for other in world.presence.connections_of(connection.agent_id)
    )


async def record_arrival(world: World, connection: AgentConnection) -> str:
    """Add a connection to its room; announce the agent at its first connection there.

    Return the reason if the arrival could not be stored, else "". The agent enters anyway, without
    a notice, so that an operator can log in when the disk is full.
    """
    problem = await announce_arrival(world, connection) if world.presence.enter(connection) else ""
    await evict_if_closed(world, connection.agent_id, connection.room_id)
    return problem


async def announce_arrival(
    world: World, connection: AgentConnection, *, may_postpone: bool = False
) -> str:
    """Announce an agent that came to a room; return why that failed, or "".

    With `may_postpone` it may wait for other changes to share their commit.
    """
    try:
        await _announce_presence(world, connection, "arrives", may_postpone=may_postpone)
    except Unavailable as error:
        return str(error)
    return ""


async def record_departure(world: World, connection: AgentConnection) -> None:
    """Remove an ended connection from its room at once, then announce it to the room."""
    if world.presence.leave(connection):
        with contextlib.suppress(Unavailable):  # the store has logged it
            # Nobody waits for it, and those who log out often log in again or are followed.
            await _announce_presence(world, connection, "leaves", may_postpone=True)


async def move_out_of_room(caller: Caller, target_id: str = LOBBY_ID) -> None:
    """Move a connection out of a room that it must leave, without checking rights."""
    connection = caller.connection
    if connection is None or connection.room_id == target_id:
        return
    has_left, has_entered = caller.world.presence.move(connection, target_id)

    def move(tx: Change) -> None:
        agents.update_agent(tx, caller.agent.id, room_id=target_id)
        if has_left:
            rows.append_row(tx, caller.room_id, "presence", "leaves", author_id=caller.agent.id)
        if has_entered:
            rows.append_row(tx, target_id, "presence", "arrives", author_id=caller.agent.id)
        record_change(
            tx,
            door=caller.door,
            verb="move out",
            request=f"to {target_id}",
            agent_id=caller.agent.id,
            room_id=caller.room_id,
            origin=caller.origin,
        )

    await caller.world.change(move)


async def _announce_presence(
    world: World, connection: AgentConnection, text: str, *, may_postpone: bool = False
) -> None:
    room_id, agent_id = connection.room_id, connection.agent_id
    await world.change(
        lambda tx: rows.append_row(tx, room_id, "presence", text, author_id=agent_id),
        may_postpone=may_postpone,
    )
