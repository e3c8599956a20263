"""Authentication by a bearer token, for the doors over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from sqlalchemy import Connection

from sshwarma.world import tokens
from sshwarma.world.agents import Agent
from sshwarma.world.audit import Origin, origin_of_token
from sshwarma.world.doors import Door
from sshwarma.world.events import TokenRevoked
from sshwarma.world.tokens import Token
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

INVALID_BEARER: Final = "The bearer token is missing or invalid."
SCOPE_AGENT_KEY: Final = "sshwarma.agent"
"""Key in an HTTP request's scope under which its door writes the id of its agent."""

BEARER_HINT: Final = "Create one over ssh with: token new LABEL"


async def authenticate_bearer(
    world: World, authorization: str, door: Door, address: str
) -> tuple[Agent, Token] | None:
    """Return the agent and the live token of an Authorization header.

    None if the header has no bearer token, the token is not live, or its agent is disabled. A token
    that is refused is a failed login at that door, from that address.
    """
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    token, agent = await find_holder(world, lambda conn: tokens.find_token(conn, secret.strip()))
    if token is None or agent is None:
        _record_refused_token(world, token, door, address)
        return None
    return agent, token


async def find_holder(
    world: World, find: Callable[[Connection], Token | None], *, is_use: bool = True
) -> tuple[Token | None, Agent | None]:
    """Return a token that is looked up, and whom it lets in now; note its use.

    No agent if the token is not live, or its agent is disabled. What a page asks by itself is no
    use (`is_use`): a session that nobody uses ends.
    """
    revoked_ids: set[str] = set()

    def on_revoked(event: TokenRevoked) -> None:
        revoked_ids.add(event.token_id)

    stop = world.bus.on_event(TokenRevoked, on_revoked)  # one during the read would be missed
    try:
        token = await world.store.read(find)
    finally:
        stop()
    agent = None if token is None else world.agents.get(token.agent_id)
    is_live = token is not None and token.is_live and token.id not in revoked_ids
    if token is None or not is_live or agent is None or agent.disabled:
        return token, None
    if is_use:
        world.last_use.note_token(token)
    return token, agent


def _record_refused_token(world: World, token: Token | None, door: Door, address: str) -> None:
    """Count a token that was refused; record whose it was, if it was anybody's."""
    world.failed_logins.count(door)
    if token is None:
        agent_id, reason = None, "the token is unknown"
        origin = Origin(address)
    else:
        agent_id, name = token.agent_id, world.agents.name_of(token.agent_id)
        agent = world.agents.get(agent_id)
        if token.expired:
            reason = f"the token of {name} has expired"
        elif agent is not None and agent.disabled:
            reason = f"the account of {name} is disabled"
        else:
            reason = f"the token of {name} was revoked"
        origin = origin_of_token(address, token.id)
    if world.failed_logins.record(door, reason, origin, agent_id):
        log.warning("token refused", door=door, address=address, reason=reason)
