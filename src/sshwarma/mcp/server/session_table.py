"""HTTP sessions of each agent; the least recently used makes room for a new one.

Only sessions of the older protocol: a client that ends without closing its session leaves it open
until it has been idle for MCP_SESSION_IDLE_SECONDS.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.types import Message, Receive, Scope, Send

SESSION_HEADER = b"mcp-session-id"

HandleRequest = Callable[[Scope, Receive, Send], Awaitable[None]]


class SessionTable:
    """Ids of open sessions by agent, least recently used first, each with its user."""

    def __init__(self) -> None:
        self._sessions: dict[str, OrderedDict[bytes, AuthenticatedUser]] = {}

    def mark_used(self, agent_id: str, session_id: bytes, user: AuthenticatedUser) -> None:
        """Record that a request opened or used a session."""
        sessions = self._sessions.setdefault(agent_id, OrderedDict())
        sessions[session_id] = user
        sessions.move_to_end(session_id)

    def forget(self, agent_id: str, session_id: bytes) -> None:
        """Record that a session has ended."""
        sessions = self._sessions.get(agent_id)
        if sessions is not None:
            sessions.pop(session_id, None)
            if not sessions:
                del self._sessions[agent_id]

    async def end_oldest(self, agent_id: str, scope: Scope, handle: HandleRequest) -> bool:
        """End the agent's least recently used session, as its client would.

        Args:
            agent_id: the agent.
            scope: the request that needs room; its headers pass the checks of the SDK.
            handle: handles a request.

        Returns whether there was one.
        """
        sessions = self._sessions.get(agent_id)
        if not sessions:
            return False
        session_id, user = next(iter(sessions.items()))
        self.forget(agent_id, session_id)
        headers = [(name, value) for name, value in scope["headers"] if name != SESSION_HEADER]
        headers.append((SESSION_HEADER, session_id))
        await handle(
            {**scope, "method": "DELETE", "headers": headers, "user": user},
            _receive_nothing,
            _send_nowhere,
        )
        return True


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send_nowhere(message: Message) -> None:
    """Drop the response: nobody made the request."""
