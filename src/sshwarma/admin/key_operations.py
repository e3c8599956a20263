"""Operations on keys: `sshwarma keys` and `sshwarma recover`."""

from __future__ import annotations

from typing import Any, Literal

from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    find_agent,
    format_days,
    format_time,
    register_operation,
    require_agent,
)
from sshwarma.common.public_key import (
    ParsedKey,
    UnusableKey,
    parse_public_key,
    parse_public_keys,
)
from sshwarma.world import agents, login_keys, owners
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.expiry import compute_expiry
from sshwarma.world.store import Change
from sshwarma.world.world import World


def read_public_keys(text: str) -> list[ParsedKey]:
    """Return the keys of a .pub file, or of an authorized_keys file without options.

    Raises:
        Invalid: if it has no key, or one that cannot be used.
    """
    try:
        return parse_public_keys(text)
    except UnusableKey as error:
        raise Invalid(f"Invalid key: {error}.") from error


@register_operation
async def keys_add(
    world: World,
    /,
    name: str,
    public_key: str,
    role: str | None = None,
    days: float | Literal["never"] | None = None,
) -> Json:
    """Add login keys to an agent, which is created if it does not exist.

    All keys are added or none; those that the agent has already stay.

    Args:
        world: the world.
        name: the agent.
        public_key: lines as in an OpenSSH .pub file, or an authorized_keys file without options.
        role: the role of a new agent (member if None); it changes that of an existing one.
        days: lifetime of the keys, or "never"; those that the agent has already get it, too. If
            None, those stay as they are, and new keys never expire.
    """
    keys = read_public_keys(public_key)
    sets_expiry = days is not None
    _check_no_model(find_agent(world, name))

    def work(tx: Change) -> tuple[Agent, list[dict[str, Any]]]:
        expires_at = None if days == "never" else compute_expiry(tx.now, days)
        done = []
        with owners.keeping_an_owner(tx):
            # From the database: commands before this one may be of the same transaction.
            known = agents.read_agent_named(tx.conn, name)
            agent = known or agents.create_agent(tx, name, role=role or "member")
            for fingerprint, key, comment in keys:
                result = login_keys.ensure_key(
                    tx, agent.id, fingerprint, key, comment, expires_at, sets_expiry=sets_expiry
                )
                done.append({"fingerprint": fingerprint, "comment": comment, "done": result})
            if role is not None and role != agent.role:
                owners.set_agent_role(tx, agent.id, role)
        return agent, done

    options = ("" if role is None else f" --role {role}") + format_days(days)
    # A row for each: one of many keys would lose the last ones.
    lines = [f"keys add {name}{options} {fingerprint}" for fingerprint, _, _ in keys]
    agent, done = await audited_change(world, lines, work)
    expiries = {key.fingerprint: key.expires_at for key in world.agents.keys_of(agent.id)}
    for record in done:
        record["expires_at"] = format_time(expiries.get(record["fingerprint"]))
    return {
        "agent": agent.name,
        "role": role or agent.role,
        "fingerprint": keys[0][0],
        "keys": done,
    }


def _check_no_model(agent: Agent | None) -> None:
    if agent is not None and agent.kind == "model":
        raise Conflict(
            f"{agent.name} is a model, and models do not log in.",
            hint="Add the key to a name of its own.",
        )


@register_operation
async def recover(world: World, /, name: str, public_key: str) -> Json:
    """Make a person an enabled owner with a key, whatever they were before.

    `public_key` is a line as in an OpenSSH .pub file. `done` of the result is what was changed.
    """
    try:
        fingerprint, key, comment = parse_public_key(public_key)
    except UnusableKey as error:
        raise Invalid(f"Invalid key: {error}.") from error
    done = await audited_change(
        world,
        f"recover {name} --role owner {fingerprint}",
        lambda tx: owners.recover_owner(tx, name, fingerprint, key, comment),
    )
    return {"agent": name, "fingerprint": fingerprint, "done": done}


@register_operation
async def keys_list(world: World, /, name: str | None = None) -> Json:
    """Every key, or those of one agent, with the times of its life."""
    key_owners = (
        [require_agent(world, name)] if name else sorted(world.agents, key=lambda agent: agent.name)
    )
    return [
        {
            "agent": agent.name,
            "fingerprint": key.fingerprint,
            "comment": key.comment,
            "created_at": format_time(key.created_at),
            "expires_at": format_time(key.expires_at),
            "expired": key.expired,
            "last_used_at": format_time(key.last_used_at),
        }
        for agent in key_owners
        for key in world.agents.keys_of(agent.id)
    ]


@register_operation
async def keys_remove(world: World, /, name: str, fingerprint: str) -> Json:
    """Remove a key; its agent's live connections end."""
    agent = require_agent(world, name)
    key_fingerprint = await audited_change(
        world,
        lambda whole: f"keys remove {name} {whole}",
        lambda tx: owners.remove_key(tx, agent.id, fingerprint),
    )
    return {"agent": agent.name, "fingerprint": key_fingerprint}
