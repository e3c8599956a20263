"""Authentication by a bearer token, for the doors over HTTP."""

from __future__ import annotations

from typing import Final

from sshwarma.world import tokens
from sshwarma.world.agents import Agent
from sshwarma.world.events import TokenRevoked
from sshwarma.world.tokens import Token
from sshwarma.world.world import World

INVALID_BEARER: Final = "The bearer token is missing or invalid."
SCOPE_AGENT_KEY: Final = "sshwarma.agent"
"""Key in an HTTP request's scope under which its door writes the id of its agent."""

BEARER_HINT: Final = "Create one over ssh with: token new LABEL"


async def authenticate_bearer(world: World, authorization: str) -> tuple[Agent, Token] | None:
    """Return the agent and the live token of an Authorization header.

    None if the header has no bearer token, the token is not live, or its agent is disabled.
    """
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    revoked_ids: set[str] = set()

    def on_revoked(event: TokenRevoked) -> None:
        revoked_ids.add(event.token_id)

    stop = world.bus.on_event(TokenRevoked, on_revoked)  # one during the read would be missed
    try:
        token = await world.store.read(lambda conn: tokens.find_token(conn, secret.strip()))
    finally:
        stop()
    if token is None or token.id in revoked_ids:
        return None
    agent = world.agents.get(token.agent_id)
    if agent is None or agent.disabled:
        return None
    world.last_use.note_token(token)
    return agent, token
