"""The verb invite: a one-time code with which a newcomer registers a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_INVITE_HOURS, MAX_INVITE_HOURS
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import format_clock, view
from sshwarma.world import invites
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller

InviteRole: TypeAlias = Annotated[str, Arg(choices=("member", "guest", "admin"))]
InviteHours: TypeAlias = Annotated[
    float, Arg("number"), Field(gt=0, le=MAX_INVITE_HOURS, allow_inf_nan=False)
]

ADMIN_ROLE_RIGHT: Final = ArgumentRight("role", Right.OWN, "for an admin", values=("admin",))


@dataclass(frozen=True, slots=True)
class InviteCode:
    """A new invite code, shown this once. `expires_at` is in milliseconds since 1970."""

    code: str
    role: str
    expires_at: int


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
        line(f"  ssh NAME@HOST register {invite.code}"),
    )


@verb(
    "invite",
    section="Access",
    needs=Right.ADMIN,
    also_needs=(ADMIN_ROLE_RIGHT,),
    tool=False,
    ssh_only=True,
    examples=("/invite", "/invite --role guest --hours 2"),
)
async def invite(
    caller: Caller, *, role: InviteRole = "member", hours: InviteHours = DEFAULT_INVITE_HOURS
) -> InviteCode:
    """Make a one-time code for a newcomer.

    Codes work only while the server runs with --registration invite. You can have
    {MAX_OPEN_INVITES} codes that nobody has used.

    Args:
        role: the role of the newcomer on the server (default member).
        hours: time in hours until the code expires (default {DEFAULT_INVITE_HOURS}).
    """
    invites.check_codes_are_used(services_of(caller).settings.registration.mode)
    new_invite = await caller.change(
        lambda tx: invites.create_invite(tx, role, hours, created_by=caller.agent.id)
    )
    return InviteCode(new_invite.code, role, new_invite.expires_at)
