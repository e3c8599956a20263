"""Views of MCP servers: the list, one server with its tools, and its log."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_DIFF_LINES
from sshwarma.common.line_diff import format_unified_diff
from sshwarma.common.shorten import count_rest
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.hub import Hub, ServerStatus
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.verbs.views import (
    SkippedSetting,
    cut_to_line,
    draw_columns,
    draw_skipped,
    format_count,
    format_duration,
    list_skipped,
    view,
    view_for_reader,
)
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, unknown_name_error
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class ServerListItem:
    """An MCP server as /mcp list shows it."""

    name: str
    state: str
    tools: int
    waiting: int  # tools that wait for approval
    where: str
    reason: str
    refused: tuple[tuple[str, str], ...]  # tools that are left out, each with the reason


@dataclass(frozen=True, slots=True)
class ServerList:
    """The MCP servers that the caller may see.

    Attributes:
        skipped: servers of the settings that are not in force, with the reasons; for admins.
    """

    servers: tuple[ServerListItem, ...]
    skipped: tuple[SkippedSetting, ...] = ()


@view_for_reader(ServerList)
def draw_server_list(result: ServerList, reader: Reader) -> Block:
    """Draw the MCP servers, with their states and numbers of tools."""
    skipped = draw_skipped(result.skipped)
    if not result.servers:
        hint = reader.hint(" An owner adds one with {}.", "mcp add")
        return block(f"No MCP servers.{hint}", *skipped)
    return block(
        line(("heading", "MCP servers:")),
        *draw_columns(
            (
                _draw_state_mark(server.state, server.name),
                ("dim", server.state),
                format_count(server.tools, "tool"),
                ("warn", f"{server.waiting} wait for approval" if server.waiting else ""),
                ("dim", _name_obstacle(server, reader) or server.where),
            )
            for server in result.servers
        ),
        *(
            line(("warn", f"{server.name}: {_describe_refused(server.refused)}"), hang=2)
            for server in result.servers
            if server.refused
        ),
        *skipped,
    )


def _describe_refused(refused: tuple[tuple[str, str], ...]) -> str:
    """Return the first tool that is left out, the reason, and how many are."""
    (name, reason), *others = refused
    rest = f"; {count_rest(len(others))}" if others else ""
    return f"the tool {name} is left out: {reason}{rest}"


def _name_obstacle(server: ServerListItem | ServerDetails, reader: Reader) -> str:
    """Return why a server is not up, and the sign-in call if that is what it needs."""
    if server.state != "needs-sign-in":
        return server.reason
    return f"{server.reason}{reader.hint(': {}', 'mcp login', name=server.name)}"


def _draw_state_mark(state: str, name: str) -> Span:
    if state in ("up", "degraded"):
        return ("tool", f"✓ {name}")
    return ("dim", f"{'…' if state in ('new', 'connecting') else '✗'} {name}")


@dataclass(frozen=True, slots=True)
class ServerToolDetails:
    """A tool of an MCP server, and whether it can be used."""

    name: str
    description: str
    status: str  # available, or why it cannot be used
    notes: tuple[str, ...]  # what was repaired
    changes: tuple[str, ...]  # a diff of what waits for approval


@dataclass(frozen=True, slots=True)
class ServerDetails:
    """All details of an MCP server; its whole address and headers only for admins.

    Attributes:
        seconds: time in the current state; None if no attempt to connect was made.
        retry_seconds: time to the next attempt; None if none is planned.
        facts: other facts, by title.
        refused: tools that were refused, each with the reason.
    """

    name: str
    state: str
    seconds: int | None  # for how long
    reason: str
    retry_seconds: int | None
    where: str
    facts: dict[str, str]
    tools: tuple[ServerToolDetails, ...]
    refused: tuple[tuple[str, str], ...]


@view_for_reader(ServerDetails)
def draw_server_details(server: ServerDetails, reader: Reader) -> Block:
    """Draw an MCP server: state, tools, changes that wait for approval, and refusals."""
    since = f" for {format_duration(server.seconds)}" if server.seconds is not None else ""
    lines: list[Line] = [
        line(("thing", server.name), f" - MCP server, {server.state}{since}"),
        line(server.where, hang=2),
    ]
    if server.reason:
        retry = (
            f"; next try in {server.retry_seconds} s" if server.retry_seconds is not None else ""
        )
        lines.append(line(("warn", f"{_name_obstacle(server, reader)}{retry}"), hang=2))
    lines += [line(f"{name}: ", ("dim", value), hang=2) for name, value in server.facts.items()]
    lines += [line(), line(("heading", "Tools:"))]
    lines += draw_columns(
        (
            ("tool", f"✓ {tool.name}") if tool.status == "available" else ("dim", f"✗ {tool.name}"),
            ("warn", "" if tool.status == "available" else tool.status),
            ("dim", cut_to_line(tool.description)),
        )
        for tool in server.tools
    )
    if not server.tools:
        lines.append(line("  ", ("dim", "none")))
    for tool in server.tools:
        if tool.changes:
            lines += [line(), line(("warn", f"{tool.name} waits for approval:"))]
            lines += [line("  ", (_diff_style(change), change), hang=4) for change in tool.changes]
    repairs = [(tool.name, note) for tool in server.tools for note in tool.notes]
    for title, notes in (("Repaired:", repairs), ("Refused:", server.refused)):
        if notes:
            lines += [line(), line(("heading", title))]
            lines += draw_columns((("tool", name), ("dim", note)) for name, note in notes)
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ServerLog:
    """Lines of a server's log and stderr, newest last."""

    name: str
    lines: tuple[str, ...]


