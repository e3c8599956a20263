"""The methods that subscribe a client to changes of lists and resources, in both eras."""

from __future__ import annotations

import asyncio

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import (
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
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
    """Subscribes clients to changes: a session of the older protocol, or a stream of the newer."""

    def __init__(self, notifier: ChangeNotifier, sessions: LegacySessions) -> None:
        self._notifier = notifier
        self._sessions = sessions

    async def initialized(self, ctx: RequestContext, params: NotificationParams) -> None:
        """Open the session of a client that confirms its initialization."""
        await self._sessions.get(ctx)

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
        listener = ChangeListener(connection, bus.publish, list_kinds, readable)
        honoured = request.model_copy(update={"resource_subscriptions": list(readable) or None})
        await with_mcp_errors(self._notifier.add_listener(listener))
        close_task = asyncio.get_running_loop().create_task(
            _close_after_connection(connection, stream)
        )
        try:
            return await stream(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            close_task.cancel()
            self._notifier.remove_listener(listener)


async def _close_after_connection(connection: McpConnection, stream: ListenHandler) -> None:
    """Close a stream of changes when the connection ends."""
    await connection.ended.wait()
    stream.close()
