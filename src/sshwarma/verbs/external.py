"""Tools of others: MCP servers this world is a client of, and what they ask amid a call."""

from __future__ import annotations

import difflib
import json
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from sshwarma.mcp import catalog
from sshwarma.mcp.address import check_url
from sshwarma.mcp.hub import Hub
from sshwarma.settings import McpSettings
from sshwarma.terminal.text import Block, Line, Span, block, line, paragraphs
from sshwarma.verbs.arguments import Arg, Flag, Many, Text, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Done, ago, columns, view
from sshwarma.world import names, things
from sshwarma.world.access import Right, Scope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.things import Thing

Action = Literal[
    "list", "show", "add", "remove", "refresh", "enable", "disable", "approve", "log"
]  # fmt: skip

SETTLE_SECONDS = 30.0
"""How long a new server is waited for before its owner is told to look later. One that is fetched
first, or starts on a busy machine, takes longer than a few seconds."""

DIFF_LINES = 60
LOG_LINES = 100


@dataclass(frozen=True, slots=True)
class ServerListed:
    name: str
    state: str
    tools: int
    waiting: int  # tools that wait for approval
    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerList:
    servers: tuple[ServerListed, ...]


@view(ServerList)
def _(result: ServerList) -> Block:
    if not result.servers:
        return block("No MCP servers. An owner adds one with /mcp add.")
    return block(
        line(("heading", "MCP servers:")),
        *columns(
            (
                _mark(server.state, server.name),
                ("dim", server.state),
                f"{server.tools} tools",
                ("warn", f"{server.waiting} wait for approval" if server.waiting else ""),
                ("dim", server.reason or server.where),
            )
            for server in result.servers
        ),
    )


def _mark(state: str, name: str) -> Span:
    if state in ("up", "degraded"):
        return ("tool", f"✓ {name}")
    return ("dim", f"{'…' if state in ('new', 'connecting') else '✗'} {name}")


@dataclass(frozen=True, slots=True)
class ToolShown:
    name: str
    description: str
    status: str  # available, or why it cannot be used
    notes: tuple[str, ...]  # what was mended
    changes: tuple[str, ...]  # a diff of what waits for approval


@dataclass(frozen=True, slots=True)
class ServerShown:
    """Everything there is to know of a server; headers and environment as they were given."""

    name: str
    state: str
    seconds: int | None  # for how long
    reason: str
    retry_seconds: int | None
    where: str
    facts: dict[str, str]
    tools: tuple[ToolShown, ...]
    refused: tuple[tuple[str, str], ...]


@view(ServerShown)
def _(shown: ServerShown) -> Block:
    since = f" for {ago(shown.seconds)}" if shown.seconds is not None else ""
    lines: list[Line] = [
        line(("thing", shown.name), f" - MCP server, {shown.state}{since}"),
        line(shown.where, hang=2),
    ]
    if shown.reason:
        again = f"; next try in {shown.retry_seconds} s" if shown.retry_seconds is not None else ""
        lines.append(line(("warn", f"{shown.reason}{again}"), hang=2))
    lines += [line(f"{name}: ", ("dim", value), hang=2) for name, value in shown.facts.items()]
    lines += [line(), line(("heading", "Tools:"))]
    lines += columns(
        (
            ("tool", f"✓ {tool.name}") if tool.status == "available" else ("dim", f"✗ {tool.name}"),
            ("warn", "" if tool.status == "available" else tool.status),
            ("dim", tool.description.partition("\n")[0][:120]),
        )
        for tool in shown.tools
    )
    if not shown.tools:
        lines.append(line("  ", ("dim", "none")))
    for tool in shown.tools:
        if tool.changes:
            lines += [line(), line(("warn", f"{tool.name} waits for approval:"))]
            lines += [line("  ", (_diff_style(change), change), hang=4) for change in tool.changes]
    mended = [(tool.name, note) for tool in shown.tools for note in tool.notes]
    for title, notes in (("Mended:", mended), ("Refused:", shown.refused)):
        if notes:
            lines += [line(), line(("heading", title))]
            lines += columns((("tool", name), ("dim", note)) for name, note in notes)
    return block(*lines)


def _diff_style(change: str) -> str:
    return {"+": "ok", "-": "error"}.get(change[:1], "dim")


@dataclass(frozen=True, slots=True)
class ServerLog:
    name: str
    lines: tuple[str, ...]


@view(ServerLog)
def _(result: ServerLog) -> Block:
    if not result.lines:
        return block(line(("dim", f"{result.name} has said nothing.")))
    return block(*(made for text in result.lines for made in paragraphs(text, indent=0)))