@view(ServerLog)
def draw_server_log(result: ServerLog) -> Block:
    """Draw the log of a server, newest line last."""
    if not result.lines:
        return block(line(("dim", f"The log of {result.name} is empty.")))
    return block(*(log_line for text in result.lines for log_line in text_lines(text, indent=0)))


def _diff_style(change: str) -> str:
    return {"+": "ok", "-": "error"}.get(change[:1], "dim")


async def find_listed(caller: Caller, hub: Hub) -> ServerList:
    """List every server, and the servers that agents offer to the room."""

    def read(conn: Connection) -> list[tuple[Thing, list[Thing]]]:
        records = [
            *server_records.list_servers(conn),
            *server_records.list_offers(conn, caller.room_id),
        ]
        return [(server, things.read_children(conn, server.id, "tool")) for server in records]

    show_addresses = await _may_see_addresses(caller)
    servers = []
    for server, tools in await caller.world.store.read(read):
        condition = hub.status_of(server)
        pending_count = sum("pending" in tool.metadata for tool in tools)
        servers.append(
            ServerListItem(
                name=server.name,
                state=condition.state,
                tools=len(tools),
                waiting=pending_count,
                where=_format_address(caller, server, show_addresses),
                reason=format_reason(condition, show_addresses),
                refused=_read_refused(server),
            )
        )
    skipped = list_skipped(hub.skipped) if show_addresses else ()
    return ServerList(tuple(servers), skipped)


def _read_refused(server: Thing) -> tuple[tuple[str, str], ...]:
    return tuple((entry[0], entry[1]) for entry in server.metadata.get("refused", ()))


def format_reason(condition: ServerStatus, whole: bool = True) -> str:
    """Return why a server is not up.

    Those who may see its log read its last line too.
    """
    if condition.state == "up":
        return ""
    reason = condition.reason
    return reason if whole else reason.partition(": ")[0]


async def find_shown(caller: Caller, hub: Hub, name: str) -> ServerDetails:
    """Read all details of one server. An admin may then approve the tools as shown.

    Raises:
        NotFound: if it does not exist, or is in a room that the caller may not enter.
    """
    show_addresses = await _may_see_addresses(caller)
    try:
        server = await hub.find(name)
    except NotFound:
        if show_addresses and name in hub.skipped:
            reason = hub.skipped[name]
            raise NotFound(f"{name} is in the settings and not in force: {reason}") from None
        raise
    ancestors, tools = await caller.world.store.read(
        lambda conn: (
            things.read_ancestors(conn, server.id),
            things.read_children(conn, server.id, "tool"),
        )
    )
    if not all(map(await caller.visibility_filter(), ancestors)):
        raise unknown_name_error("MCP server", name, hint=next_call("{} lists them.", "mcp list"))
    if show_addresses:
        hub.mark_read(caller, server, tools)
    condition, sign_in = hub.status_of(server), hub.oauth_sign_ins.describe_status(server)
    now = time.monotonic()
    return ServerDetails(
        name=name,
        state=condition.state,
        seconds=int(now - condition.since) if condition.since else None,
        reason=format_reason(condition, show_addresses),
        retry_seconds=max(0, round(condition.retry_at - now)) if condition.retry_at else None,
        where=_format_address(caller, server, show_addresses),
        facts=dict(_list_facts(server, sign_in, show_addresses, _name_origin(server, ancestors))),
        tools=tuple(_make_tool_details(server, tool) for tool in tools),
        refused=_read_refused(server),
    )


