"""Operations on invites: `sshwarma invite`."""

from __future__ import annotations

from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    format_time,
    register_operation,
)
from sshwarma.common.limits import DEFAULT_INVITE_HOURS
from sshwarma.settings import Settings, make_register_command
from sshwarma.world import invites
from sshwarma.world.audit import operator
from sshwarma.world.world import World


@register_operation
async def registration_show(settings: Settings | None, /) -> Json:
    """Registration of a running server: mode, role, addresses; None if unknown."""
    if settings is None:
        return None
    registration = settings.registration
    return {
        "mode": registration.mode,
        "role": registration.role,
        "listen": settings.ssh.listen,
        "http": settings.http.listen,
    }


@register_operation
async def invite(
    world: World,
    settings: Settings | None,
    /,
    role: str = "member",
    hours: float = DEFAULT_INVITE_HOURS,
) -> Json:
    """Create a one-time code for a new agent, with the command that uses it.

    Raises:
        Conflict: unless the server registers new keys with a code.
    """
    if settings is not None:
        invites.check_codes_are_used(settings.registration.mode)
    os_user = operator.get()  # the change runs in another thread
    invite = await audited_change(
        world,
        lambda new: f"invite --role {role} --hours {hours:g} {new.id}",
        lambda tx: invites.create_invite(tx, role, hours, created_by=None, os_user=os_user),
    )
    listen, public_url = (settings.ssh.listen, settings.http.public_url) if settings else ("", "")
    return {
        "id": invite.id,
        "code": invite.code,
        "role": role,
        "hours": hours,
        "expires_at": format_time(invite.expires_at),
        "command": make_register_command(listen, public_url, invite.code),
    }


@register_operation
async def invite_list(world: World, /) -> Json:
    """The newest invites, the oldest first, without their codes."""
    name_of = world.agents.name_of
    return [
        {
            "id": found.id,
            "role": found.role,
            "by": name_of(found.created_by) if found.created_by is not None else None,
            "os_user": found.os_user or None,
            "created_at": format_time(found.created_at),
            "expires_at": format_time(found.expires_at),
            "state": found.state,
            "used_by": name_of(found.used_by) if found.used_by is not None else None,
            "used_at": format_time(found.used_at),
        }
        for found in await world.store.read(invites.read_invites)
    ]


@register_operation
async def invite_revoke(world: World, /, invite_id: str) -> Json:
    """Revoke an invite, by its id or the start of it."""
    found = await audited_change(
        world, f"invite revoke {invite_id}", lambda tx: invites.revoke_invite(tx, invite_id)
    )
    return {"id": found.id, "role": found.role}
