"""Checks and notices that equip and load share."""

from __future__ import annotations

from sqlalchemy import Connection

from sshwarma.common.shorten import join_with_rest
from sshwarma.world import loadout
from sshwarma.world.access import missing_role_error
from sshwarma.world.caller import Caller
from sshwarma.world.equip_role import find_missing_role
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

MAX_NOTICE_NAMES = 8
"""Names in the notice of a change; the rest are counted."""


def check_equip_role(conn: Connection, caller: Caller, context: Thing, wanted: list[Thing]) -> None:
    """Raise unless the role of an agent suffices to equip itself with these things.

    Raises:
        Forbidden: naming the first that needs a higher role, and the role.
    """
    is_own = context.id == caller.agent.id
    agent = caller.acting_agent if is_own else caller.world.agents.get(context.id)
    if agent is None:
        return
    chains = loadout.AncestorCache(conn)
    for thing in wanted:
        chain = list(chains.ancestors_of(thing))
        role = find_missing_role(agent, thing, chain)
        if role is not None:
            raise missing_role_error(
                agent,
                role,
                f"to equip itself with {thing.label}",
                caller.world.agents,
                hint=next_call(
                    "Who may build here can equip the room: {}.",
                    "equip",
                    context="room",
                    patterns=thing.label,
                ),
            )


def notify_room(
    tx: Change, caller: Caller, context: Thing, action: str, changed: list[Thing]
) -> None:
    """Append a notice to the log of the room, if the change is to the caller's room.

    `action` is a verb in the past tense: "equipped". At most MAX_NOTICE_NAMES things are named.
    """
    if context.id != caller.room_id or not changed:
        return
    labels = join_with_rest([thing.label for thing in changed], MAX_NOTICE_NAMES)
    caller.append_notice(tx, f"{action} {labels}")