@verb(
    "mcp",
    group="Tools",
    needs=Right.ENTER,
    tool=False,
    examples=(
        "/mcp",
        "/mcp add holler https://mcp.example.org/mcp --header 'Authorization: Bearer ${HOLLER}'",
        "/mcp add files -- npx -y @modelcontextprotocol/server-filesystem /srv/files",
        "/mcp show holler",
        "/mcp approve holler sample",
    ),
)
async def mcp(
    caller: Caller,
    action: Action = "list",
    name: Word | None = None,
    target: Annotated[str, Arg("command")] | None = None,
    *,
    header: Many = (),
    env: Many = (),
    cwd: Word | None = None,
    sse: Flag = False,
    allow_private: Flag = False,
    trust: Flag = False,
    seconds: Annotated[float, Arg("number"), Field(gt=0, le=1800)] | None = None,
    memory: Annotated[int, Arg("number"), Field(ge=32, le=1_048_576)] | None = None,
) -> ServerList | ServerShown | ServerLog | Done:
    """Connect to MCP servers, whose tools can then be equipped

    `list` and `show` are for everyone; `log`, `refresh`, `enable`, `disable` and `approve` for
    admins; `add` and `remove` for owners, because a server started here can do what this program
    can. What a server lists first is approved with it; tools that are new or changed later wait
    for `approve`. /help servers tells more.

    action: what to do.
    name: the server, and so the namespace of its tools.
    target: for add, its URL, or -- and a command with its arguments; for approve, one tool.
    header: an HTTP header, as in 'Authorization: Bearer ${NAME}', which reads NAME from the
        environment of this server each time; may be given again.
    env: a variable for the command, as in KEY=${NAME}; may be given again.
    cwd: where the command starts.
    sse: speak the older HTTP+SSE transport.
    allow_private: let the URL lead to this machine or a private network.
    trust: take new and changed tools without approval.
    seconds: the longest a call may take; 60 if left out.
    memory: MiB of data each process of the command may have; 4096 if left out.
    """
    hub = caller.world.part(Hub)
    if hub is None:
        raise Unavailable("This server connects to no MCP servers.")
    given = {"header": header, "env": env, "cwd": cwd, "sse": sse, "trust": trust,
             "allow-private": allow_private, "seconds": seconds, "memory": memory}  # fmt: skip
    flags = [flag for flag, value in given.items() if value]
    if flags and action != "add":
        raise Invalid(f"--{flags[0]} belongs to /mcp add.")
    if action == "list":
        _no_more(name)
        return await _listed(caller, hub)
    if not name:
        raise Invalid(f"/mcp {action} needs a name.", hint="/mcp lists the servers.")
    if action not in ("add", "approve"):
        _no_more(target)
    if action in ("add", "remove"):
        await caller.require(Right.OWN)
    elif action != "show":
        await caller.require(Right.ADMIN)
    match action:
        case "show":
            return await _shown(caller, hub, name)
        case "log":
            server = await hub.find(name)
            return ServerLog(name, tuple(hub.log_of(server)[-LOG_LINES:]))
        case "add":
            declared = _declared(name, target, header, env, cwd, sse, allow_private, trust,
                                 seconds, memory)  # fmt: skip
            await hub.add(caller, declared)
            return await _added(caller, hub, name)
        case "remove":
            await hub.remove(caller, name)
            return Done(f"Removed {name}. Its tools stay equipped for when it returns.")
        case "refresh":
            await hub.refresh(name, SETTLE_SECONDS)
            return await _shown(caller, hub, name)
        case "approve":
            approved = await hub.approve(caller, name, target)
            return Done(f"Approved {', '.join(approved)}.")
        case "enable":
            await hub.enable(caller, name, True)
            return await _added(caller, hub, name)
        case _:
            await hub.enable(caller, name, False)
            return Done(f"Disabled {name}: its tools cannot be used until /mcp enable {name}.")


@verb(
    "answer",
    group="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/answer Paris", "/answer --decline"),
    scope=Scope.ACT,
)
async def answer(caller: Caller, text: Text | None = None, *, decline: Flag = False) -> Done:
    """Answer what a tool asks you

    Left bare, it takes the default, or leaves the field out. What a tool asks is between you and
    it: nobody else in the room sees question or answer.

    text: your answer.
    decline: give none, to this and to whatever else it would ask.
    """
    hub = caller.world.part(Hub)
    if hub is None:
        raise Unavailable("Nothing asks questions on this server.")
    declines = decline or (text or "").strip() == "--decline"
    hub.asking.answer(caller.agent.id, None if declines else text or "")
    return Done("Declined." if declines else "Answered.")


def _no_more(word: str | None) -> None:
    if word:
        raise Invalid(f"{word[:40]} is one word too many.")


def _declared(
    name: str,
    target: str | None,
    headers: Iterable[str],
    env: Iterable[str],
    cwd: str | None,
    sse: bool,
    allow_private: bool,
    trust: bool,
    seconds: float | None,
    memory: int | None,
) -> McpSettings:
    """A server as its owner described it.

    Raises:
        Invalid: saying what is wrong with that.
    """
    names.check_name(name, "server")
    if not target:
        raise Invalid("Say where it is.", hint="/mcp add NAME URL, or /mcp add NAME -- COMMAND")
    given: dict[str, Any] = {"name": name, "trust": trust}
    if target == "--" or target.startswith("-- "):
        given["command"] = tuple(_words(target.removeprefix("--")))
        if not given["command"]:
            raise Invalid("There is no command after the --.")
    else:
        given["url"] = check_url(target).geturl()
    if headers:
        given["headers"] = dict(_pair(text, ":", "'NAME: VALUE'") for text in headers)
    if env:
        given["env"] = dict(_pair(text, "=", "NAME=VALUE") for text in env)
    if cwd is not None:
        given["cwd"] = cwd
    if sse:
        given["sse"] = True
    if allow_private:
        given["allow_private"] = True
    if seconds is not None:
        given["call_seconds"] = seconds
    if memory is not None:
        given["memory_mib"] = memory
    try:
        return McpSettings.model_validate(given)
    except ValidationError as error:
        said = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Invalid(f"{said.removeprefix('Value error, ')[:1].upper()}"
                      f"{said.removeprefix('Value error, ')[1:]}.") from error  # fmt: skip


