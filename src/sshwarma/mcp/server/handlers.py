"""All MCP methods of the world, registered with one SDK `Server` for both eras.

The modules named `*_methods` carry them out. Each request carries its connection, from the endpoint
over HTTP or from the channel over ssh.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import NotificationParams
from typing_extensions import override

import sshwarma
from sshwarma.mcp.server.clients import ConnectedAgents
from sshwarma.mcp.server.completion import complete_argument
from sshwarma.mcp.server.instructions import INSTRUCTIONS
from sshwarma.mcp.server.legacy_session import LegacySessions
from sshwarma.mcp.server.notifications import ChangeNotifier
from sshwarma.mcp.server.prompt_methods import PromptMethods
from sshwarma.mcp.server.request_context import (
    RequestContext,
    mcp_connection_of,
    with_mcp_errors,
)
from sshwarma.mcp.server.resource_methods import ResourceMethods
from sshwarma.mcp.server.subscription_methods import SubscriptionMethods
from sshwarma.mcp.server.tool_list import ToolListCache
from sshwarma.mcp.server.tool_methods import ToolMethods
from sshwarma.tools.call import Tools
from sshwarma.verbs.line_rate import LineRateLimiter

MAX_PROGRAM_NAME_CHARACTERS: Final = 40

_NO_NAME_CHARACTERS: Final = re.compile(r"[^\w ./+()-]+")
"""What a client's name leaves out: models read it, and it could look like a row of the log."""


class WorldServer(Server[Any]):
    """SDK server that announces list changes to clients of the older protocol too."""

    @override
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options
            or NotificationOptions(
                prompts_changed=True, resources_changed=True, tools_changed=True
            ),
            experimental_capabilities,
            extensions,
        )


class McpHandlers(ToolMethods, ResourceMethods, PromptMethods, SubscriptionMethods):
    """Handlers of all MCP methods, and the `server` of the SDK that calls them.

    `line_rate` is the rate limit of each agent's lines and calls at all doors.
    """

    def __init__(self, clients: ConnectedAgents, tools: Tools, line_rate: LineRateLimiter) -> None:
        tool_lists = ToolListCache()
        notifier = ChangeNotifier(clients.world, tool_lists)
        ToolMethods.__init__(self, tools, line_rate, tool_lists, self.notify_own_changes)
        SubscriptionMethods.__init__(self, notifier, LegacySessions(clients, notifier))
        self.clients = clients
        self.server = WorldServer(
            "sshwarma",
            version=sshwarma.__version__,
            title="sshwarma",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # no arguments are mirrored in headers
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_resource_templates,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=self.listen,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_completion=complete_argument,
        )
        self.server.add_notification_handler(
            "notifications/initialized", NotificationParams, self.initialized
        )
        self.server.middleware.append(_note_request_id)
        self.server.middleware.append(self._open_session)

    def start(self) -> None:
        """Start to send change notifications."""
        self._notifier.start()

    async def stop(self) -> None:
        """Stop sending change notifications."""
        await self._notifier.stop()

    async def _open_session(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Open a session at `initialize`, even one never confirmed (middleware)."""
        result = await call_next(ctx)
        if ctx.method == "initialize":
            await with_mcp_errors(self._sessions.get(ctx))
            _note_program(ctx)
        return result


async def _note_request_id(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Note on an HTTP connection which request id an error answers (middleware)."""
    if ctx.request is not None:
        mcp_connection_of(ctx).request_id = ctx.request_id
    _note_program(ctx)
    return await call_next(ctx)


def _note_program(ctx: RequestContext) -> None:
    """Record the name a client gives itself, for those who see its agent."""
    params = ctx.session.client_params
    client = mcp_connection_of(ctx).client
    if params is not None and client.link is not None:
        words = _NO_NAME_CHARACTERS.sub(" ", params.client_info.name).split()
        name = " ".join(words)[:MAX_PROGRAM_NAME_CHARACTERS]
        client.clients.world.presence.set_program(client.link, name)
