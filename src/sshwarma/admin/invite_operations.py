"""Operations on invites: `sshwarma invite`."""

from __future__ import annotations

from sshwarma.admin.operation_registry import Json, audited_change, register_operation
from sshwarma.common.limits import DEFAULT_INVITE_HOURS
from sshwarma.settings import Settings
from sshwarma.world import invites
from sshwarma.world.world import World


@register_operation
async def registration_show(settings: Settings | None, /) -> Json:
    """Registration of a running server: mode, role, ssh address; None if unknown."""
    if settings is None:
        return None
    registration = settings.registration
    return {"mode": registration.mode, "role": registration.role, "listen": settings.ssh.listen}


@register_operation
async def invite(
    world: World,
    settings: Settings | None,
    /,
    role: str = "member",
    hours: float = DEFAULT_INVITE_HOURS,
) -> Json:
    """Create a one-time code for a new agent.

    Raises:
        Conflict: unless the server registers new keys with a code.
    """
    if settings is not None:
        invites.check_codes_are_used(settings.registration.mode)
    invite = await audited_change(
        world, f"invite {role}", lambda tx: invites.create_invite(tx, role, hours, created_by=None)
    )
    return {"code": invite.code, "role": role, "hours": hours}
