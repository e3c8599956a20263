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
from sshwarma.mcp.server.clients import ConnectedAgents, McpConnection
from sshwarma.mcp.server.notifications import LIST_EVENTS, ChangeListener, ChangeNotifier, SendEvent
from sshwarma.mcp.server.request_context import RequestContext, mcp_connection_of


@dataclass(eq=False)
class LegacySession:
    """Session of the older protocol; keeps its agent present and receives changes."""

    connection: McpConnection
    listener: ChangeListener


class LegacySessions:
    """Sessions of the older protocol, each stored in the state of its SDK connection."""

    def __init__(self, clients: ConnectedAgents, notifier: ChangeNotifier) -> None:
        self._clients = clients
        self._notifier = notifier

    async def get(self, ctx: RequestContext) -> LegacySession:
        """Return the session of a request.

        The first request opens it, because requests can overtake the initialized notification.

        Raises:
            WorldError: if the agent may not connect, or has too many requests open.
        """
        sdk_connection = connection_of(ctx.session)
        task: asyncio.Task[LegacySession] | None = sdk_connection.state.get("session")
        if task is None:
            work = self._open(mcp_connection_of(ctx), sdk_connection, _make_sender(ctx))
            task = sdk_connection.state["session"] = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(ignore_outcome)
        return await asyncio.shield(task)

    def find(self, ctx: RequestContext) -> LegacySession | None:
        """Return the open session of a request; None in the newer protocol."""
        task: asyncio.Task[LegacySession] | None = connection_of(ctx.session).state.get("session")
        is_open = task is not None and task.done() and not task.cancelled()
        return task.result() if task and is_open and task.exception() is None else None

    async def _open(
        self, opened: McpConnection, sdk_connection: Any, send: SendEvent
    ) -> LegacySession:
        connection = await self._clients.open_connection(
            opened.client.agent_id, opened.token, opened.origin
        )
        connection.is_session = True
        session = LegacySession(connection, ChangeListener(connection, send, LIST_EVENTS))
        sdk_connection.exit_stack.callback(self._close, session)
        await self._notifier.add_listener(session.listener)
        if (
            opened not in opened.client.connections
        ):  # it closed meanwhile, so nothing else ends this
            self._close(session)
        return session

    def _close(self, session: LegacySession) -> None:
        self._notifier.remove_listener(session.listener)
        session.connection.close()


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
