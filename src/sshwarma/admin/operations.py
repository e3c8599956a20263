"""Operations of the command line: keys, agents, invites, tokens, the audit.

The same functions run inside the server, if one is running, or else on the database. Those on keys,
agents and invites stand in files of their own, which register them. Those that need a running
server are in `server_operations`.
"""

from __future__ import annotations

from sshwarma.admin import agent_operations, invite_operations, key_operations
from sshwarma.admin.operation_registry import (
    OPERATIONS,
    Json,
    audited_change,
    find_agent,
    format_days,
    format_time,
    register_operation,
    require_agent,
    run_operation,
)
from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS
from sshwarma.common.times import format_iso
from sshwarma.world import tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.audit import AuditFilter, read_audit
from sshwarma.world.errors import Invalid
from sshwarma.world.world import World

__all__ = [
    "OPERATIONS",
    "agent_operations",
    "invite_operations",
    "key_operations",
    "run_operation",
]


@register_operation
async def token_new(
    world: World,
    /,
    name: str,
    label: str | None = None,
    days: float | None = None,
    scope: str = "act",
) -> Json:
    """Create a bearer token for an agent.

    It expires after `days`; if None, it is valid until it is revoked.
    """
    agent = require_agent(world, name)
    label = tokens.check_label(label) if label is not None else ""
    if scope not in tuple(TokenScope):
        raise Invalid(f"Unknown scope {scope}.", hint=f"Choose one of: {', '.join(TokenScope)}.")
    token, secret = await audited_change(
        world,
        f"token new {name} --scope {scope}{format_days(days)} --label {label}",
        lambda tx: tokens.issue_token(
            tx, agent_id=agent.id, label=label, days=days, created_by=None, scope=TokenScope(scope)
        ),
    )
    return {
        "agent": agent.name,
        "id": token.id,
        "token": secret,
        "scope": token.scope.value,
        "expires_at": format_time(token.expires_at),
    }


@register_operation
async def token_list(world: World, /, name: str | None = None) -> Json:
    """Active tokens, of all agents or of one."""
    agent_id = require_agent(world, name).id if name else None
    return [
        {
            "agent": world.agents.name_of(token.agent_id),
            "id": token.id,
            "label": token.label,
            "scope": token.scope.value,
            "created_at": format_time(token.created_at),
            "expires_at": format_time(token.expires_at),
            "last_used_at": format_time(token.last_used_at),
        }
        for token in await world.store.read(lambda conn: tokens.read_live_tokens(conn, agent_id))
    ]


@register_operation
async def token_revoke(world: World, /, token_id: str) -> Json:
    """Revoke a token, by its id or the start of it."""
    token = await audited_change(
        world, f"token revoke {token_id}", lambda tx: tokens.revoke_token(tx, token_id)
    )
    return {"agent": world.agents.name_of(token.agent_id), "id": token.id}


@register_operation
async def record_command(world: World, /, action: str) -> Json:
    """Record a command that has run outside of the server, such as a backup."""
    await audited_change(world, action, lambda tx: None)


@register_operation
async def audit_list(
    world: World,
    /,
    name: str | None = None,
    verb: str | None = None,
    since: int | None = None,
    after: int | None = None,
    limit: int = DEFAULT_AUDIT_ROWS,
) -> Json:
    """The newest audit rows, the oldest first; `since` is in milliseconds since 1970.

    `name` may be that of a removed agent, if nobody else has it now.
    """
    agent_id = _find_agent_or_removed(world, name) if name else None
    wanted = AuditFilter(agent_id, verb, since, after)
    limit = max(1, min(limit, MAX_AUDIT_ROWS))
    entries = await world.store.read(lambda conn: read_audit(conn, wanted, limit))
    return [
        {
            "n": entry.n,
            "at": format_iso(entry.at),
            "agent": world.agents.name_of(entry.agent_id) if entry.agent_id else None,
            "os_user": entry.origin.os_user or None,
            "room_id": entry.room_id,
            "door": entry.door,
            "verb": entry.verb,
            "request": entry.request,
            "address": entry.origin.address or None,
            "fingerprint": entry.origin.fingerprint or None,
        }
        for entry in entries
    ]


def _find_agent_or_removed(world: World, name: str) -> str:
    """Return the id of the agent with a name, or of the last that had it.

    Raises:
        NotFound: if nobody has or had that name.
    """
    removed_id = world.agents.find_removed(name)
    if find_agent(world, name) is None and removed_id is not None:
        return removed_id
    return require_agent(world, name).id
