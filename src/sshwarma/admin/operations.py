"""Operations of the command line: keys, agents, invites, tokens, the audit.

The same functions run inside the server, if one is running, or else on the database. Those on keys,
agents and invites stand in files of their own, which register them. Those that need a running
server are in `server_operations`.
"""

from __future__ import annotations

from dataclasses import asdict

from sshwarma.admin import (
    agent_operations,
    import_operations,
    info_operation,
    invite_operations,
    key_operations,
)
from sshwarma.admin.operation_registry import (
    AGENTS_HINT,
    OPERATIONS,
    Json,
    audited_change,
    format_days,
    format_time,
    register_operation,
    require_agent,
    run_operation,
)
from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS
from sshwarma.verbs.audit_actions import choose_actions
from sshwarma.world import things, tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.audit_list import list_audit
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.store import Change
from sshwarma.world.world import World

__all__ = [
    "OPERATIONS",
    "agent_operations",
    "import_operations",
    "info_operation",
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
    if agent.kind == "model":
        raise Conflict(f"{agent.name} is a model, and models do not log in.")
    label = tokens.check_label(label) if label is not None else ""
    if scope not in tuple(TokenScope):
        raise Invalid(f"Unknown scope {scope}.", hint=f"Choose one of: {', '.join(TokenScope)}.")

    def work(tx: Change) -> tuple[tokens.Token, str]:
        things.get_live_thing(tx.conn, agent.id)  # a command before this one may have removed it
        return tokens.issue_token(
            tx, agent_id=agent.id, label=label, days=days, created_by=None, scope=TokenScope(scope)
        )

    line = f"token new {name} --scope {scope}{format_days(days)} --label {label}"
    token, secret = await audited_change(world, line, work)
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
        for token in await world.store.read(
            lambda conn: tokens.read_live_tokens(conn, agent_id, "program")
        )
    ]


@register_operation
async def token_revoke(world: World, /, token_id: str) -> Json:
    """Revoke a token, by its id or the start of it."""
    token = await audited_change(
        world,
        lambda token: f"token revoke {token.id} of {world.agents.name_of(token.agent_id)}",
        lambda tx: tokens.revoke_token(tx, token_id),
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
    about: str | None = None,
    limit: int = DEFAULT_AUDIT_ROWS,
) -> Json:
    """The newest audit rows, the oldest first; `since` is in milliseconds since 1970."""
    rows = await list_audit(
        world,
        name=name or None,
        verbs=await choose_actions(world, verb) if verb is not None else None,
        since=since,
        after=after,
        about=about or None,
        limit=max(1, min(limit, MAX_AUDIT_ROWS)),
        hint=AGENTS_HINT,
    )
    return [asdict(row) for row in rows]
