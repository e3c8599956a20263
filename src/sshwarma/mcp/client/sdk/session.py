"""Live connection to one server, over the SDK: tool listings, probes, calls."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any, Final

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from typing_extensions import override

from sshwarma.common.limits import (
    MAX_LISTING_ENTRIES,
    MAX_LISTING_PAGES,
    MAX_SERVER_INSTRUCTIONS_CHARACTERS,
    MAX_SERVER_TEXT_CHARACTERS,
)
from sshwarma.common.shorten import shorten_text
from sshwarma.mcp._sdk import accept_tool_listing, request_tool_page
from sshwarma.mcp.client.link import (
    LinkCallbacks,
    LinkLost,
    ProgressCallback,
    ProtocolEra,
    ResponseLost,
    ServerInfo,
    ServerLink,
)
from sshwarma.mcp.client.sanitize import (
    RejectedTool,
    SanitizedTool,
    ToolListing,
    sanitize_listing,
    strip_invisible,
)
from sshwarma.mcp.client.sdk.bearer import BearerAuth
from sshwarma.mcp.client.sdk.deep_messages import ANSWER_REFUSED_CODE
from sshwarma.mcp.client.sdk.elicitation_form import current_call
from sshwarma.mcp.client.sdk.results import convert_result
from sshwarma.tools.progress import ProgressText
from sshwarma.tools.provider import ToolResult

LISTEN_RETRY_SECONDS: Final = 5.0
MAX_PROGRESS_CHARACTERS: Final = 100


class McpSession(ServerLink):
    """Connection to a server through the SDK's client.

    `start` subscribes to changes of the tool listing; `stop` ends the subscription.
    """

    def __init__(
        self,
        client: Client,
        era: ProtocolEra,
        callbacks: LinkCallbacks,
        bearer: BearerAuth | None = None,
    ) -> None:
        self._client = client
        self._bearer = bearer
        self._callbacks = callbacks
        self._modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        info = client.server_info
        self.greeting = ServerInfo(
            client.protocol_version,
            shorten_text(strip_invisible(f"{info.name} {info.version}")) if info else "",
            era,
            _clean_instructions(client.instructions),
        )
        self._listen_task: asyncio.Task[None] | None = None
        self._known_tools: dict[str, SanitizedTool] = {}

    def start(self) -> None:
        """Subscribe to changes of the tool listing, if the protocol supports that."""
        if self._modern:
            self._listen_task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        """End the subscription; the client stays connected."""
        if self._listen_task is not None:
            self._listen_task.cancel()
            await asyncio.gather(self._listen_task, return_exceptions=True)

    @override
    async def tools(self, limit: int) -> ToolListing:
        try:
            raw = await _fetch_raw_tools(self._client.session)
        except MCPError as error:
            if self._bearer is not None:
                self._bearer.raise_refusal(error)
            raise
        if self._modern:
            raw = [_check_header_annotations(entry) or entry for entry in raw]
        # Checking hundreds of schemas is slow: do it off the event loop.
        loop = asyncio.get_running_loop()
        listing = await loop.run_in_executor(None, sanitize_listing, raw, limit, self._known_tools)
        self._known_tools = {tool.fingerprint: tool for tool in listing.tools}
        _remember_listing(self._client.session, listing)
        return listing

    @override
    async def probe(self) -> None:
        session = self._client.session
        if self._modern:
            await session.send_discover(self._client.protocol_version)
        else:
            try:
                await session.send_ping()
            except MCPError as error:
                if error.code != types.METHOD_NOT_FOUND:  # it has no ping, and it lives
                    raise

    @override
    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressCallback | None, mark: object
    ) -> ToolResult:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                text = format_progress(progress, total, message)
                report(ProgressText(text, progress, total))

        outer = current_call.set(mark)
        scope_refusals = self._scope_refusal_count
        try:
            answer = await self._client.call_tool(tool, arguments, progress_callback=progressed)
        except MCPError as error:
            return self._handle_call_error(error, scope_refusals)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            location = ".".join(map(str, detail["loc"]))
            text = f"The server's response violates the MCP protocol: {location}: {detail['msg']}."
            return ToolResult(strip_invisible(text)[:MAX_SERVER_TEXT_CHARACTERS], is_error=True)
        except RuntimeError as error:  # its result violates its schema, or it asks without end
            text = strip_invisible(str(error).partition("\n")[0])[:MAX_SERVER_TEXT_CHARACTERS]
            return ToolResult(f"The server's response was rejected: {text}", is_error=True)
        finally:
            current_call.reset(outer)
        return convert_result(answer)

    @property
    def _scope_refusal_count(self) -> int:
        return self._bearer.scope_refusal_count if self._bearer is not None else 0

    def _handle_call_error(self, error: MCPError, scope_refusals: int) -> ToolResult:
        """Return the error result of a failed call.

        `scope_refusals` is the number of refused scopes before the call.

        Raises:
            LinkLost, ResponseLost, KeyRequired: as `call` does.
        """
        text = strip_invisible(error.message)[:MAX_SERVER_TEXT_CHARACTERS]
        bearer = self._bearer
        if bearer is not None:
            if bearer.refusal_reason:
                bearer.raise_refusal(error)
            if bearer.scope_refusal_count != scope_refusals:
                return ToolResult(bearer.scope_message, is_error=True)
            if bearer.outage_reason:
                return ToolResult(
                    f"The tool was not called: {bearer.outage_reason}.", is_error=True
                )
        if error.code == types.CONNECTION_CLOSED:
            is_lost = error.message == "Connection closed"
            raise (LinkLost if is_lost else ResponseLost)(text) from error
        if error.code == types.INVALID_REQUEST and "session" in text.lower():
            raise LinkLost(text) from error  # the server restarted and lost our session
        if error.code == ANSWER_REFUSED_CODE:
            return ToolResult(text, is_error=True)
        return ToolResult(f"The server refused: {text}", is_error=True)

    async def _listen(self) -> None:
        """Follow changes of the listing; read it again after each broken stream.

        A new stream does not replay the events that were missed.
        """
        while True:
            with suppress(SubscriptionLost):
                try:
                    async with self._client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._callbacks.on_listing_changed()
                except (MCPError, ListenNotSupportedError):
                    return  # not supported; the listing is read at intervals
            await asyncio.sleep(LISTEN_RETRY_SECONDS)
            self._callbacks.on_listing_changed()


async def _fetch_raw_tools(session: ClientSession) -> list[Any]:
    """Return the raw entries of the tool listing, at most MAX_LISTING_ENTRIES."""
    raw: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_LISTING_PAGES):
        answer = await request_tool_page(session, cursor)
        page = answer.get("tools")
        raw += page if isinstance(page, list) else []
        next_cursor = answer.get("nextCursor")
        if not isinstance(next_cursor, str) or not next_cursor or len(raw) >= MAX_LISTING_ENTRIES:
            break
        cursor = next_cursor
    return raw[:MAX_LISTING_ENTRIES]


def _check_header_annotations(entry: Any) -> RejectedTool | None:
    """Reject a tool with invalid x-mcp-header annotations, as the protocol requires."""
    schema = entry.get("inputSchema") if isinstance(entry, dict) else None
    error = find_invalid_x_mcp_header(schema) if isinstance(schema, dict) else None
    if not error:
        return None
    return RejectedTool(
        str(entry.get("name")), f"x-mcp-header: {shorten_text(strip_invisible(error))}"
    )


def _remember_listing(session: ClientSession, listing: ToolListing) -> None:
    """Give the SDK the accepted tools: it mirrors headers and checks results by them."""
    tools = [
        types.Tool(
            name=tool.remote, input_schema=tool.input_schema, output_schema=tool.output_schema
        )
        for tool in listing.tools
    ]
    accept_tool_listing(session, tools)


def format_progress(progress: float, total: float | None, message: str | None) -> str:
    """Return how far a call is: the share that is done, and the server's message."""
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    text = " ".join(strip_invisible(message or "").split())
    repeated = rf"(?<!\d){re.escape(share).replace('/', ' ?(?:/|of) ?')}(?!\d)"
    if re.search(repeated, text):  # many servers write it in their message, too
        return text[:MAX_PROGRESS_CHARACTERS]
    return f"{share} {text}".strip()[:MAX_PROGRESS_CHARACTERS]


def _clean_instructions(text: str | None) -> str:
    return strip_invisible(text or "")[:MAX_SERVER_INSTRUCTIONS_CHARACTERS].strip()
