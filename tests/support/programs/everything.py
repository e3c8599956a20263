"""The world's MCP server with all that the conformance suite asks for by name.

The suite asks for tools, resources and prompts. It is the server's own code: these are added to
what the world lists, and nobody needs a token. Run as a program: it prints its address and serves
until its standard input ends.

Longer than 400 lines, because the suite asks one server for all of them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    JSONRPCMessage,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    UnsubscribeRequestParams,
)
from starlette.types import Scope

from sshwarma.common.limits import MAX_CLIENT_MESSAGE_BYTES
from sshwarma.mcp.server import endpoint
from sshwarma.mcp.server.clients import ConnectedAgents
from sshwarma.mcp.server.handlers import McpHandlers
from sshwarma.mcp.server.request_context import RequestContext
from sshwarma.settings import LimitSettings, LogSettings, ReloadableSettings, logs
from sshwarma.tools.call import Tools
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import tool_specs
from sshwarma.web.api import HttpApi
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import MetricsPage
from sshwarma.world import agents, equipment, things, tokens
from sshwarma.world.tokens import Token
from sshwarma.world.world import World
from support.services import make_services

Answer = CallToolResult | InputRequiredResult

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg"
    "GAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64encode(
    b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
    b"\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x02\x00\x00\x00\x80\x80"
).decode()

SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_KEY = hashlib.sha256(b"of this run").digest()


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def shown(*content: ContentBlock) -> CallToolResult:
    return CallToolResult(content=list(content))


def seal(step: str) -> str:
    return f"{step}.{hmac.new(_KEY, step.encode(), 'sha256').hexdigest()}"


def unseal(state: str | None) -> str:
    """The step a state stands for; a changed state is an error of the protocol."""
    step, _, _ = (state or "").rpartition(".")
    if state is not None and hmac.compare_digest(seal(step), state):
        return step
    raise MCPError(INVALID_PARAMS, "The request state is not one of ours.")


def ask(message: str, **properties: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str, most: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=most)
    )


def answered(given: dict[str, Any], key: str) -> dict[str, Any] | None:
    """What a person put into a form, if the answer is there and whole."""
    answer = given.get(key)
    value = answer.model_dump(by_alias=True) if hasattr(answer, "model_dump") else answer
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, dict) else None


class Tests:
    """The tools by name; each takes the request's context, parameters and server."""

    def __init__(self, protocol: Everything) -> None:
        self._protocol = protocol

    async def test_simple_text(self, ctx: RequestContext, params: CallToolRequestParams) -> Answer:
        """Says a text"""
        return said("This is a simple text response for testing.")

    async def test_image_content(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Shows an image"""
        return shown(ImageContent(data=PIXEL, mime_type="image/png"))

    async def test_audio_content(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Plays a sound"""
        return shown(AudioContent(data=SILENCE, mime_type="audio/wav"))

    async def test_embedded_resource(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Gives a resource"""
        inside = TextResourceContents(
            uri="test://embedded-resource",
            mime_type="text/plain",
            text="This is an embedded resource content.",
        )
        return shown(EmbeddedResource(resource=inside))

    async def test_multiple_content_types(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Gives several kinds of content"""
        inside = TextResourceContents(
            uri="test://mixed-content-resource", mime_type="application/json", text='{"test": 1}'
        )
        return shown(
            TextContent(text="Multiple content types test:"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            EmbeddedResource(resource=inside),
        )

    async def test_tool_with_logging(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Logs what it does"""
        for text in ("started", "processing data", "completed"):
            await ctx.session.send_log_message(
                "info", f"Tool execution {text}", related_request_id=ctx.request_id
            )
            await asyncio.sleep(0.05)
        return said("It logged.")

    test_logging_tool = test_tool_with_logging

    async def test_tool_with_progress(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Reports how far it is"""
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100, f"{done} of 100")
            await asyncio.sleep(0.05)
        return said("It is done.")

    async def test_sampling(self, ctx: RequestContext, params: CallToolRequestParams) -> Answer:
        """Asks the client's model"""
        text = str((params.arguments or {}).get("prompt", ""))
        message = SamplingMessage(role="user", content=TextContent(text=text))
        result = await ctx.session.create_message(
            [message], max_tokens=100, related_request_id=ctx.request_id
        )
        answer = getattr(result.content, "text", "nothing")
        return said(f"LLM response: {answer}")

    async def _elicit(self, ctx: RequestContext, request: ElicitRequest) -> Answer:
        form = request.params
        assert isinstance(form, ElicitRequestFormParams)
        result = await ctx.session.elicit_form(
            form.message, form.requested_schema, related_request_id=ctx.request_id
        )
        return said(
            f"Elicitation completed: action={result.action},"
            f" content={json.dumps(result.content or {})}"
        )

    async def test_elicitation(self, ctx: RequestContext, params: CallToolRequestParams) -> Answer:
        """Asks the person at the client"""
        message = str((params.arguments or {}).get("message", ""))
        return await self._elicit(
            ctx,
            ask(
                message,
                username={"type": "string", "description": "User's response"},
                email={"type": "string", "description": "User's email address"},
            ),
        )

    async def test_elicitation_sep1034_defaults(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks, with an answer to each question filled in"""
        status = {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}
        return await self._elicit(
            ctx,
            ask(
                "Who are you?",
                name={"type": "string", "default": "John Doe"},
                age={"type": "integer", "default": 30},
                score={"type": "number", "default": 95.5},
                status=status,
                verified={"type": "boolean", "default": True},
            ),
        )

    async def test_elicitation_sep1330_enums(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks for one or several of given values, in every form"""
        options = ["option1", "option2", "option3"]
        titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
        legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}
        return await self._elicit(
            ctx,
            ask(
                "Which?",
                untitledSingle={"type": "string", "enum": options},
                titledSingle={"type": "string", "oneOf": titled},
                legacyEnum={"type": "string", **legacy},
                untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
                titledMulti={"type": "array", "items": {"anyOf": titled}},
            ),
        )

    async def test_error_handling(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Fails"""
        words = "This tool intentionally returns an error for testing"
        return CallToolResult(content=[TextContent(text=words)], is_error=True)

    async def test_reconnection(self, ctx: RequestContext, params: CallToolRequestParams) -> Answer:
        """Closes its stream and goes on"""
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
        await asyncio.sleep(0.2)
        return said("It reconnected.")

    async def json_schema_2020_12_tool(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Has a schema with many words"""
        return said("It was called.")

    async def test_x_mcp_header(self, ctx: RequestContext, params: CallToolRequestParams) -> Answer:
        """Has an argument that travels in a header"""
        return said(f"It came: {(params.arguments or {}).get('region')}")

    async def test_missing_capability(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Needs a client that samples"""
        known = ctx.session.client_capabilities
        if known is not None and known.sampling is not None:
            return said("It has it.")
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs sampling.", needed)

    async def test_streaming_elicitation(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Needs an answer during the call"""
        return InputRequiredResult(
            input_requests={"user_name": ask("What is your name?", name={"type": "string"})}
        )

    async def test_trigger_tool_change(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Changes the list of tools, as anybody may: by equipment"""
        await self._protocol.toggle_equipment("sshwarma:search_nothing", kind="tool")
        return said("The list has changed.")

    async def test_trigger_prompt_change(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Changes the list of prompts, by equipment too"""
        await self._protocol.toggle_equipment("prompt:now-and-then", kind="data")
        return said("The list has changed.")

    async def test_input_required_result_elicitation(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks for a name and greets"""
        content = answered(params.input_responses or {}, "user_name")
        if content is None or not isinstance(content.get("name"), str):
            return InputRequiredResult(
                input_requests={"user_name": ask("What is your name?", name={"type": "string"})}
            )
        return said(f"Hello, {content['name']}!")

    async def test_input_required_result_sampling(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks the client's model for a capital"""
        given = params.input_responses or {}
        if "capital_question" not in given:
            question = sample("What is the capital of France?", 100)
            return InputRequiredResult(input_requests={"capital_question": question})
        return said(f"It is {getattr(given['capital_question'], 'content', None)}")

    async def test_input_required_result_list_roots(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks for the client's roots"""
        given = params.input_responses or {}
        if "client_roots" not in given:
            return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
        roots = getattr(given["client_roots"], "roots", [])
        return said(f"Roots: {', '.join(str(root.uri) for root in roots)}")

    async def test_input_required_result_request_state(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Keeps its state at the client"""
        if params.request_state is None:
            return InputRequiredResult(
                input_requests={"confirm": ask("Please confirm", ok={"type": "boolean"})},
                request_state=seal("confirm"),
            )
        unseal(params.request_state)
        return said("state-ok")

    test_input_required_result_tampered_state = test_input_required_result_request_state

    async def test_input_required_result_multiple_inputs(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks for three things at a time"""
        wanted = {"user_name", "greeting", "client_roots"}
        if not wanted <= set(params.input_responses or {}):
            return InputRequiredResult(
                input_requests={
                    "user_name": ask("What is your name?", name={"type": "string"}),
                    "greeting": sample("Generate a greeting", 50),
                    "client_roots": ListRootsRequest(),
                },
                request_state=seal("many"),
            )
        unseal(params.request_state)
        return said("All of it came.")

    async def test_input_required_result_multi_round(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks twice"""
        given = params.input_responses or {}
        step = unseal(params.request_state) if params.request_state is not None else ""
        if step == "1" and "step1" in given:
            question = ask("Step 2: What is your favorite color?", color={"type": "string"})
            return InputRequiredResult(input_requests={"step2": question}, request_state=seal("2"))
        if step == "2" and "step2" in given:
            return said("Both came.")
        question = ask("Step 1: What is your name?", name={"type": "string"})
        return InputRequiredResult(input_requests={"step1": question}, request_state=seal("1"))

    async def test_input_required_result_capabilities(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Answer:
        """Asks only for what the client can do"""
        known = ctx.session.client_capabilities
        requests: dict[str, Any] = {}
        if known is not None and known.elicitation is not None:
            requests["user_name"] = ask("What is your name?", name={"type": "string"})
        if known is not None and known.sampling is not None:
            requests["greeting"] = sample("Generate a greeting", 50)
        if not requests or params.input_responses:
            return said("It asks for nothing.")
        return InputRequiredResult(input_requests=requests)


SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": {"properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {"properties": {"message": {"type": "string"}}, "required": ["message"]},
    "test_x_mcp_header": {
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    "json_schema_2020_12_tool": SCHEMA_2020,
}


class Everything(McpHandlers):
    """The world's server with what the suite wants beside it."""

    def __init__(self, guests: ConnectedAgents, tools: Tools, line_rate: LineRateLimiter) -> None:
        super().__init__(guests, tools, line_rate)
        tests = Tests(self)
        names = [name for name in dir(tests) if not name.startswith("_")]
        self._tests: dict[
            str, Callable[[RequestContext, CallToolRequestParams], Awaitable[Answer]]
        ] = {name: getattr(tests, name) for name in names}
        self._schemas = {
            name: {"type": "object", "properties": {}, **SCHEMAS.get(name, {})} for name in names
        }
        self.server.get_tool_input_schema = self._schemas.get
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    async def _set_level(self, ctx: RequestContext, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    async def list_tools(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        listed = await super().list_tools(ctx, params)
        listed.tools += [
            Tool(name=name, description=test.__doc__, input_schema=self._schemas[name])
            for name, test in self._tests.items()
        ]
        return listed

    async def call_tool(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        test = self._tests.get(params.name)
        return await (test(ctx, params) if test else super().call_tool(ctx, params))

    async def list_resources(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        listed = await super().list_resources(ctx, params)
        listed.resources += [
            Resource(uri=f"test://{name}", name=name, mime_type=kind)
            for name, kind in (
                ("static-text", "text/plain"),
                ("static-binary", "image/png"),
                ("watched-resource", "text/plain"),
            )
        ]
        return listed

    async def list_resource_templates(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        listed = await super().list_resource_templates(ctx, params)
        listed.resource_templates.append(
            ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        )
        return listed

    async def read_resource(
        self, ctx: RequestContext, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        uri = params.uri
        found: TextResourceContents | BlobResourceContents
        if uri == "test://static-binary":
            found = BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        elif uri in ("test://static-text", "test://watched-resource"):
            found = TextResourceContents(uri=uri, mime_type="text/plain", text="It is a text.")
        elif uri.startswith("test://template/") and uri.endswith("/data"):
            number = uri.split("/")[3]
            text = json.dumps({"id": number, "templateTest": True, "data": f"Data for {number}"})
            found = TextResourceContents(uri=uri, mime_type="application/json", text=text)
        else:
            return await super().read_resource(ctx, params)
        return ReadResourceResult(contents=[found])

    async def subscribe(self, ctx: RequestContext, params: SubscribeRequestParams) -> EmptyResult:
        if params.uri.startswith("test://"):
            return EmptyResult()
        return await super().subscribe(ctx, params)

    async def unsubscribe(
        self, ctx: RequestContext, params: UnsubscribeRequestParams
    ) -> EmptyResult:
        if params.uri.startswith("test://"):
            return EmptyResult()
        return await super().unsubscribe(ctx, params)

    async def list_prompts(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        listed = await super().list_prompts(ctx, params)
        listed.prompts += [
            Prompt(
                name=name,
                description=f"Of the suite: {name}",
                arguments=[PromptArgument(name=word, required=True) for word in words],
            )
            for name, words in (
                ("test_simple_prompt", ()),
                ("test_prompt_with_arguments", ("arg1", "arg2")),
                ("test_prompt_with_embedded_resource", ("resourceUri",)),
                ("test_prompt_with_image", ()),
                ("test_input_required_result_prompt", ()),
            )
        ]
        return listed

    async def get_prompt(
        self, ctx: RequestContext, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        given = params.arguments or {}
        content: list[ContentBlock]
        match params.name:
            case "test_simple_prompt":
                content = [TextContent(text="This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                words = f"arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
                content = [TextContent(text=f"Prompt with arguments: {words}")]
            case "test_prompt_with_embedded_resource":
                inside = TextResourceContents(
                    uri=given.get("resourceUri", ""),
                    mime_type="text/plain",
                    text="Embedded resource content for testing.",
                )
                content = [
                    EmbeddedResource(resource=inside),
                    TextContent(text="Please process the embedded resource above."),
                ]
            case "test_prompt_with_image":
                content = [
                    ImageContent(data=PIXEL, mime_type="image/png"),
                    TextContent(text="Please analyze the image above."),
                ]
            case "test_input_required_result_prompt":
                answer = answered(params.input_responses or {}, "user_context")
                if answer is None:
                    question = ask(
                        "What context should the prompt use?", context={"type": "string"}
                    )
                    return InputRequiredResult(input_requests={"user_context": question})
                content = [TextContent(text=f"In the context of {answer.get('context')}.")]
            case _:
                return await super().get_prompt(ctx, params)
        return GetPromptResult(
            messages=[PromptMessage(role="user", content=block) for block in content]
        )

    async def toggle_equipment(self, name: str, *, kind: things.ThingKind) -> None:
        """Equip something in the lobby, or unequip it, as people would."""
        world = self.clients.world

        def toggle(tx: Any) -> None:
            bag = "internal" if kind == "tool" else "lobby"
            thing = things.find_child(tx.conn, bag, name) or things.create_thing(
                tx,
                bag,
                kind,
                name,
                qualified_name=name if kind == "tool" else None,
                content="Now and then.",
            )
            rows = equipment.read_equipped_rows(tx.conn, ["lobby"])
            if any(row.thing.id == thing.id and row.equipped for row in rows):
                equipment.unequip_things(tx, "lobby", [thing])
            else:
                equipment.equip_things(tx, "lobby", [thing])

        await world.change(toggle)


class Events(EventStore):
    """Events sent on streams, so that a client can resume one."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send: EventCallback) -> str | None:
        seen = int(last_event_id)
        stream_id = self._sent[seen - 1][0]
        for number, (stream, message) in enumerate(self._sent[seen:], seen + 1):
            if stream == stream_id and message is not None:
                await send(EventMessage(message, str(number)))
        return stream_id


class Open(endpoint.McpEndpoint):
    """The endpoint without tokens: everybody is the same agent."""

    agent_id = ""

    def _protocol(
        self, guests: ConnectedAgents, tools: Tools, line_rate: LineRateLimiter
    ) -> McpHandlers:
        return Everything(guests, tools, line_rate)

    def _session_manager(self, settings: TransportSecuritySettings) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            self.handlers.server,
            security_settings=settings,
            max_request_body_size=MAX_CLIENT_MESSAGE_BYTES,
            event_store=Events(),
            retry_interval=100,
        )

    async def _find_token(self, scope: Scope) -> Token | None:
        world = self._clients.world
        found = await world.store.read(lambda conn: tokens.read_live_tokens(conn, self.agent_id))
        return found[0]


async def serve() -> None:
    """Serve a world of its own until standard input ends."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as home:
        world = await World.open(Path(home) / "world.db", tool_specs())
        agent = await world.change(lambda tx: agents.create_agent(tx, "suite", role="owner"))
        await world.change(lambda tx: tokens.issue_token(tx, agent.id, "suite", None, None))
        limits = LimitSettings(lines_per_10_seconds=10**6, requests_per_10_seconds=10**6)
        settings = ReloadableSettings(limits=limits)
        services = make_services(world)
        pace = LineRateLimiter(limits.lines_per_10_seconds)
        guests = ConnectedAgents(world, services, settings)
        Open.agent_id = agent.id
        serving = Open(guests, services.tools, pace)
        await serving.start()
        api = HttpApi(world, services, settings, pace)
        http = HttpServer(world, MetricsPage(), api, {"/mcp": serving.serve_http})
        http.bind("127.0.0.1", 0)
        await http.serve()
        sys.stdout.write(f"http://127.0.0.1:{http.port}/mcp\n")
        sys.stdout.flush()
        await loop.run_in_executor(None, sys.stdin.read)
        await guests.stop()
        await serving.stop()
        await http.stop()
        await world.close()


if __name__ == "__main__":
    logs.configure_logging(LogSettings())
    asyncio.run(serve())
