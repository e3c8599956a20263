"""Sessions of the older protocol, which begin with `initialize`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from sshwarma.common.background import ignore_outcome
from sshwarma.mcp._sdk import connection_of
from sshwarma.mcp.server.clients import McpClients, Visit
from sshwarma.mcp.server.notifications import LIST_EVENTS, ChangeListener, ChangeNotifier, SendEvent
from sshwarma.mcp.server.request_context import RequestContext, visit_of


@dataclass(eq=False)
class LegacySession:
    """Session of the older protocol; keeps its agent present and receives changes."""

    visit: Visit
    listener: ChangeListener


class LegacySessions:
    """Sessions of the older protocol, each stored in the state of its SDK connection."""

    def __init__(self, clients: McpClients, notifier: ChangeNotifier) -> None:
        self._clients = clients
        self._notifier = notifier

    async def get(self, ctx: RequestContext) -> LegacySession:
        """Return the session of a request.

        The first request opens it, because requests can overtake the initialized notification.

        Raises:
            WorldError: if the agent may not connect, or has too many requests open.
        """
        connection = connection_of(ctx.session)
        opening: asyncio.Task[LegacySession] | None = connection.state.get("session")
        if opening is None:
            work = self._open(visit_of(ctx), connection, _make_sender(ctx))
            opening = connection.state["session"] = asyncio.get_running_loop().create_task(work)
            opening.add_done_callback(ignore_outcome)
        return await asyncio.shield(opening)

    async def _open(self, opened: Visit, connection: Any, send: SendEvent) -> LegacySession:
        visit = await self._clients.open_visit(opened.client.agent_id, opened.token)
        visit.is_session = True
        session = LegacySession(visit, ChangeListener(visit, send, LIST_EVENTS))
        connection.exit_stack.callback(self._close, session)
        await self._notifier.add_listener(session.listener)
        if opened not in opened.client.visits:  # it closed meanwhile, so nothing else ends this
            self._close(session)
        return session

    def _close(self, session: LegacySession) -> None:
        self._notifier.remove_listener(session.listener)
        session.visit.close()


def _make_sender(ctx: RequestContext) -> SendEvent:
    """Return a function that sends events as notifications of the request's session."""
    session = ctx.session

    async def send(event: ServerEvent) -> None:
        if isinstance(event, ToolsListChanged):
            await session.send_tool_list_changed()
        elif isinstance(event, PromptsListChanged):
            await session.send_prompt_list_changed()
        elif isinstance(event, ResourceUpdated):
            await session.send_resource_updated(event.uri)
        else:
            await session.send_resource_list_changed()

    return send
