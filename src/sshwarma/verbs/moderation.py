"""The verbs of moderation: kick, mute, unmute, ban and unban."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sshwarma.common.limits import DEFAULT_MUTE_MINUTES, PERMANENT_BAN_MINUTES
from sshwarma.common.units import MINUTE_MS
from sshwarma.services import services_of
from sshwarma.verbs.arguments import AgentName, Minutes, Text
from sshwarma.verbs.registry import Spelling, verb
from sshwarma.verbs.rights import RankRight
from sshwarma.verbs.thing_completion import BannedName, MutedName, PresentName
from sshwarma.verbs.views import Confirmation
from sshwarma.world import access, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.events import AgentEvicted
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change


@verb(
    "kick",
    section="Access",
    needs=Right.MODERATE,
    also_needs=(RankRight("name", "kick"),),
    tool=False,
    examples=("/kick bob", "/kick bob cool down"),
)
async def kick(caller: Caller, name: PresentName, reason: Text | None = None) -> Confirmation:
    """Kick somebody out of this room.

    They go to the lobby and may come back, unless they are banned.

    For people:
        /ban keeps them out.

    Args:
        name: the agent.
        reason: text of the notice to them and to the room.
    """
    here = await caller.room()
    target = caller.world.agents.find(name)
    if not any(link.room_id == here.id for link in caller.world.presence.connections_of(target.id)):
        raise NotFound(f"{target.name} is not in {here.name}.")
    if here.id == LOBBY_ID:
        raise Conflict(
            "You cannot kick anyone from the lobby.",
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


@dataclass(frozen=True, slots=True)
class Sanction:
    """A mute or a ban.

    `past`: what is done to somebody; `place`: the word before the room.
    """

    past: str
    place: str
    default_minutes: int

    @property
    def column(self) -> str:
        """The column of a member that holds its end."""
        return f"{self.past}_until"


MUTE: Final = Sanction("muted", "in", DEFAULT_MUTE_MINUTES)
BAN: Final = Sanction("banned", "from", PERMANENT_BAN_MINUTES)


@verb(
    "mute",
    section="Access",
    needs=Right.MODERATE,
    also_needs=(RankRight("name", "mute"),),
    tool=False,
    spellings={"off": Spelling("unmute"), "forever": Spelling("mute", {"minutes": "forever"})},
    examples=("/mute bob", "/mute bob 10", "/mute bob forever"),
)
async def mute(
    caller: Caller, name: AgentName, minutes: Minutes | None = None, reason: Text | None = None
) -> Confirmation:
    """Stop somebody from talking in this room.

    For people:
        /mute NAME off is the same as /unmute NAME.

    Args:
        name: the agent.
        minutes: duration in minutes, or forever (default {DEFAULT_MUTE_MINUTES}).
        reason: text of the notice to them and to the room.
    """
    return await _impose(caller, MUTE, name, minutes, reason)


@verb(
    "unmute",
    section="Access",
    needs=Right.MODERATE,
    also_needs=(RankRight("name", "unmute"),),
    tool=False,
    examples=("/unmute bob", "/unmute bob welcome back"),
)
async def unmute(caller: Caller, name: MutedName, reason: Text | None = None) -> Confirmation:
    """End a mute in this room.

    Args:
        name: the agent.
        reason: text of the notice to the room.
    """
    return await _lift(caller, MUTE, name, reason)


@verb(
    "ban",
    section="Access",
    needs=Right.MODERATE,
    also_needs=(RankRight("name", "ban"),),
    tool=False,
    spellings={"off": Spelling("unban"), "forever": Spelling("ban", {"minutes": "forever"})},
    examples=("/ban bob", "/ban bob 1440 spam"),
)
async def ban(
    caller: Caller, name: AgentName, minutes: Minutes | None = None, reason: Text | None = None
) -> Confirmation:
    """Keep somebody out of this room.

    For people:
        /ban NAME off is the same as /unban NAME.

    Args:
        name: the agent.
        minutes: duration in minutes, or forever (default forever).
        reason: text of the notice to them and to the room.
    """
    return await _impose(caller, BAN, name, minutes, reason)


@verb(
    "unban",
    section="Access",
    needs=Right.MODERATE,
    also_needs=(RankRight("name", "unban"),),
    tool=False,
    examples=("/unban bob", "/unban bob welcome back"),
)
async def unban(caller: Caller, name: BannedName, reason: Text | None = None) -> Confirmation:
    """End a ban from this room.

    Args:
        name: the agent.
        reason: text of the notice to the room.
    """
    return await _lift(caller, BAN, name, reason)


async def _impose(
    caller: Caller,
    sanction: Sanction,
    name: str,
    minutes: int | Literal["forever"] | None,
    reason: str | None,
) -> Confirmation:
    """Mute or ban somebody for a number of minutes, by default those of the sanction."""
    here = await caller.room()
    target = caller.world.agents.find(name)
    length = PERMANENT_BAN_MINUTES if minutes == "forever" else minutes or sanction.default_minutes
    until = now_ms() + length * MINUTE_MS
    suffix = f": {reason}" if reason else ""

    def work(tx: Change) -> None:
        values = {sanction.column: until, "reason": reason}
        access.set_member(tx, here.id, target.id, created_by=caller.agent.id, **values)
        notice = f"{caller.agent.name} {sanction.past} {target.name}{suffix}"
        rows.append_row(tx, here.id, "notice", notice, author_id=None)
        if sanction is BAN:
            tx.publish_on_commit(
                AgentEvicted(target.id, f"You are banned from {here.name}{suffix or '.'}", here.id)
            )

    await caller.change(work)
    if target.kind == "model":
        services_of(caller).turns.stop(here.id, agent_id=target.id, by=caller.agent.name)
    span = "forever" if length >= PERMANENT_BAN_MINUTES else f"for {length} min"
    return Confirmation(f"{target.name} is {sanction.past} {sanction.place} {here.name} {span}.")


async def _lift(caller: Caller, sanction: Sanction, name: str, reason: str | None) -> Confirmation:
    """End the mute or ban of somebody.

    Raises:
        Conflict: if there is nothing to end.
    """
    here = await caller.room()
    target = caller.world.agents.find(name)
    place = f"{sanction.place} {here.name}"
    if (getattr(here.members.get(target.id), sanction.column, None) or 0) <= now_ms():
        raise Conflict(f"{target.name} is not {sanction.past} {place}.")
    await caller.change(
        lambda tx: access.set_member(
            tx, here.id, target.id, created_by=caller.agent.id, **{sanction.column: None}
        ),
        f"un{sanction.past} {target.name}{f': {reason}' if reason else ''}",
    )
    return Confirmation(f"{target.name} is no longer {sanction.past} {place}.")