async def _may_see_addresses(caller: Caller) -> bool:
    """Return whether the caller may see the addresses of servers: admins only."""
    return await caller.may_administer()


def _format_address(caller: Caller, server: Thing, whole: bool) -> str:
    if server_records.is_offered(server):
        return f"offered by {caller.world.agents.name_of(server.created_by)}"
    settings = server_records.read_settings(server)
    if settings.url is not None:
        parts = urlsplit(settings.url)
        return settings.url if whole else f"{parts.scheme}://{parts.hostname}"
    return shlex.join(settings.command) if whole else Path(settings.command[0]).name


def _name_origin(server: Thing, ancestors: Sequence[Thing]) -> str:
    """Return who has added a server, as the rest of a sentence; "" if it is offered."""
    if server_records.is_offered(server):
        return ""
    if server_records.is_from_settings(server):
        return "in the settings file"
    if server_records.is_of_toolset(server):
        toolset = next((one.label for one in ancestors if one.id == server.parent_id), "")
        return f"by the toolset {toolset}"
    return "by an owner"


def _list_facts(server: Thing, signed: str, whole: bool, origin: str) -> Iterator[tuple[str, str]]:
    settings = server_records.read_settings(server)
    is_offered = server_records.is_offered(server)
    if server.metadata.get("server"):
        yield "Server", server.metadata["server"]
    if server.metadata.get("version"):
        yield "Protocol", server.metadata["version"]
    for title, values in (("Headers", settings.headers), ("Environment", settings.env)):
        if values and whole:
            yield title, ", ".join(f"{name}={value}" for name, value in values.items())
    if signed and whole:
        yield "Sign-in", signed
    if settings.oauth_client_id and whole:
        yield "Client", settings.oauth_client_id
    if settings.cwd is not None and whole:
        yield "Directory", str(settings.cwd)
    if origin:
        yield "Added", origin
    limits = f"{settings.call_seconds:g} s a call, {settings.calls_at_once} at once"
    if settings.url is None and not is_offered:
        limits += f", {settings.memory_mib} MiB"
    yield (
        "Limits",
        f"{limits}; new tools {'are trusted' if settings.trust else 'wait for approval'}",
    )


def _make_tool_details(server: Thing, tool: Thing) -> ServerToolDetails:
    meta = tool.metadata
    obstacle = str(meta.get("obstacle", "")) or ("" if tool.available else "unavailable")
    if not tool.enabled or not server.enabled:
        obstacle = "disabled"
    notes = meta.get("repairs", ())
    return ServerToolDetails(
        tool.label,
        tool.description,
        obstacle or "available",
        tuple(notes),
        tuple(_diff_declarations(tool)),
    )


def _diff_declarations(tool: Thing) -> list[str]:
    """Diff the approved declaration of a tool with the one that waits for approval."""
    declaration = tool.metadata.get("pending")
    if not declaration:
        return []
    old_lines = _declaration_lines({**tool.metadata, "description": tool.description})
    new_lines = _declaration_lines(declaration)
    lines = list(format_unified_diff(old_lines, new_lines, context=1))
    if len(lines) > MAX_DIFF_LINES:
        lines[MAX_DIFF_LINES:] = [f"… {len(lines) - MAX_DIFF_LINES} more lines"]
    return lines


def _declaration_lines(declaration: dict[str, Any]) -> list[str]:
    lines = (
        str(declaration.get("title", "")).splitlines()
        + str(declaration.get("description", "")).splitlines()
    )
    for key in ("input_schema", "output_schema", "annotations"):
        if declaration.get(key):
            lines += json.dumps({key: declaration[key]}, indent=1, ensure_ascii=False).splitlines()[
                1:-1
            ]
    return lines
