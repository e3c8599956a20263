"""Methods that subscribe clients to changed lists and resources, in both eras."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import cast

from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import (
    EmptyResult,
    NotificationParams,
    RequestId,
    ServerNotification,
    SubscribeRequestParams,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotification,
    UnsubscribeRequestParams,
)

from sshwarma.common.limits import MAX_SUBSCRIBED_RESOURCES
from sshwarma.mcp.server import resources
from sshwarma.mcp.server.clients import McpConnection
from sshwarma.mcp.server.legacy_session import LegacySessions
from sshwarma.mcp.server.notifications import ChangeListener, ChangeNotifier
from sshwarma.mcp.server.request_context import (
    RequestContext,
    caller_of,
    mcp_connection_of,
    with_mcp_errors,
)
from sshwarma.world.errors import WorldError


class SubscriptionMethods:
    """Subscribes to changes: sessions of the older protocol, streams of the newer."""

    def __init__(self, notifier: ChangeNotifier, sessions: LegacySessions) -> None:
        self._notifier = notifier
        self._sessions = sessions

    async def initialized(self, ctx: RequestContext, params: NotificationParams) -> None:
        """Open the session of a client that confirms its initialization."""
        await self._sessions.get(ctx)

    async def notify_own_changes(self, ctx: RequestContext, before: object) -> None:
        """Notify an agent's clients of changed tools before the result of its call.

        `before` is the signature of its tool list when the call began.

        Then the next request of the calling client has the new list. In a session the notification
        travels with the response, because its own stream could be slower.
        """
        session = self._sessions.find(ctx)

        async def send(event: ServerEvent) -> None:
            await ctx.session.send_notification(
                ToolListChangedNotification(), related_request_id=ctx.request_id
            )

        await self._notifier.notify_own_changes(
            mcp_connection_of(ctx).client, session.listener if session else None, send, before
        )

    async def subscribe(self, ctx: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        """Subscribe a session to a resource.

        Raises:
            MCPError: if the agent may not read it, or has MAX_SUBSCRIBED_RESOURCES subscriptions.
        """
        listener = (await self._sessions.get(ctx)).listener
        await with_mcp_errors(self._notifier.subscribe(listener, params.uri))
        return EmptyResult()

    async def unsubscribe(
        self, ctx: RequestContext, params: UnsubscribeRequestParams
    ) -> EmptyResult:
        """Unsubscribe a session from a resource."""
        (await self._sessions.get(ctx)).listener.uris.pop(params.uri, None)
        return EmptyResult()

    async def listen(
        self, ctx: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Stream changes to a client; resources that it may not read are left out."""
        connection, caller = mcp_connection_of(ctx), caller_of(ctx)
        request = params.notifications
        readable: dict[str, object] = {}
        for uri in (request.resource_subscriptions or [])[:MAX_SUBSCRIBED_RESOURCES]:
            try:
                await resources.check_readable(caller, uri)
            except WorldError:
                continue
            readable[uri] = None
        kinds = {
            ToolsListChanged: request.tools_list_changed,
            PromptsListChanged: request.prompts_list_changed,
            ResourcesListChanged: request.resources_list_changed,
        }
        list_kinds = frozenset(kind for kind, is_wanted in kinds.items() if is_wanted)
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus, max_subscriptions=1)
        sender = _SequentialSender(bus, ctx.session)
        listener = ChangeListener(connection, sender.send, list_kinds, readable)
        honoured = request.model_copy(update={"resource_subscriptions": list(readable) or None})
        await with_mcp_errors(self._notifier.add_listener(listener))
        close_task = asyncio.get_running_loop().create_task(
            _close_after_connection(connection, stream)
        )
        try:
            return await stream(
                replace(ctx, session=cast(ServerSession, sender)),
                params.model_copy(update={"notifications": honoured}),
            )
        finally:
            close_task.cancel()
            self._notifier.remove_listener(listener)


class _SequentialSender:
    """Publishes the events of a stream, each when the one before has been written.

    It takes the place of the session that the SDK writes the stream to.
    """

    def __init__(self, bus: InMemorySubscriptionBus, session: ServerSession) -> None:
        self._bus = bus
        self._session = session
        self._unwritten: deque[asyncio.Future[None]] = deque()

    async def send(self, event: ServerEvent) -> None:
        """Publish an event; return when its notification has been written."""
        written = asyncio.get_running_loop().create_future()
        self._unwritten.append(written)
        await self._bus.publish(event)
        await written

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        """Write a notification to the stream (called by the SDK)."""
        await self._session.send_notification(notification, related_request_id)
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            return  # the first of the stream, which no event caused
        written = self._unwritten.popleft()
        if not written.done():  # its sender may have stopped waiting
            written.set_result(None)


async def _close_after_connection(connection: McpConnection, stream: ListenHandler) -> None:
    """Close a stream of changes when the connection ends."""
    await connection.ended.wait()
    stream.close()
