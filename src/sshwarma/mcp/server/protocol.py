"""Handlers of the MCP methods, in both eras of the protocol.

One `Server` of the SDK serves every client; each request carries its visit, from the endpoint over
HTTP or from the channel over ssh.
"""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplateReference,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
    UnsubscribeRequestParams,
)

import sshwarma
from sshwarma.common.background import ignore_outcome
from sshwarma.common.limits import MAX_SUBSCRIBED_RESOURCES
from sshwarma.mcp._sdk import connection_of
from sshwarma.mcp.server import prompts, resources
from sshwarma.mcp.server.builtin_tools import OptionalProgressCallback, make_builtin_tools
from sshwarma.mcp.server.clients import McpClients, Visit
from sshwarma.mcp.server.notifications import LIST_EVENTS, ChangeListener, ChangeNotifier, SendEvent
from sshwarma.mcp.server.tool_list import ToolListCache, paginate
from sshwarma.tools.call import ToolResult, Tools
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import access
from sshwarma.world.access import TokenScope
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

RequestContext = ServerRequestContext[Any, Any]
T = TypeVar("T")

VISIT_KEY: Final = "sshwarma.visit"
"""Key of the visit in the ASGI scope of an HTTP request."""

INSTRUCTIONS: Final = """\
You are an agent in a world of rooms, shared with people and models. You are in one room at a time:
look describes it, who lists who is where, join moves you to another. say speaks to everyone in the
room; @NAME in the text addresses one of them. wait_events returns what others said and did; when
an event has mention true, it addresses you. Tools with a dot in their names are equipped in this
room or on you; the list changes with the room and its equipment. Errors say what to do instead.
"""


MAX_COMPLETIONS: Final = 100
"""Values of one completion, as the protocol allows."""


class WorldServer(Server[Any]):
    """SDK server that announces list changes to clients of the older protocol too."""

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


@dataclass(eq=False)
class _LegacySession:
    """Session of the older protocol; keeps its agent present and receives changes."""

    visit: Visit
    listener: ChangeListener


