"""The verbs of `/invite`: one-time codes with which newcomers register keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_INVITE_HOURS, MAX_INVITE_HOURS
from sshwarma.services import services_of
from sshwarma.settings import make_register_command
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ArgumentRight, DataRight
from sshwarma.verbs.views import (
    SHOWN_ID_CHARACTERS,
    Confirmation,
    draw_columns,
    format_clock,
    view,
)
from sshwarma.world import invites
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import next_call

InviteRole: TypeAlias = Annotated[str, Arg(choices=("member", "guest", "admin"))]
InviteHours: TypeAlias = Annotated[
    float, Arg("number"), Field(gt=0, le=MAX_INVITE_HOURS, allow_inf_nan=False)
]

ADMIN_ROLE_RIGHT: Final = ArgumentRight("role", Right.OWN, "for an admin", values=("admin",))
OTHERS_INVITE_RIGHT: Final = DataRight(Right.OWN, "for an invite that somebody else made")
COMMAND_LINE: Final = "command line"
"""The maker of an invite whose command the audit does not have any more."""


@dataclass(frozen=True, slots=True)
class InviteCode:
    """A new invite code, shown this once.

    Attributes:
        expires_at: in milliseconds since 1970.
        command: what the newcomer types.
    """

    id: str
    code: str
    role: str
    expires_at: int
    command: str


@view(InviteCode)
def draw_invite_code(invite: InviteCode) -> Block:
    """Draw an invite code, and the command that uses it."""
    return block(
        line(("mark", invite.code)),
        line(
            (
                "dim",
                f"One-time code for a new {invite.role}, valid until"
                f" {format_clock(invite.expires_at)}.",
            ),
            ("dim", " It is shown only once. The newcomer types, with an ssh key and a free name:"),
            hang=2,
        ),
        line(f"  {invite.command}"),
    )


@dataclass(frozen=True, slots=True)
class InviteListItem:
    """An invite without its code. Times are in milliseconds since 1970.

    Attributes:
        by: who made it; "" for the command line.
        os_user: the user of the machine who ran the command that made it, if that is known.
        state: open, used or expired.
        used_by: who has registered with it; "" if nobody has.
    """

    id: str
    role: str
    by: str
    created_at: int
    expires_at: int
    state: str
    used_by: str
    os_user: str = ""


@dataclass(frozen=True, slots=True)
class InviteList:
    """Invites, the oldest first."""

    invites: tuple[InviteListItem, ...]


@view(InviteList)
def draw_invite_list(result: InviteList) -> Block:
    """Draw invites in columns."""
    if not result.invites:
        return block(line("There are no invites. ", ("verb", "/invite"), " makes one."))
    return block(
        line(("heading", "Invites:")),
        *draw_columns(
            (
                ("mark", item.id[:SHOWN_ID_CHARACTERS]),
                item.role,
                ("time", format_clock(item.created_at)),
                f"by {item.by or f'({item.os_user or COMMAND_LINE})'}",
                _draw_state(item),
            )
            for item in result.invites
        ),
    )


def _draw_state(item: InviteListItem) -> str:
    if item.used_by:
        return f"used by {item.used_by}"
    if item.state == "void":
        return "void: its maker may not invite any more"
    return f"{'expired' if item.state == 'expired' else 'until'} {format_clock(item.expires_at)}"


async def complete_invites(request: CompletionRequest) -> list[Option]:
    """List the ids of the invites that can be revoked."""
    caller = request.caller
    return [
        (invite.id, f"{invite.role}, until {format_clock(invite.expires_at)}")
        for invite in await _read_visible_invites(caller)
        if invite.state == "open"
    ]


InviteId: TypeAlias = Annotated[str, Arg(complete=complete_invites)]
"""An invite by its id, or the start of it."""

invite = group(
    "invite",
    section="Access",
    default="new",
    doc="""Make, list and revoke codes with which newcomers register their keys.

    A code works once, and only while the server runs with --registration invite.
    """,
)


@invite.verb(
    "new",
    needs=Right.ADMIN,
    also_needs=(ADMIN_ROLE_RIGHT,),
    tool=False,
    ssh_only=True,
    examples=("/invite", "/invite --role guest --hours 2"),
)
async def create_invite(
    caller: Caller, *, role: InviteRole = "member", hours: InviteHours = DEFAULT_INVITE_HOURS
) -> InviteCode:
    """Make a one-time code for a newcomer.

    Codes work only while the server runs with --registration invite. You can have
    {MAX_OPEN_INVITES} codes that nobody has used.

    Args:
        role: the role of the newcomer on the server (default member).
        hours: time in hours until the code expires (default {DEFAULT_INVITE_HOURS}).
    """
    settings = services_of(caller).settings
    invites.check_codes_are_used(settings.registration.mode)
    new_invite = await caller.change(
        lambda tx: invites.create_invite(tx, role, hours, created_by=caller.agent.id)
    )
    command = make_register_command(settings.ssh.listen, settings.http.public_url, new_invite.code)
    return InviteCode(new_invite.id, new_invite.code, role, new_invite.expires_at, command)


@invite.verb(
    "list",
    needs=Right.ADMIN,
    also_needs=(OTHERS_INVITE_RIGHT,),
    tool=False,
    ssh_only=True,
    examples=("/invite list",),
)
async def list_invites(caller: Caller) -> InviteList:
    """List the invites that you have made; an owner sees all.

    The newest {MAX_LISTED_INVITES} are listed, without their codes, which are not stored.
    """
    name_of = caller.world.agents.name_of
    return InviteList(
        tuple(
            InviteListItem(
                id=found.id,
                role=found.role,
                by=name_of(found.created_by) if found.created_by is not None else "",
                created_at=found.created_at,
                expires_at=found.expires_at,
                state=found.state,
                used_by=name_of(found.used_by) if found.used_by is not None else "",
                os_user=found.os_user,
            )
            for found in await _read_visible_invites(caller)
        )
    )


@invite.verb(
    "revoke",
    needs=Right.ADMIN,
    also_needs=(OTHERS_INVITE_RIGHT,),
    tool=False,
    ssh_only=True,
    examples=("/invite revoke 0199",),
)
async def revoke_invite(caller: Caller, invite_id: InviteId) -> Confirmation:
    """Revoke an invite that nobody has used: its code admits nobody any more.

    Args:
        invite_id: its id, or the start of it.
    """
    lists = next_call("{} lists them.", "invite list")
    found = await caller.world.store.read(lambda conn: invites.find_invite(conn, invite_id, lists))
    await OTHERS_INVITE_RIGHT.require(caller, owner_id=found.created_by)
    await caller.change(lambda tx: invites.revoke_invite(tx, found.id))
    return Confirmation(f"Revoked the invite {found.id} for a new {found.role}.")


async def _read_visible_invites(caller: Caller) -> list[invites.Invite]:
    """Return the caller's own invites; of an owner, all."""
    made_by = None if await OTHERS_INVITE_RIGHT.is_met(caller) else caller.agent.id
    return await caller.world.store.read(lambda conn: invites.read_invites(conn, made_by))
