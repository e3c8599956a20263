"""The verbs of `/mcp`: MCP servers that this world is a client of."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, TypeAlias

from pydantic import Field

from sshwarma.common.limits import (
    MAX_CALL_TIMEOUT_SECONDS,
    MAX_SERVER_MEMORY_MIB,
    MAX_SHOWN_SERVER_LOG_LINES,
    MCP_ADD_WAIT_SECONDS,
    MIN_SERVER_MEMORY_MIB,
)
from sshwarma.mcp.client import server_records, tool_approval
from sshwarma.mcp.client.hub import Hub
from sshwarma.services import services_of
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
from sshwarma.verbs.mcp_server_arguments import (
    check_folder,
    check_program,
    check_reachable,
    make_server_settings,
)
from sshwarma.verbs.mcp_views import (
    ServerDetails,
    ServerList,
    ServerLog,
    find_listed,
    find_shown,
    format_reason,
)
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import next_call


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

CallSeconds: TypeAlias = Annotated[float, Arg("number"), Field(gt=0, le=MAX_CALL_TIMEOUT_SECONDS)]
MemoryMib: TypeAlias = Annotated[
    int, Arg("number"), Field(ge=MIN_SERVER_MEMORY_MIB, le=MAX_SERVER_MEMORY_MIB)
]

mcp = group(
    "mcp",
    section="Tools",
    default="list",
    doc="""Connect to MCP servers, whose tools can then be equipped.

    The tools that a server lists when it is added are approved. Tools that are new or changed later
    wait until an admin has read them with `/mcp show` and approves them. Details: /help servers.
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
    call_seconds: CallSeconds | None = None,
    memory_mib: MemoryMib | None = None,
    oauth_client_id: Word | None = None,
    oauth_client_secret: Word | None = None,
    oauth_issuer: Word | None = None,
    oauth_scope: Word | None = None,
    oauth_machine: Flag = False,
) -> Confirmation:
    """Add an MCP server and connect to it.

    Only owners may add one, because its command can do what this program can. The tools
    that the server lists when it is added are approved.

    Args:
        name: the name of the server, and so the namespace of its tools.
        target: its URL; or -- and a command with its arguments.
        header: an HTTP header, as in 'Authorization: Bearer ${NAME}', which reads NAME from the
            environment of this server each time; may be given again.
        env: a variable for the command, as in KEY=${NAME}; may be given again.
        cwd: the directory that the command starts in, which must exist (default: one of its own).
        sse: speak the older HTTP+SSE transport.
        allow_private: let the URL lead to this machine or a private network.
        trust: take new and changed tools without approval.
        call_seconds: timeout of a call (default {CALL_TIMEOUT_SECONDS}, at most
            {MAX_CALL_TIMEOUT_SECONDS}).
        memory_mib: memory limit of each process of the command in MiB of data (default
            {DEFAULT_SERVER_MEMORY_MIB}).
        oauth_client_id: OAuth client id, if the authorization server requires registered clients.
        oauth_client_secret: OAuth client secret, as ${NAME}.
        oauth_issuer: authorization server that knows the client; the secret goes nowhere else.
        oauth_scope: scopes to ask for, in place of those the server says it needs.
        oauth_machine: sign in with client id and secret alone, without a person.
    """
    hub = services_of(caller).hub
    flags = {"header": header, "env": env, "cwd": cwd, "sse": sse, "trust": trust,
             "allow-private": allow_private, "call-seconds": call_seconds, "memory-mib": memory_mib,
             "oauth-client-id": oauth_client_id, "oauth-client-secret": oauth_client_secret,
             "oauth-issuer": oauth_issuer, "oauth-scope": oauth_scope,
             "oauth-machine": oauth_machine}  # fmt: skip
    settings = make_server_settings(
        caller, name, target, {flag: value for flag, value in flags.items() if value}
    )
    await check_folder(caller, cwd)
    await check_program(settings)
    await check_reachable(settings)
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
    """Reconnect to an MCP server and read its tools again.

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
    was_enabled = (await hub.find(name)).enabled
    await hub.set_enabled(caller, name, True)
    if was_enabled:
        return Confirmation(
            f"{name} is already enabled.", next_call("{} shows its state.", "mcp show", name=name)
        )
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

    Only the text of tools that you have been shown can be approved.

    For people:
        /mcp show shows it.

    Args:
        name: the server.
        tool: one tool (default: all that wait).
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

    Without an address it shows the one to open. Everyone here then uses that server as you, so only
    owners may sign in.

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
    await hub.oauth_sign_ins.logout(caller, await hub.find(name))
    return Confirmation(f"Signed out of {name}: its tokens are deleted.")


async def _connection_of(caller: Caller, hub: Hub, name: str, done: str) -> Confirmation:
    """Wait until a connection attempt has ended, and return the state of the server.

    `done` is what was done to it: "Added".
    """
    condition = await hub.wait_until_settled(name, MCP_ADD_WAIT_SECONDS)
    if condition.state in ("up", "degraded"):
        return await _describe_connection(caller, hub, name)
    if condition.state == "needs-sign-in":
        return Confirmation(
            f"{done} {name}, but {format_reason(condition)}.",
            next_call("{} starts it.", "mcp login", name=name),
        )
    if condition.state == "needs-key":
        return Confirmation(
            f"{done} {name}, but {format_reason(condition)}.",
            next_call("{} tries again.", "mcp refresh", name=name),
        )
    if condition.reason:
        reason = condition.reason[0].lower() + condition.reason[1:]
        return Confirmation(
            f"{done} {name}, but it cannot connect: {reason}. This server keeps retrying.",
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
        "repaired": sum(bool(tool.metadata.get("repairs")) for tool in tools),
        "waiting for approval": sum("pending" in tool.metadata for tool in tools),
    }
    problems = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    summary = f"{name} is up with {format_count(len(tools), 'tool')}."
    equip_call = next_call("{} equips them.", "equip", context="room", patterns=f"{name}:*")
    if not problems:
        return Confirmation(summary, equip_call)
    show_call = next_call("{} says why.", "mcp show", name=name)
    return Confirmation(
        f"{summary} {problems[:1].upper()}{problems[1:]}.", replace(show_call, also=equip_call)
    )
