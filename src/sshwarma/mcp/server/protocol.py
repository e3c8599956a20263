"""The methods of MCP, answered from the world, in both eras of the protocol.

One `Server` of the SDK serves every client: who asks comes with each request, from the endpoint
over HTTP and from the channel over ssh.
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
from sshwarma.mcp.server import prompts, resources
from sshwarma.mcp.server.builtin_tools import Report, standing_tools
from sshwarma.mcp.server.clients import Guests, Visit
from sshwarma.mcp.server.notifications import LISTS, URIS, Changes, Listener, Send
from sshwarma.mcp.server.tool_list import Catalogues, page
from sshwarma.tools.call import Result, Tools
from sshwarma.verbs.dispatch import Pace
from sshwarma.world import access
from sshwarma.world.access import TokenScope
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")

VISIT: Final = "sshwarma.visit"
"""Where an HTTP request carries its visit."""

INSTRUCTIONS: Final = """\
You are an agent in a world of rooms, together with people and models. You stand in one room at a
time: look shows it, who tells who is where, join takes you to another. say speaks to everyone in
the room, @NAME in it calls somebody. wait_events tells what others said and did; when an event has
mention true, somebody speaks to you. Tools with a dot in their names are equipped in this room or
on you; the list changes with the room and its equipment. A refusal says what would be right.
"""

COMPLETIONS: Final = 100


class WorldServer(Server[Any]):
    """A server that tells older clients too that its lists change."""

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
class _Session:
    """A session of the older era. It keeps its agent here, and hears of changes."""

    visit: Visit
    listener: Listener


class Protocol:
    """Every method. `lines` is the pace at which an agent may talk and call, over all doors."""

    def __init__(self, guests: Guests, tools: Tools, lines: Pace) -> None:
        self.guests = guests
        self._tools = tools
        self._lines = lines
        self._standing = standing_tools(tools)
        self._catalogues = Catalogues()
        self._changes = Changes(guests.world, self._catalogues)
        self.server = WorldServer(
            "sshwarma",
            version=sshwarma.__version__,
            title="sshwarma",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # no argument of ours travels in a header
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
        self.server.middleware.append(self._opening)

    def start(self) -> None:
        self._changes.start()

    async def stop(self) -> None:
        await self._changes.stop()

    def visit(self, ctx: Context) -> Visit:
        """What the agent has open that this request came by."""
        visit = ctx.lifespan_context if ctx.request is None else ctx.request.scope.get(VISIT)
        if not isinstance(visit, Visit):
            raise MCPError(INTERNAL_ERROR, "It is not known who asks.")
        return visit

    def caller(self, ctx: Context) -> Caller:
        """Who asks, where it stands now."""
        try:
            return self.visit(ctx).caller()
        except WorldError as refused:
            raise as_error(refused) from refused

    # Tools.

    async def list_tools(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        caller = self.caller(ctx)
        catalogue = await self._catalogues.of(caller)
        cursor = params.cursor if params else None
        shown, following = page(catalogue.tools, cursor, lambda tool: tool.name)
        if cursor is None:
            always = [one for one in self._standing.values() if caller.scope.allows(one.scope)]
            shown = [*(one.tool for one in always), *shown]
        return ListToolsResult(tools=shown, next_cursor=following)

    async def call_tool(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        visit = self.visit(ctx)
        try:
            async with _reporting(ctx) as report:
                caller = visit.caller(report)
                if caller.link is not None:
                    caller.link.touch()
                work = self._call(visit, caller, params.name, params.arguments or {}, report)
                return _as_result(await visit.run(work))
        except WorldError as refused:
            return refusal(str(refused))
        except Exception:
            log.exception("a call failed", tool=params.name)
            return refusal("Something went wrong here; the operator can see what.")

    async def _call(
        self, visit: Visit, caller: Caller, name: str, arguments: dict[str, Any], report: Report
    ) -> Result:
        standing = self._standing.get(name)
        if standing is not None:
            self._allow(caller, standing.scope)
            return await standing.run(visit, arguments, report)
        item = (await self._catalogues.of(caller)).names.find(name)
        self._allow(caller, TokenScope.ACT if item is None else self._catalogues.scope_of(item))
        outcome = await self._tools.call(caller, name, arguments)
        return Result(
            outcome.text, outcome.structured, outcome.how != "result", given=outcome.given
        )

    def _allow(self, caller: Caller, needed: TokenScope) -> None:
        if not caller.scope.allows(needed):
            raise access.missing_scope_error(needed, caller.scope)
        if needed is not TokenScope.READ:
            self._lines.check(caller.agent.id)

    # Resources.

    async def list_resources(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        found = await _in_words(resources.listed(self.caller(ctx)))
        shown, following = page(found, params.cursor if params else None, lambda one: one.uri)
        return ListResourcesResult(resources=shown, next_cursor=following)

    async def list_resource_templates(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(resources.TEMPLATES))

    async def read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        try:
            contents = await resources.read(self.caller(ctx), params.uri)
        except WorldError as refused:
            raise MCPError(INVALID_PARAMS, str(refused), {"uri": params.uri}) from refused
        return ReadResourceResult(contents=list(contents))

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        listener = (await self._session(ctx)).listener
        await _in_words(self._changes.subscribe(listener, params.uri))
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        (await self._session(ctx)).listener.uris.pop(params.uri, None)
        return EmptyResult()

    async def listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """One stream of changes. Of resources the agent may not read, it is not told."""
        visit, caller = self.visit(ctx), self.caller(ctx)
        asked = params.notifications
        readable: dict[str, object] = {}
        for uri in (asked.resource_subscriptions or [])[:URIS]:
            try:
                await resources.check(caller, uri)
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
        listener = Listener(visit, bus.publish, wanted, readable)
        honoured = asked.model_copy(update={"resource_subscriptions": list(readable) or None})
        await _in_words(self._changes.add(listener))
        ending = asyncio.get_running_loop().create_task(_close_when_ended(visit, stream))
        try:
            return await stream(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            ending.cancel()
            self._changes.remove(listener)

    # Prompts.

    async def list_prompts(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        found = await _in_words(prompts.listed(self.caller(ctx)))
        shown, following = page(found, params.cursor if params else None, lambda one: one.name)
        return ListPromptsResult(prompts=shown, next_cursor=following)

    async def get_prompt(
        self, ctx: Context, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        return await _in_words(
            prompts.filled(self.caller(ctx), params.name, params.arguments or {})
        )

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Names of rooms and things in the templates of resources; of prompts, rooms where an
        argument is called so."""
        caller, wanted, start = self.caller(ctx), params.argument.name, params.argument.value
        found: list[str] = []
        if wanted in ("room", "bag"):
            found = await _in_words(resources.room_names(caller, start))
        elif wanted == "name" and isinstance(params.ref, ResourceTemplateReference):
            bag = ((params.context and params.context.arguments) or {}).get("bag", "me")
            found = await _in_words(resources.thing_names(caller, bag, start))
        elif wanted in ("agent", "who"):
            known = sorted(agent.name for agent in caller.world.agents)
            found = [name for name in known if name.startswith(start.lower())]
        return CompleteResult(
            completion=Completion(
                values=found[:COMPLETIONS], total=len(found), has_more=len(found) > COMPLETIONS
            )
        )

    # Sessions of the older era.

    async def _opening(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A session counts from the moment it is opened, said to be initialized or not."""
        result = await call_next(ctx)
        if ctx.method == "initialize":
            await _in_words(self._session(ctx))
        return result

    async def initialized(self, ctx: Context, params: NotificationParams) -> None:
        """A session has begun: its agent is here while it is open, and hears what changes."""
        await self._session(ctx)

    async def _session(self, ctx: Context) -> _Session:
        """The session of a request; begun by its first, since requests overtake notifications."""
        connection = _connection(ctx)
        begun: asyncio.Task[_Session] | None = connection.state.get("session")
        if begun is None:
            work = self._begin_session(self.visit(ctx), connection, _sender(ctx))
            begun = connection.state["session"] = asyncio.get_running_loop().create_task(work)
            begun.add_done_callback(_looked_at)
        return await asyncio.shield(begun)

    async def _begin_session(self, opened: Visit, connection: Any, send: Send) -> _Session:
        visit = await self.guests.enter(opened.guest.agent_id, opened.token)
        visit.session = True
        session = _Session(visit, Listener(visit, send, LISTS))
        connection.exit_stack.callback(self._over, session)
        await self._changes.add(session.listener)
        if opened not in opened.guest.visits:  # it has gone meanwhile, and with it what ends this
            self._over(session)
        return session

    def _over(self, session: _Session) -> None:
        self._changes.remove(session.listener)
        session.visit.close()


def refusal(words: str) -> CallToolResult:
    """A call that was not carried out, in words that the one who called can act on."""
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


def as_error(refused: WorldError) -> MCPError:
    return MCPError(INVALID_PARAMS, str(refused))


def _as_result(result: Result) -> CallToolResult:
    structured = result.structured if isinstance(result.structured, dict) else None
    return CallToolResult(
        content=[TextContent(text=result.text), *map(_block_of, result.given)],
        structured_content=None if result.failed else structured,
        is_error=result.failed,
    )


def _block_of(given: Attachment) -> ImageContent | AudioContent | EmbeddedResource:
    """What a tool gave beside text, as clients know it."""
    data = b64encode(given.data).decode()
    match given.kind.partition("/")[0]:
        case "image":
            return ImageContent(data=data, mime_type=given.kind)
        case "audio":
            return AudioContent(data=data, mime_type=given.kind)
    digest = hashlib.sha256(given.data).hexdigest()
    blob = BlobResourceContents(uri=f"sha256:{digest}", mime_type=given.kind, blob=data)
    return EmbeddedResource(resource=blob)


async def _in_words(work: Awaitable[T]) -> T:
    """What it gives; a refusal as an error of the protocol, in its words."""
    try:
        return await work
    except WorldError as refused:
        raise as_error(refused) from refused


def _looked_at(begun: asyncio.Task[_Session]) -> None:
    """Whoever waits for it may have gone; a failure that nobody looks at is reported."""
    if not begun.cancelled():
        begun.exception()


def _connection(ctx: Context) -> Any:
    """What lasts as long as the session. The SDK hands it to nobody; its `ServerSession` keeps it
    in an attribute of this name in every 2.x release so far."""
    return ctx.session._connection


def _sender(ctx: Context) -> Send:
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
async def _reporting(ctx: Context) -> AsyncIterator[Callable[[str], None] | None]:
    """What tells the client how far its call is, if it asked for that. Words that come faster than
    they can be sent replace each other."""
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
        # Where the client has gone, the sending has failed: that is looked at, or it is reported.
        await asyncio.gather(sending, return_exceptions=True)
