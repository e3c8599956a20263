"""Tools of others: MCP servers this world is a client of, and what they ask amid a call."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from sshwarma.common.limits import MAX_SHOWN_SERVER_LOG_LINES, MCP_ADD_WAIT_SECONDS
from sshwarma.mcp.client.address import check_url, resolve_allowed
from sshwarma.mcp.client.hub import Hub
from sshwarma.settings import McpSettings
from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.verbs import mcp_views
from sshwarma.verbs.arguments import Arg, Flag, RepeatedWord, Text, Word
from sshwarma.verbs.mcp_login import SignInInstructions, begin_sign_in, submit_callback_url
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, view
from sshwarma.world import names, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable

McpAction = Literal[
    "list", "show", "add", "remove", "refresh", "enable", "disable", "approve", "log",
    "login", "logout",
]  # fmt: skip

RESOLVE_TIMEOUT_SECONDS = 5.0
SETTINGS_BY_FLAG: Final = {"header": "headers", "seconds": "call_seconds", "memory": "memory_mib"}
"""What flags of /mcp add are called in settings, where that is another word."""


@dataclass(frozen=True, slots=True)
class ServerLog:
    name: str
    lines: tuple[str, ...]


@view(ServerLog)
def draw_server_log(result: ServerLog) -> Block:
    if not result.lines:
        return block(line(("dim", f"{result.name} has said nothing.")))
    return block(*(made for text in result.lines for made in text_lines(text, indent=0)))


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
        "/mcp login holler",
    ),
)
async def mcp(
    caller: Caller,
    action: McpAction = "list",
    name: Word | None = None,
    target: Annotated[str, Arg("command")] | None = None,
    *,
    header: RepeatedWord = (),
    env: RepeatedWord = (),
    cwd: Word | None = None,
    sse: Flag = False,
    allow_private: Flag = False,
    trust: Flag = False,
    seconds: Annotated[float, Arg("number"), Field(gt=0, le=1800)] | None = None,
    memory: Annotated[int, Arg("number"), Field(ge=32, le=1_048_576)] | None = None,
    oauth_client_id: Word | None = None,
    oauth_client_secret: Word | None = None,
    oauth_issuer: Word | None = None,
    oauth_scope: Word | None = None,
    oauth_machine: Flag = False,
) -> mcp_views.ServerList | mcp_views.ServerDetails | ServerLog | SignInInstructions | Confirmation:
    """Connect to MCP servers, whose tools can then be equipped

    `list` and `show` are for everyone; `log`, `refresh`, `enable`, `disable` and `approve` for
    admins; `add` and `remove` for owners, because a server started here can do what this program
    can; `login` and `logout` too, because all here then act in the owner's name there. What a
    server lists first is approved with it; tools that are new or changed later wait until an admin
    has read them with `show` and says `approve`. `disable` also ends a server that somebody brings
    along. /help servers tells more.

    action: what to do.
    name: the server, and so the namespace of its tools.
    target: for add, its URL, or -- and a command with its arguments; for approve, one tool; for
        login, the address that your browser came back to.
    header: an HTTP header, as in 'Authorization: Bearer ${NAME}', which reads NAME from the
        environment of this server each time; may be given again.
    env: a variable for the command, as in KEY=${NAME}; may be given again.
    cwd: where the command starts.
    sse: speak the older HTTP+SSE transport.
    allow_private: let the URL lead to this machine or a private network.
    trust: take new and changed tools without approval.
    seconds: the longest a call may take; 60 if left out.
    memory: MiB of data each process of the command may have; 4096 if left out.
    oauth_client_id: how the provider knows us, where it wants clients to be registered with it.
    oauth_client_secret: what proves that, as ${NAME}.
    oauth_issuer: the authorization server that knows us; the secret goes nowhere else.
    oauth_scope: the rights to ask for, in place of those the server says it needs.
    oauth_machine: sign in by id and secret alone, without a person.
    """
    hub = caller.world.part(Hub)
    if hub is None:
        raise Unavailable("This server connects to no MCP servers.")
    given = {"header": header, "env": env, "cwd": cwd, "sse": sse, "trust": trust,
             "allow-private": allow_private, "seconds": seconds, "memory": memory,
             "oauth-client-id": oauth_client_id, "oauth-client-secret": oauth_client_secret,
             "oauth-issuer": oauth_issuer, "oauth-scope": oauth_scope,
             "oauth-machine": oauth_machine}  # fmt: skip
    flags = [flag for flag, value in given.items() if value]
    if flags and action != "add":
        raise Invalid(f"--{flags[0]} belongs to /mcp add.")
    if action == "list":
        _refuse_extra_word(name)
        return await mcp_views.list_servers(caller, hub)
    if not name:
        raise Invalid(f"/mcp {action} needs a name.", hint="/mcp lists the servers.")
    if action not in ("add", "approve", "login"):
        _refuse_extra_word(target)
    if action in ("add", "remove", "login", "logout"):
        await caller.require(Right.OWN)
    elif action != "show":
        await caller.require(Right.ADMIN)
    match action:
        case "show":
            return await mcp_views.read_server_details(caller, hub, name)
        case "log":
            server = await hub.find(name)
            return ServerLog(name, tuple(hub.log_of(server)[-MAX_SHOWN_SERVER_LOG_LINES:]))
        case "add":
            declared = _make_server_settings(name, target, {flag: given[flag] for flag in flags})
            await _check_reachable(declared)
            await hub.add(caller, declared)
            return await _report_connection(caller, hub, name)
        case "remove":
            await hub.remove(caller, name)
            return Confirmation(
                f"Removed {name}. What of it is equipped stays so, for when it returns."
            )
        case "refresh":
            await hub.refresh(name, MCP_ADD_WAIT_SECONDS)
            return await mcp_views.read_server_details(caller, hub, name)
        case "approve":
            approved = await hub.approve(caller, name, target)
            return Confirmation(f"Approved {', '.join(approved)}.")
        case "login":
            if not target:
                return await begin_sign_in(caller, hub, name)
            if not await submit_callback_url(hub, name, target):
                return Confirmation(f"{name} takes its time: /mcp show {name}")
            done = await _report_connection(caller, hub, name)
            return Confirmation(f"You are signed in. {done.text}")
        case "logout":
            await hub.signing.logout(caller, await hub.find(name))
            return Confirmation(f"Signed out of {name}: nothing is kept of it.")
        case "enable":
            await hub.enable(caller, name, True)
            return await _report_connection(caller, hub, name)
        case _:
            if await hub.end_offer(caller, name):
                return Confirmation(f"Ended what was brought along as {name}.")
            await hub.enable(caller, name, False)
            return Confirmation(
                f"Disabled {name}: its tools cannot be used until /mcp enable {name}."
            )


@verb(
    "answer",
    group="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/answer Paris", "/answer --decline"),
    scope=TokenScope.ACT,
)
async def answer(
    caller: Caller, text: Text | None = None, *, decline: Flag = False
) -> Confirmation:
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
    return Confirmation("Declined." if declines else "Answered.")


def _refuse_extra_word(word: str | None) -> None:
    if word:
        raise Invalid(f"{word[:40]} is one word too many.")


def _make_server_settings(name: str, target: str | None, flags: dict[str, Any]) -> McpSettings:
    """A server as its owner described it, by the flags that were given.

    Raises:
        Invalid: saying what is wrong with that.
    """
    names.check_name(name, "server")
    if not target:
        raise Invalid("Say where it is.", hint="/mcp add NAME URL, or /mcp add NAME -- COMMAND")
    given: dict[str, Any] = {"name": name}
    given |= {
        SETTINGS_BY_FLAG.get(flag, flag.replace("-", "_")): value for flag, value in flags.items()
    }
    if target == "--" or target.startswith("-- "):
        given["command"] = tuple(_split_command(target.removeprefix("--")))
        if not given["command"]:
            raise Invalid("There is no command after the --.")
    else:
        given["url"] = check_url(target).geturl()
    if "headers" in given:
        given["headers"] = dict(
            _split_pair(text, ":", "'NAME: VALUE'") for text in given["headers"]
        )
    if "env" in given:
        given["env"] = dict(_split_pair(text, "=", "NAME=VALUE") for text in given["env"])
    try:
        return McpSettings.model_validate(given)
    except ValidationError as error:
        said = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Invalid(f"{said.removeprefix('Value error, ')[:1].upper()}"
                      f"{said.removeprefix('Value error, ')[1:]}.") from error  # fmt: skip


def _split_pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise Invalid(f"{text[:40]} is not {form}.")
    return name.strip(), value.strip()


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"The command cannot be read: {error}.") from error


async def _check_reachable(settings: McpSettings) -> None:
    """Go on unless the address is one that is never connected to: trying again will not help.

    Raises:
        Blocked: saying where it leads.
    """
    if settings.url is None:
        return
    parts = check_url(settings.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            await resolve_allowed(parts.hostname or "", port, allow_private=settings.allow_private)
    except (OSError, TimeoutError):
        return  # nobody knows the name now; it may be known later


async def _report_connection(caller: Caller, hub: Hub, name: str) -> Confirmation:
    """What became of a server that was asked to connect."""
    condition = await hub.settled(name, MCP_ADD_WAIT_SECONDS)
    if condition.state in ("up", "degraded"):
        return Confirmation(await _describe_connection(caller, hub, name))
    if condition.state == "needs-sign-in":
        return Confirmation(f"{name} is kept, but {condition.reason}")
    if condition.state == "needs-key":
        return Confirmation(
            f"{name} is kept, but {condition.reason}. /mcp refresh {name} tries again."
        )
    if condition.reason:
        return Confirmation(f"{name} is kept, and tried again: {condition.reason}.")
    return Confirmation(f"{name} is still connecting: /mcp show {name}")


async def _describe_connection(caller: Caller, hub: Hub, name: str) -> str:
    server = await hub.find(name)
    tools = await caller.world.store.read(
        lambda conn: things.read_children(conn, server.id, "tool")
    )
    counts = {
        "refused": len(server.metadata.get("refused", ())),
        "mended": sum(bool(tool.metadata.get("mended")) for tool in tools),
        "waiting for approval": sum("pending" in tool.metadata for tool in tools),
    }
    odd = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    said = f"{name} is up with {len(tools)} tools: /equip room {name}:* equips them."
    return f"{said} {odd[:1].upper()}{odd[1:]}: /mcp show {name} says why." if odd else said
