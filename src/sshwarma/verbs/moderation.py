"""The verbs of moderation: kick, mute and ban."""

from __future__ import annotations

from typing import Literal

from sshwarma.common.limits import DEFAULT_MUTE_MINUTES
from sshwarma.services import services_of
from sshwarma.verbs.arguments import AgentName, Flag, Minutes, Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation
from sshwarma.world import access, rows
from sshwarma.world.access import PERMANENT_BAN_MINUTES, Right, permission_denied_error
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.events import AgentEvicted
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change

MINUTE_MS = 60_000


@verb(
    "kick",
    section="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/kick bob", "/kick bob cool down"),
)
async def kick(caller: Caller, name: AgentName, reason: Text | None = None) -> Confirmation:
    """Kick somebody out of this room.

    They go to the lobby and may come back, unless they are banned.

    For people:
        /ban keeps them out.

    Args:
        name: the agent.
        reason: text of the notice to them and to the room.
    """
    here = await caller.room()
    target = await _find_lower_ranked(caller, name, "kick")
    if not any(link.room_id == here.id for link in caller.world.presence.connections_of(target.id)):
        raise NotFound(f"{target.name} is not in {here.name}.")
    if here.id == LOBBY_ID:
        raise Conflict(
            "Nobody can be kicked from the lobby.",
            hint=(
                next_call("{} works here.", "mute", name=target.name),
                next_call("So does {}.", "ban", name=target.name),
            ),
        )
    suffix = f": {reason}" if reason else ""

    def work(tx: Change) -> None:
        rows.append_row(
            tx,
            here.id,
            "notice",
            f"{caller.agent.name} kicked {target.name}{suffix}",
            author_id=None,
        )
        message = f"{caller.agent.name} kicked you out of {here.name}{suffix or '.'}"
        tx.publish_on_commit(AgentEvicted(target.id, message, here.id))

    await caller.change(work)
    return Confirmation(f"{target.name} was kicked out of {here.name}.")


@verb(
    "mute",
    section="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/mute bob", "/mute bob 10", "/mute bob off"),
)
async def mute(
    caller: Caller,
    name: AgentName,
    minutes: Minutes | None = None,
    reason: Text | None = None,
    *,
    forever: Flag = False,
    off: Flag = False,
) -> Confirmation:
    """Stop somebody from talking in this room.

    Args:
        name: the agent.
        minutes: duration in minutes (default {DEFAULT_MUTE_MINUTES}).
        reason: text of the notice to them and to the room.
        forever: mute without an end.
        off: end the mute.
    """
    length = _choose_minutes(minutes, DEFAULT_MUTE_MINUTES, forever=forever, off=off)
    return await _mute_or_ban(caller, name, length, reason, "muted")


@verb(
    "ban",
    section="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/ban bob", "/ban bob 1440 spam", "/ban bob off"),
)
async def ban(
    caller: Caller,
    name: AgentName,
    minutes: Minutes | None = None,
    reason: Text | None = None,
    *,
    forever: Flag = False,
    off: Flag = False,
) -> Confirmation:
    """Keep somebody out of this room.

    Args:
        name: the agent.
        minutes: duration in minutes (default: without an end).
        reason: text of the notice to them and to the room.
        forever: ban without an end, the default.
        off: end the ban.
    """
    length = _choose_minutes(minutes, PERMANENT_BAN_MINUTES, forever=forever, off=off)
    return await _mute_or_ban(caller, name, length, reason, "banned")


async def _mute_or_ban(
    caller: Caller,
    name: str,
    minutes: int | None,
    reason: str | None,
    how: Literal["muted", "banned"],
) -> Confirmation:
    """Mute or ban for a number of minutes, or end it if `minutes` is None."""
    here = await caller.room()
    target = await _find_lower_ranked(caller, name, "mute" if how == "muted" else "ban")
    column = f"{how}_until"
    place = f"{'in' if how == 'muted' else 'from'} {here.name}"
    if minutes is None:
        member = here.members.get(target.id)
        if (getattr(member, column, None) or 0) <= now_ms():
            raise Conflict(f"{target.name} is not {how} {place}.")
        await caller.change(
            lambda tx: access.set_member(
                tx, here.id, target.id, created_by=caller.agent.id, **{column: None}
            ),
            f"un{how} {target.name}",
        )
        return Confirmation(f"{target.name} is no longer {how} {place}.")
    until = now_ms() + minutes * MINUTE_MS
    suffix = f": {reason}" if reason else ""

    def work(tx: Change) -> None:
        access.set_member(
            tx, here.id, target.id, created_by=caller.agent.id, reason=reason, **{column: until}
        )
        rows.append_row(
            tx,
            here.id,
            "notice",
            f"{caller.agent.name} {how} {target.name}{suffix}",
            author_id=None,
        )
        if how == "banned":
            tx.publish_on_commit(
                AgentEvicted(target.id, f"You are banned from {here.name}{suffix or '.'}", here.id)
            )

    await caller.change(work)
    if target.kind == "model":
        services_of(caller).turns.stop(here.id, agent_id=target.id, by=caller.agent.name)
    span = "forever" if minutes >= PERMANENT_BAN_MINUTES else f"for {minutes} min"
    return Confirmation(f"{target.name} is {how} {place} {span}.")


def _choose_minutes(minutes: int | None, default: int, *, forever: bool, off: bool) -> int | None:
    """Return the length of a mute or ban; None to end it.

    Raises:
        Invalid: if more than one of the arguments is given.
    """
    if (minutes is not None) + forever + off > 1:
        raise Invalid("Give only one of: minutes, forever, off.")
    if off:
        return None
    return PERMANENT_BAN_MINUTES if forever else minutes or default


async def _find_lower_ranked(caller: Caller, name: str, verb: str) -> Agent:
    """Find an agent whom the caller may kick, mute or ban: one of a lower rank."""
    target = caller.world.agents.find(name)
    if target.id == caller.agent.id:
        raise Invalid(f"You cannot {verb} yourself.")
    now = now_ms()
    here = await caller.room()
    if Right.ADMIN in here.rights_of(target, now) and caller.agent.role != "owner":
        raise permission_denied_error(f"{target.name} is an {target.role} of this server")
    own_rights, target_rights = here.rights_of(caller.agent, now), here.rights_of(target, now)
    if Right.MODERATE in target_rights and Right.ADMIN not in own_rights:
        raise permission_denied_error(f"{target.name} is an owner of {here.name} too")
    return target
