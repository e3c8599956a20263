"""Operations of the command line: keys, agents, invites.

The same functions run inside the server, if one is running, or else on the database. Those that
need a running server are in `server_operations`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, DEFAULT_INVITE_HOURS, MAX_AUDIT_ROWS
from sshwarma.common.times import format_iso
from sshwarma.settings import Settings
from sshwarma.ssh.transport.public_key import UnusableKey, parse_public_key
from sshwarma.world import agents, invites, movement, owners, tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.audit import AuditFilter, Origin, operator, read_audit, record_change
from sshwarma.world.errors import Invalid, NotFound, unknown_name_error
from sshwarma.world.events import Event
from sshwarma.world.store import Change
from sshwarma.world.world import World

T = TypeVar("T")
Json: TypeAlias = Any
Operation: TypeAlias = Callable[..., Awaitable[Json]]

OPERATIONS: Final[dict[str, Operation]] = {}


async def run_operation(
    world: World,
    name: str,
    args: dict[str, Any],
    *,
    settings: Settings | None = None,
    server: object | None = None,
) -> Json:
    """Run an operation by name.

    `world`, `settings` and `server`, the running one, are given to the operations that declare
    them.

    Raises:
        WorldError: with the reason, or if there is no such operation.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise NotFound("Unknown operation.", hint="The server may be an older version.")
    signature = inspect.signature(operation)
    services = {"world": world, "settings": settings, "server": server}
    wanted = [
        services[parameter.name]
        for parameter in signature.parameters.values()
        if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    try:
        signature.bind(*wanted, **args)
    except TypeError as error:
        raise Invalid(f"{name}: {error}.", hint="The server may be another version.") from None
    return await operation(*wanted, **args)


def register_operation(run: Operation) -> Operation:
    """Register an operation under the name of its function.

    Its positional-only parameters are the services that it needs: `world`, `settings`, which are
    those of the server, or None if the caller has none, and `server`, which is None if none is
    running. The others are its arguments.
    """
    OPERATIONS[run.__name__] = run
    return run


@register_operation
async def keys_add(world: World, /, name: str, public_key: str, role: str | None = None) -> Json:
    """Add a login key to an agent, which is created if it does not exist.

    `public_key` is a line as in an OpenSSH .pub file. `role` is the role of a new agent (member if
    None) and changes that of an existing one if given.
    """
    fingerprint, key, comment = _parse_key(public_key)

    def work(tx: Change) -> Agent:
        agent = _find_agent(world, name) or agents.create_agent(tx, name, role=role or "member")
        agents.add_key(tx, agent.id, fingerprint, key, comment)
        if role is not None and role != agent.role:
            owners.set_agent_role(tx, agent.id, role)
        return agent

    agent = await _audited_change(world, f"keys add {name} {fingerprint}", work)
    return {"agent": agent.name, "role": role or agent.role, "fingerprint": fingerprint}


@register_operation
async def recover(world: World, /, name: str, public_key: str) -> Json:
    """Make a person an enabled owner with a key, whatever they were before.

    `public_key` is a line as in an OpenSSH .pub file. `done` of the result is what was changed.
    """
    fingerprint, key, comment = _parse_key(public_key)
    done = await _audited_change(
        world,
        f"recover {name} {fingerprint}",
        lambda tx: owners.recover_owner(tx, name, fingerprint, key, comment),
    )
    return {"agent": name, "fingerprint": fingerprint, "done": done}


@register_operation
async def keys_list(world: World, /, name: str | None = None) -> Json:
    """Every key, or those of one agent."""
    key_owners = (
        [_require_agent(world, name)]
        if name
        else sorted(world.agents, key=lambda agent: agent.name)
    )
    return [
        {"agent": agent.name, "fingerprint": key.fingerprint, "comment": key.comment}
        for agent in key_owners
        for key in world.agents.keys_of(agent.id)
    ]


@register_operation
async def keys_remove(world: World, /, name: str, fingerprint: str) -> Json:
    """Remove a key; its agent's live connections end."""
    agent = _require_agent(world, name)
    key_fingerprint = await _audited_change(
        world,
        f"keys remove {name} {fingerprint}",
        lambda tx: owners.remove_key(tx, agent.id, fingerprint),
    )
    return {"agent": agent.name, "fingerprint": key_fingerprint}


@register_operation
async def agents_list(world: World, /) -> Json:
    """Agents with role, keys and connections, except those of removed models."""
    return [
        {
            "name": agent.name,
            "kind": agent.kind,
            "role": agent.role,
            "disabled": agent.disabled,
            "keys": len(world.agents.keys_of(agent.id)),
            "connections": len(world.presence.connections_of(agent.id)),
        }
        for agent in sorted(world.agents, key=lambda agent: agent.name)
        if not agent.retired
    ]


@register_operation
async def agents_role(world: World, /, name: str, role: str) -> Json:
    """Give an agent a server role."""
    agent = _require_agent(world, name)
    await _audited_change(
        world, f"agents role {name} {role}", lambda tx: owners.set_agent_role(tx, agent.id, role)
    )
    for room_id in movement.rooms_with(world, agent.id):
        await movement.evict_if_closed(world, agent.id, room_id)
    return {"name": agent.name, "role": role}


@register_operation
async def agents_disable(world: World, /, name: str) -> Json:
    """Disable an agent and end its connections."""
    return await _set_agent_disabled(world, name, True)


@register_operation
async def agents_enable(world: World, /, name: str) -> Json:
    """Enable a disabled agent."""
    return await _set_agent_disabled(world, name, False)


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
    invite = await _audited_change(
        world, f"invite {role}", lambda tx: invites.create_invite(tx, role, hours, created_by=None)
    )
    return {"code": invite.code, "role": role, "hours": hours}


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
    agent = _require_agent(world, name)
    label = tokens.check_label(label) if label is not None else ""
    if scope not in tuple(TokenScope):
        raise Invalid(f"Unknown scope {scope}.", hint=f"Choose one of: {', '.join(TokenScope)}.")
    token, secret = await _audited_change(
        world,
        f"token new {name} {label}",
        lambda tx: tokens.issue_token(
            tx, agent_id=agent.id, label=label, days=days, created_by=None, scope=TokenScope(scope)
        ),
    )
    return {
        "agent": agent.name,
        "id": token.id,
        "token": secret,
        "scope": token.scope.value,
        "expires_at": token.expires_at,
    }


@register_operation
async def token_list(world: World, /, name: str | None = None) -> Json:
    """Active tokens, of all agents or of one."""
    agent_id = _require_agent(world, name).id if name else None
    return [
        {
            "agent": world.agents.name_of(token.agent_id),
            "id": token.id,
            "label": token.label,
            "scope": token.scope.value,
            "expires_at": token.expires_at,
        }
        for token in await world.store.read(lambda conn: tokens.read_live_tokens(conn, agent_id))
    ]


@register_operation
async def token_revoke(world: World, /, token_id: str) -> Json:
    """Revoke a token, by its id or the start of it."""
    token = await _audited_change(
        world, f"token revoke {token_id}", lambda tx: tokens.revoke_token(tx, token_id)
    )
    return {"agent": world.agents.name_of(token.agent_id), "id": token.id}


def _parse_key(public_key: str) -> tuple[str, str, str]:
    """Return the fingerprint, the key and the comment of a public key.

    Raises:
        Invalid: if it cannot be used, with the reason.
    """
    try:
        return parse_public_key(public_key)
    except UnusableKey as error:
        raise Invalid(f"Invalid key: {error}.") from error


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
    """The newest audit rows, the oldest first; `since` is in milliseconds since 1970."""
    agent_id = _require_agent(world, name).id if name else None
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


async def _set_agent_disabled(world: World, name: str, disabled: bool) -> Json:
    agent = _require_agent(world, name)
    word = "disable" if disabled else "enable"
    await _audited_change(
        world, f"agents {word} {name}", lambda tx: owners.set_agent_disabled(tx, agent.id, disabled)
    )
    return {"name": agent.name, "disabled": disabled}


async def _audited_change(world: World, action: str, work: Callable[[Change], T]) -> T:
    origin = Origin(os_user=operator.get())  # the change runs in another thread

    def run_with_audit(tx: Change) -> T:
        result = work(tx)
        verb, _, rest = action.partition(" ")
        record_change(tx, door="cli", verb=verb, request=rest, origin=origin)
        return result

    return await world.change(run_with_audit)


async def audit_command(world: World, action: str, event: Event | None = None) -> None:
    """Record a command of the operator that changes no row; publish its event."""

    def work(tx: Change) -> None:
        if event is not None:
            tx.publish_on_commit(event)

    await _audited_change(world, action, work)


def _find_agent(world: World, name: str) -> Agent | None:
    return world.agents.find_by_name(name)


def _require_agent(world: World, name: str) -> Agent:
    agent = _find_agent(world, name)
    if agent is None:
        names = [agent.name for agent in world.agents]
        hint = "List them with: sshwarma agents list"
        raise unknown_name_error("agent", name, known=names, hint=hint)
    return agent