class McpHandlers:
    """Handlers of all MCP methods.

    `lines` is the rate limit of each agent's lines and calls at all doors.
    """

    def __init__(self, clients: McpClients, tools: Tools, lines: LineRateLimiter) -> None:
        self.clients = clients
        self._tools = tools
        self._pace = lines
        self._builtin_tools = make_builtin_tools(tools)
        self._tool_lists = ToolListCache()
        self._notifier = ChangeNotifier(clients.world, self._tool_lists)
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
            on_completion=self.complete,
        )
        self.server.add_notification_handler(
            "notifications/initialized", NotificationParams, self.initialized
        )
        self.server.middleware.append(self._session_middleware)

    def start(self) -> None:
        self._notifier.start()

    async def stop(self) -> None:
        await self._notifier.stop()

    def visit(self, ctx: RequestContext) -> Visit:
        """Return the visit of a request."""
        visit = ctx.lifespan_context if ctx.request is None else ctx.request.scope.get(VISIT_KEY)
        if not isinstance(visit, Visit):
            raise MCPError(INTERNAL_ERROR, "The request has no agent.")
        return visit

    def caller(self, ctx: RequestContext) -> Caller:
        """Return the caller of a request, in its current room."""
        try:
            return self.visit(ctx).make_caller()
        except WorldError as refused:
            raise to_mcp_error(refused) from refused

    # Tools.

    async def list_tools(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        caller = self.caller(ctx)
        catalogue = await self._tool_lists.get_tool_list(caller)
        cursor = params.cursor if params else None
        shown, following = paginate(catalogue.tools, cursor, lambda tool: tool.name)
        if cursor is None:
            always = [one for one in self._builtin_tools.values() if caller.scope.allows(one.scope)]
            shown = [*(one.tool for one in always), *shown]
        return ListToolsResult(tools=shown, next_cursor=following)

    async def call_tool(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        visit = self.visit(ctx)
        try:
            async with _progress_reporter(ctx) as report:
                caller = visit.make_caller(report)
                if caller.link is not None:
                    caller.link.mark_active()
                work = self._call(visit, caller, params.name, params.arguments or {}, report)
                return _to_call_result(await visit.run_call(work))
        except WorldError as refused:
            return make_refusal(str(refused))
        except Exception:
            log.exception("a tool call failed", tool=params.name)
            return make_refusal("Internal error. The operator can find it in the server's log.")

    async def _call(
        self,
        visit: Visit,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        report: OptionalProgressCallback,
    ) -> ToolResult:
        builtin = self._builtin_tools.get(name)
        if builtin is not None:
            self._check_scope(caller, builtin.scope)
            return await builtin.run(visit, arguments, report)
        item = (await self._tool_lists.get_tool_list(caller)).names.find(name)
        self._check_scope(
            caller, TokenScope.ACT if item is None else self._tool_lists.scope_of(item)
        )
        outcome = await self._tools.call(caller, name, arguments)
        return ToolResult(
            outcome.text,
            outcome.structured,
            outcome.ending != "result",
            attachments=outcome.attachments,
        )

    def _check_scope(self, caller: Caller, needed: TokenScope) -> None:
        if not caller.scope.allows(needed):
            raise access.missing_scope_error(needed, caller.scope)
        if needed is not TokenScope.READ:
            self._pace.check(caller.agent.id)

    # Resources.

    async def list_resources(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        found = await _with_mcp_errors(resources.list_resources(self.caller(ctx)))
        shown, following = paginate(found, params.cursor if params else None, lambda one: one.uri)
        return ListResourcesResult(resources=shown, next_cursor=following)

    async def list_resource_templates(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(resources.RESOURCE_TEMPLATES))

    async def read_resource(
        self, ctx: RequestContext, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        try:
            contents = await resources.read_resource(self.caller(ctx), params.uri)
        except WorldError as refused:
            raise MCPError(INVALID_PARAMS, str(refused), {"uri": params.uri}) from refused
        return ReadResourceResult(contents=list(contents))

    async def subscribe(self, ctx: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        listener = (await self._get_session(ctx)).listener
        await _with_mcp_errors(self._notifier.subscribe(listener, params.uri))
        return EmptyResult()

    async def unsubscribe(
        self, ctx: RequestContext, params: UnsubscribeRequestParams
    ) -> EmptyResult:
        (await self._get_session(ctx)).listener.uris.pop(params.uri, None)
        return EmptyResult()

    async def listen(
        self, ctx: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Stream changes to a client; resources that it may not read are left out."""
        visit, caller = self.visit(ctx), self.caller(ctx)
        asked = params.notifications
        readable: dict[str, object] = {}
        for uri in (asked.resource_subscriptions or [])[:MAX_SUBSCRIBED_RESOURCES]:
            try:
                await resources.check_readable(caller, uri)
            except WorldError:
                continue
            readable[uri] = None
        kinds = {
            ToolsListChanged: asked.tools_list_changed,
            PromptsListChanged: asked.prompts_list_changed,
            ResourcesListChanged: asked.resources_list_changed,
        }
        wanted = frozenset(kind for kind, is_wanted in kinds.items() if is_wanted)
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus, max_subscriptions=1)
        listener = ChangeListener(visit, bus.publish, wanted, readable)
        honoured = asked.model_copy(update={"resource_subscriptions": list(readable) or None})
        await _with_mcp_errors(self._notifier.add_listener(listener))
        ending = asyncio.get_running_loop().create_task(_close_when_ended(visit, stream))
        try:
            return await stream(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            ending.cancel()
            self._notifier.remove_listener(listener)

    # Prompts.

    async def list_prompts(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        found = await _with_mcp_errors(prompts.list_prompts(self.caller(ctx)))
        shown, following = paginate(found, params.cursor if params else None, lambda one: one.name)
        return ListPromptsResult(prompts=shown, next_cursor=following)

    async def get_prompt(
        self, ctx: RequestContext, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        return await _with_mcp_errors(
            prompts.fill_prompt(self.caller(ctx), params.name, params.arguments or {})
        )

    async def complete(self, ctx: RequestContext, params: CompleteRequestParams) -> CompleteResult:
        """Complete an argument of a resource template or prompt by its name.

        `room` and `bag` complete room names, `name` things in a bag, `agent` and `who` agents.
        """
        caller, wanted, start = self.caller(ctx), params.argument.name, params.argument.value
        found: list[str] = []
        if wanted in ("room", "bag"):
            found = await _with_mcp_errors(resources.complete_room_names(caller, start))
        elif wanted == "name" and isinstance(params.ref, ResourceTemplateReference):
            bag = ((params.context and params.context.arguments) or {}).get("bag", "me")
            found = await _with_mcp_errors(resources.complete_thing_names(caller, bag, start))
        elif wanted in ("agent", "who"):
            known = sorted(agent.name for agent in caller.world.agents)
            found = [name for name in known if name.startswith(start.lower())]
        return CompleteResult(
            completion=Completion(
                values=found[:MAX_COMPLETIONS],
                total=len(found),
                has_more=len(found) > MAX_COMPLETIONS,
            )
        )

    # Sessions of the older protocol.

    async def _session_middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Register a session at `initialize`, even if the client never confirms it."""
        result = await call_next(ctx)
        if ctx.method == "initialize":
            await _with_mcp_errors(self._get_session(ctx))
        return result

    async def initialized(self, ctx: RequestContext, params: NotificationParams) -> None:
        """Register the session of a client that confirms its initialization."""
        await self._get_session(ctx)

    async def _get_session(self, ctx: RequestContext) -> _LegacySession:
        """Return the session of a request.

        The first request begins it, because requests can overtake the initialized notification.
        """
        connection = connection_of(ctx.session)
        begun: asyncio.Task[_LegacySession] | None = connection.state.get("session")
        if begun is None:
            work = self._begin_session(self.visit(ctx), connection, _make_sender(ctx))
            begun = connection.state["session"] = asyncio.get_running_loop().create_task(work)
            begun.add_done_callback(ignore_outcome)
        return await asyncio.shield(begun)

    async def _begin_session(
        self, opened: Visit, connection: Any, send: SendEvent
    ) -> _LegacySession:
        visit = await self.clients.open_visit(opened.client.agent_id, opened.token)
        visit.is_session = True
        session = _LegacySession(visit, ChangeListener(visit, send, LIST_EVENTS))
        connection.exit_stack.callback(self._end_session, session)
        await self._notifier.add_listener(session.listener)
        if opened not in opened.client.visits:  # it closed meanwhile, so nothing else ends this
            self._end_session(session)
        return session

    def _end_session(self, session: _LegacySession) -> None:
        self._notifier.remove_listener(session.listener)
        session.visit.close()


def make_refusal(words: str) -> CallToolResult:
    """Return the error result of a call that was refused."""
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


def to_mcp_error(refused: WorldError) -> MCPError:
    return MCPError(INVALID_PARAMS, str(refused))


def _to_call_result(result: ToolResult) -> CallToolResult:
    structured = result.structured if isinstance(result.structured, dict) else None
    return CallToolResult(
        content=[TextContent(text=result.text), *map(_to_content_block, result.attachments)],
        structured_content=None if result.is_error else structured,
        is_error=result.is_error,
    )


def _to_content_block(given: Attachment) -> ImageContent | AudioContent | EmbeddedResource:
    """Convert an attachment to a content block of MCP."""
    data = b64encode(given.data).decode()
    match given.media_type.partition("/")[0]:
        case "image":
            return ImageContent(data=data, mime_type=given.media_type)
        case "audio":
            return AudioContent(data=data, mime_type=given.media_type)
    digest = hashlib.sha256(given.data).hexdigest()
    blob = BlobResourceContents(uri=f"sha256:{digest}", mime_type=given.media_type, blob=data)
    return EmbeddedResource(resource=blob)


async def _with_mcp_errors(work: Awaitable[T]) -> T:
    """Await `work`; raise its WorldError as an MCPError with the same text."""
    try:
        return await work
    except WorldError as refused:
        raise to_mcp_error(refused) from refused


def _make_sender(ctx: RequestContext) -> SendEvent:
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


async def _close_when_ended(visit: Visit, stream: ListenHandler) -> None:
    await visit.ended.wait()
    stream.close()


@asynccontextmanager
async def _progress_reporter(ctx: RequestContext) -> AsyncIterator[Callable[[str], None] | None]:
    """Yield a function that reports progress, or None if the client wants none.

    A newer report replaces one that is not sent yet.
    """
    if progress_token_from_params(ctx.params) is None:
        yield None
        return
    latest: list[str] = []
    news = asyncio.Event()

    def report(words: str) -> None:
        latest[:] = [words]
        news.set()

    async def send() -> None:
        sent = 0
        while True:
            await news.wait()
            news.clear()
            sent += 1
            await ctx.session.report_progress(sent, None, latest[0])

    sending = asyncio.get_running_loop().create_task(send())
    try:
        yield report
    finally:
        sending.cancel()
        # Retrieve the error of a disconnected client, or asyncio would report it.
        await asyncio.gather(sending, return_exceptions=True)
