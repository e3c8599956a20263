"""The verbs of `/mcp`: MCP servers that this world is a client of."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, ValidationError

from sshwarma.common.limits import MAX_SHOWN_SERVER_LOG_LINES, MCP_ADD_WAIT_SECONDS
from sshwarma.mcp.client import server_records, tool_approval
from sshwarma.mcp.client.address import check_url, resolve_allowed
from sshwarma.mcp.client.hub import Hub
from sshwarma.services import services_of
from sshwarma.settings import McpSettings
from sshwarma.settings.errors import describe_value_error
from sshwarma.verbs.argument_names import name_arguments
from sshwarma.verbs.arguments import (
    Arg,
    Command,
    CompletionRequest,
    Flag,
    Option,
    RepeatedWord,
    Word,
)
from sshwarma.verbs.mcp_login import SignInInstructions, begin_sign_in, submit_callback_url
from sshwarma.verbs.mcp_views import (
    ServerDetails,
    ServerList,
    ServerLog,
    find_listed,
    find_shown,
    format_reason,
)
from sshwarma.verbs.reader import next_call
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import Confirmation
from sshwarma.world import names, things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid

RESOLVE_TIMEOUT_SECONDS = 5.0
SETTINGS_BY_FLAG: Final = {"header": "headers", "seconds": "call_seconds", "memory": "memory_mib"}
"""Names in the settings of those flags of /mcp add that have another name there."""

SERVER_ARGUMENTS: Final = {
    **{setting: flag for flag, setting in SETTINGS_BY_FLAG.items()},
    **{
        name: name
        for name in ("env", "cwd", "sse", "allow_private", "trust", "oauth_client_id",
                     "oauth_client_secret", "oauth_issuer", "oauth_scope", "oauth_machine")
    },
}  # fmt: skip
"""The parameter of /mcp add for each setting that a flag sets."""


async def complete_servers(request: CompletionRequest) -> list[Option]:
    """List the MCP servers by name."""
    servers = await request.caller.world.memoized("mcp servers", server_records.list_servers)
    return [(server.name, server.description) for server in servers]


async def complete_waiting_tools(request: CompletionRequest) -> list[Option]:
    """List the tools of the server in `request.given` that wait for approval."""
    if len(request.given) != 1:
        return []
    query = partial(tool_approval.list_pending_tools, name=request.given[0])
    tools = await request.caller.world.store.read(query)
    return [(tool.name, str(tool.metadata["obstacle"])) for tool in tools]


ServerName: TypeAlias = Annotated[str, Arg(complete=complete_servers)]
WaitingTool: TypeAlias = Annotated[str, Arg(complete=complete_waiting_tools)]
"""A tool that waits for approval."""

CallSeconds: TypeAlias = Annotated[float, Arg("number"), Field(gt=0, le=1800)]
MemoryMib: TypeAlias = Annotated[int, Arg("number"), Field(ge=32, le=1_048_576)]

mcp = group(
    "mcp",
    section="Tools",
    default="list",
    doc="""Connect to MCP servers, whose tools can then be equipped.

    The tools that a server lists when it is added are approved. Tools that are new or changed later
    wait until an admin has read them with `/mcp show` and approves them. /help servers tells more.
    """,
)


@mcp.verb("list", needs=Right.ENTER, tool=False, examples=("/mcp", "/mcp list"))
async def list_servers(caller: Caller) -> ServerList:
    """List MCP servers, and those offered in this room."""
    return await find_listed(caller, services_of(caller).hub)


@mcp.verb("show", needs=Right.ENTER, tool=False, examples=("/mcp show holler",))
async def show_server(caller: Caller, name: ServerName) -> ServerDetails:
    """Show an MCP server: its state, its tools, and what waits for approval.

    How it is reached, and its headers and environment, are shown to admins only.

    Args:
        name: the server.
    """
    return await find_shown(caller, services_of(caller).hub, name)


@mcp.verb(
    "add",
    needs=Right.OWN,
    tool=False,
    examples=(
        "/mcp add holler https://mcp.example.org/mcp --header 'Authorization: Bearer ${HOLLER}'",
        "/mcp add files -- npx -y @modelcontextprotocol/server-filesystem /srv/files",
    ),
)
async def add_server(  # noqa: PLR0913 - one parameter for each flag
    caller: Caller,
    name: Word,
    target: Command,
    *,
    header: RepeatedWord = (),
    env: RepeatedWord = (),
    cwd: Word | None = None,
    sse: Flag = False,
    allow_private: Flag = False,
    trust: Flag = False,
    seconds: CallSeconds | None = None,
    memory: MemoryMib | None = None,
    oauth_client_id: Word | None = None,
    oauth_client_secret: Word | None = None,
    oauth_issuer: Word | None = None,
    oauth_scope: Word | None = None,
    oauth_machine: Flag = False,
) -> Confirmation:
    """Add an MCP server and connect to it.

    Only owners may, because a command that is started here can do what this program can. The tools
    that the server lists when it is added are approved.

    Args:
        name: the name of the server, and so the namespace of its tools.
        target: its URL; or -- and a command with its arguments.
        header: an HTTP header, as in 'Authorization: Bearer ${NAME}', which reads NAME from the
            environment of this server each time; may be given again.
        env: a variable for the command, as in KEY=${NAME}; may be given again.
        cwd: the folder that the command starts in, which must exist (default: one of its own).
        sse: speak the older HTTP+SSE transport.
        allow_private: let the URL lead to this machine or a private network.
        trust: take new and changed tools without approval.
        seconds: timeout of a call in seconds (default 60, at most 1800).
        memory: memory limit of each process of the command in MiB of data (default 4096).
        oauth_client_id: OAuth client id, if the authorization server requires registered clients.
        oauth_client_secret: OAuth client secret, as ${NAME}.
        oauth_issuer: authorization server that knows the client; the secret goes nowhere else.
        oauth_scope: scopes to ask for, in place of those the server says it needs.
        oauth_machine: sign in with client id and secret alone, without a person.
    """
    hub = services_of(caller).hub
    flags = {"header": header, "env": env, "cwd": cwd, "sse": sse, "trust": trust,
             "allow-private": allow_private, "seconds": seconds, "memory": memory,
             "oauth-client-id": oauth_client_id, "oauth-client-secret": oauth_client_secret,
             "oauth-issuer": oauth_issuer, "oauth-scope": oauth_scope,
             "oauth-machine": oauth_machine}  # fmt: skip
    settings = _make_server_settings(
        caller, name, target, {flag: value for flag, value in flags.items() if value}
    )
    await _check_folder(caller, settings)
    await _check_reachable(settings)
    await hub.add(caller, settings)
    return await _connection_of(caller, hub, name, "Added")


@mcp.verb("remove", needs=Right.OWN, tool=False, examples=("/mcp remove holler",))
async def remove_server(caller: Caller, name: ServerName) -> Confirmation:
    """Remove an MCP server and its tools.

    Its equipment is kept and applies again if the server is added again.

    Args:
        name: the server.
    """
    await services_of(caller).hub.remove(caller, name)
    return Confirmation(f"Removed {name}. Its equipment is kept and applies if you add it again.")


@mcp.verb("refresh", needs=Right.ADMIN, tool=False, examples=("/mcp refresh holler",))
async def refresh_server(caller: Caller, name: ServerName) -> ServerDetails:
    """Connect to an MCP server again now, and list its tools again.

    Args:
        name: the server.
    """
    hub = services_of(caller).hub
    await hub.refresh(name, MCP_ADD_WAIT_SECONDS)
    return await find_shown(caller, hub, name)


@mcp.verb("enable", needs=Right.ADMIN, tool=False, examples=("/mcp enable holler",))
async def enable_server(caller: Caller, name: ServerName) -> Confirmation:
    """Enable a disabled MCP server, and connect to it.

    Args:
        name: the server.
    """
    hub = services_of(caller).hub
    await hub.set_enabled(caller, name, True)
    return await _connection_of(caller, hub, name, "Enabled")


@mcp.verb("disable", needs=Right.ADMIN, tool=False, examples=("/mcp disable holler",))
async def disable_server(caller: Caller, name: ServerName) -> Confirmation:
    """Disable an MCP server: its tools cannot be used until it is enabled.

    This also ends a server that somebody offers.

    Args:
        name: the server.
    """
    hub = services_of(caller).hub
    if await hub.end_offer(caller, name):
        return Confirmation(f"Ended the offered server {name}.")
    if not (await hub.find(name)).enabled:
        return Confirmation(f"{name} is already disabled.")
    await hub.set_enabled(caller, name, False)
    return Confirmation(
        f"Disabled {name}: its tools cannot be used.",
        next_call("{} enables it again.", "mcp enable", name=name),
    )


@mcp.verb(
    "approve",
    needs=Right.ADMIN,
    tool=False,
    examples=("/mcp approve holler", "/mcp approve holler sample"),
)
async def approve_tools(
    caller: Caller, name: ServerName, tool: WaitingTool | None = None
) -> Confirmation:
    """Approve new and changed tools of an MCP server.

    Only what `/mcp show` has shown you can be approved.

    Args:
        name: the server.
        tool: one tool; all that wait if left out.
    """
    approved = await services_of(caller).hub.approve(caller, name, tool)
    return Confirmation(f"Approved {', '.join(approved)}.")


@mcp.verb("log", needs=Right.ADMIN, tool=False, examples=("/mcp log holler",))
async def show_server_log(caller: Caller, name: ServerName) -> ServerLog:
    """Show what an MCP server wrote to its log and to stderr, newest last.

    Args:
        name: the server.
    """
    hub = services_of(caller).hub
    server = await hub.find(name)
    return ServerLog(name, tuple(hub.log_of(server)[-MAX_SHOWN_SERVER_LOG_LINES:]))


@mcp.verb(
    "login",
    needs=Right.OWN,
    tool=False,
    examples=(
        "/mcp login holler",
        "/mcp login holler 'http://127.0.0.1:2280/oauth/callback?code=abc&state=def'",
    ),
)
async def log_in(
    caller: Caller, name: ServerName, address: Word | None = None
) -> SignInInstructions | Confirmation:
    """Sign in to an MCP server with a browser.

    Without an address it shows the one to open. Everybody here then acts in your name there, so
    only owners may.

    Args:
        name: the server.
        address: the address that your browser came back to.
    """
    hub = services_of(caller).hub
    if not address:
        return await begin_sign_in(caller, hub, name)
    if not await submit_callback_url(hub, name, address):
        return Confirmation(
            "Still connecting.", next_call("{} shows its state.", "mcp show", name=name)
        )
    confirmation = await _connection_of(caller, hub, name, "Signed in to")
    return replace(confirmation, text=f"You are signed in. {confirmation.text}")


@mcp.verb("logout", needs=Right.OWN, tool=False, examples=("/mcp logout holler",))
async def log_out(caller: Caller, name: ServerName) -> Confirmation:
    """Sign out of an MCP server.

    The tokens are deleted here and revoked at the authorization server.

    Args:
        name: the server.
    """
    hub = services_of(caller).hub
    await hub.oauth_logins.logout(caller, await hub.find(name))
    return Confirmation(f"Signed out of {name}: its tokens are deleted.")


def _make_server_settings(
    caller: Caller, name: str, target: str, flags: dict[str, Any]
) -> McpSettings:
    """Make the settings of a server from the flags of `/mcp add`.

    Raises:
        Invalid: with the value that is wrong; its flag or parameter is named as the caller gave it.
    """
    names.check_name(name, "server")
    values: dict[str, Any] = {"name": name}
    values |= {
        SETTINGS_BY_FLAG.get(flag, flag.replace("-", "_")): value for flag, value in flags.items()
    }
    if target == "--" or target.startswith("-- "):
        values["command"] = tuple(_split_command(target.removeprefix("--")))
        if not values["command"]:
            raise Invalid("The -- needs a command after it.")
    else:
        values["url"] = check_url(target).geturl()
    if "headers" in values:
        values["headers"] = dict(
            _split_pair(text, ":", "'NAME: VALUE'") for text in values["headers"]
        )
    if "env" in values:
        values["env"] = dict(_split_pair(text, "=", "NAME=VALUE") for text in values["env"])
    try:
        return McpSettings.model_validate(values)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        problem = describe_value_error(detail, show_value=False)
        setting = str(detail["loc"][0]) if detail["loc"] else ""
        if setting and setting not in {"command", "url"}:
            problem = f"{setting}: {problem}"
        problem = name_arguments(caller, problem, SERVER_ARGUMENTS)
        raise Invalid(f"{problem[:1].upper()}{problem[1:]}.") from error


def _split_pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, separator, value = text.partition(sign)
    if not separator or not name.strip():
        raise Invalid(f"{text[:40]} is not {form}.")
    return name.strip(), value.strip()


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"The command cannot be read: {error}.") from error


async def _check_folder(caller: Caller, settings: McpSettings) -> None:
    """Refuse a working directory that a command cannot be started in.

    Raises:
        Invalid: unless it is the absolute path of a directory.
    """
    folder = settings.cwd
    if folder is None:
        return
    argument = name_arguments(caller, "cwd", SERVER_ARGUMENTS)
    if not folder.is_absolute():
        raise Invalid(f"{argument}: must be an absolute path (got {str(folder)[:60]}).")
    if not await asyncio.to_thread(folder.is_dir):
        raise Invalid(
            f"{argument}: the folder {str(folder)[:60]} does not exist on the server.",
            hint="Create it there first.",
        )


async def _check_reachable(settings: McpSettings) -> None:
    """Refuse an address that is never connected to, because a retry cannot help.

    Raises:
        BlockedAddress: with the address that the name resolves to.
    """
    if settings.url is None:
        return
    parts = check_url(settings.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            await resolve_allowed(parts.hostname or "", port, allow_private=settings.allow_private)
    except (OSError, TimeoutError):
        return  # the name is unknown now; it may be known later


async def _connection_of(caller: Caller, hub: Hub, name: str, done: str) -> Confirmation:
    """Wait until a connection attempt has ended, and return the state of the server.

    `done` is what was done to it: "Added".
    """
    condition = await hub.wait_until_settled(name, MCP_ADD_WAIT_SECONDS)
    if condition.state in ("up", "degraded"):
        return await _describe_connection(caller, hub, name)
    if condition.state == "needs-sign-in":
        return Confirmation(f"{done} {name}, but {format_reason(caller, condition)}")
    if condition.state == "needs-key":
        return Confirmation(
            f"{done} {name}, but {format_reason(caller, condition)}.",
            next_call("{} tries again.", "mcp refresh", name=name),
        )
    if condition.reason:
        reason = condition.reason[0].lower() + condition.reason[1:]
        return Confirmation(
            f"{done} {name}, but it cannot connect: {reason}. It is tried again.",
            next_call("{} shows its state.", "mcp show", name=name),
        )
    return Confirmation(
        f"{name} is still connecting.", next_call("{} shows its state.", "mcp show", name=name)
    )


async def _describe_connection(caller: Caller, hub: Hub, name: str) -> Confirmation:
    server = await hub.find(name)
    tools = await caller.world.store.read(
        lambda conn: things.read_children(conn, server.id, "tool")
    )
    counts = {
        "refused": len(server.metadata.get("refused", ())),
        "repaired": sum(bool(tool.metadata.get("mended")) for tool in tools),
        "waiting for approval": sum("pending" in tool.metadata for tool in tools),
    }
    problems = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    summary = f"{name} is up with {len(tools)} tools."
    equip_call = next_call("{} equips them.", "equip", context="room", patterns=f"{name}:*")
    if not problems:
        return Confirmation(summary, equip_call)
    show_call = next_call("{} says why.", "mcp show", name=name)
    return Confirmation(
        f"{summary} {problems[:1].upper()}{problems[1:]}.", replace(show_call, also=equip_call)
    )