def _pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise Invalid(f"{text[:40]} is not {form}.")
    return name.strip(), value.strip()


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"The command cannot be read: {error}.") from error


async def _added(caller: Caller, hub: Hub, name: str) -> Done:
    """What became of a server that was asked to connect."""
    condition = await hub.settled(name, SETTLE_SECONDS)
    tools = await caller.world.store.read(
        lambda conn: len(things.children(conn, catalog.server_id(name), "tool"))
    )
    if condition.state in ("up", "degraded"):
        return Done(f"{name} is up with {tools} tools: /equip room {name}:* equips them.")
    if condition.reason:
        return Done(f"{name} is kept, and tried again: {condition.reason}.")
    return Done(f"{name} is still connecting: /mcp show {name}")


async def _listed(caller: Caller, hub: Hub) -> ServerList:
    def read(conn: Any) -> list[tuple[Thing, list[Thing]]]:
        return [(known, things.children(conn, known.id, "tool")) for known in catalog.servers(conn)]

    found = []
    for server, tools in await caller.world.store.read(read):
        condition = hub.condition(server)
        waiting = sum("pending" in tool.metadata for tool in tools)
        found.append(
            ServerListed(
                server.name,
                condition.state,
                len(tools),
                waiting,
                _where(server),
                "" if condition.state == "up" else condition.reason,
            )
        )
    return ServerList(tuple(found))


async def _shown(caller: Caller, hub: Hub, name: str) -> ServerShown:
    server = await hub.find(name)
    tools = await caller.world.store.read(lambda conn: things.children(conn, server.id, "tool"))
    condition = hub.condition(server)
    now = time.monotonic()
    return ServerShown(
        name,
        condition.state,
        int(now - condition.since) if condition.since else None,
        "" if condition.state == "up" else condition.reason,
        max(0, round(condition.retry_at - now)) if condition.retry_at else None,
        _where(server),
        dict(_facts(server)),
        tuple(_tool_shown(server, tool) for tool in tools),
        tuple((entry[0], entry[1]) for entry in server.metadata.get("refused", ())),
    )


def _where(server: Thing) -> str:
    settings = catalog.settings_of(server)
    return settings.url or shlex.join(settings.command)


def _facts(server: Thing) -> Iterator[tuple[str, str]]:
    settings = catalog.settings_of(server)
    if server.metadata.get("server"):
        yield "Server", server.metadata["server"]
    if server.metadata.get("version"):
        yield "Protocol", server.metadata["version"]
    for title, values in (("Headers", settings.headers), ("Environment", settings.env)):
        if values:
            yield title, ", ".join(f"{name}={value}" for name, value in values.items())
    if settings.cwd is not None:
        yield "Folder", str(settings.cwd)
    yield "Declared", "in the settings" if server.metadata.get("origin") == "settings" else "here"
    limits = f"{settings.call_seconds:g} s a call, {settings.calls_at_once} at once"
    if settings.url is None and server.metadata.get("origin") != catalog.OFFERED:
        limits += f", {settings.memory_mib} MiB"
    yield (
        "Limits",
        f"{limits}; new tools {'are trusted' if settings.trust else 'wait for approval'}",
    )


def _tool_shown(server: Thing, tool: Thing) -> ToolShown:
    meta = tool.metadata
    obstacle = str(meta.get("obstacle", "")) or ("" if tool.available else "unavailable")
    if not tool.enabled or not server.enabled:
        obstacle = "disabled"
    notes = meta.get("mended", ())
    return ToolShown(
        tool.label, tool.description, obstacle or "available", tuple(notes), tuple(_diff(tool))
    )


def _diff(tool: Thing) -> list[str]:
    """What waits for approval, beside what was approved, a line each."""
    pending = tool.metadata.get("pending")
    if not pending:
        return []
    before = _as_text({**tool.metadata, "description": tool.description})
    after = _as_text(pending)
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    if len(lines) > DIFF_LINES:
        lines[DIFF_LINES:] = [f"… {len(lines) - DIFF_LINES} more lines"]
    return lines


def _as_text(said: dict[str, Any]) -> list[str]:
    lines = str(said.get("title", "")).splitlines() + str(said.get("description", "")).splitlines()
    for key in ("input_schema", "output_schema", "annotations"):
        if said.get(key):
            lines += json.dumps({key: said[key]}, indent=1, ensure_ascii=False).splitlines()[1:-1]
    return lines
