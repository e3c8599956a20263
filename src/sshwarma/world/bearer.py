"""Authentication by a bearer token, for the doors over HTTP."""

from __future__ import annotations

from typing import Final

from sshwarma.world import tokens
from sshwarma.world.agents import Agent
from sshwarma.world.tokens import Token
from sshwarma.world.world import World

INVALID_BEARER: Final = "The bearer token is missing or invalid."
BEARER_HINT: Final = "Create one over ssh with: token new LABEL"


async def authenticate_bearer(world: World, authorization: str) -> tuple[Agent, Token] | None:
    """Return the agent and the live token of an Authorization header.

    None if the header has no bearer token, the token is not live, or its agent is disabled.
    """
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = await world.store.read(lambda conn: tokens.find_token(conn, secret.strip()))
    agent = world.agents.get(token.agent_id) if token else None
    return None if token is None or agent is None or agent.disabled else (agent, token)
