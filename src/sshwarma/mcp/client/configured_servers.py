"""MCP servers of the settings: declared at the start, compared at a reload."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import structlog

from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.server_pool import ServerPool
from sshwarma.settings import McpSettings
from sshwarma.world import things
from sshwarma.world.errors import Conflict, NotFound, Unavailable
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


async def declare_all(
    world: World, configured: Sequence[McpSettings]
) -> tuple[list[Thing], dict[str, str]]:
    """Declare the servers of the settings; return all servers, marked unavailable.

    If the world cannot be written to, they are those that it has. Returns also why servers of the
    settings are not in force, a sentence for each name.
    """
    try:
        return await world.change(lambda tx: _declare_all(tx, configured))
    except Unavailable as error:
        servers = await world.store.read(server_records.list_servers)
        skipped = dict.fromkeys(_find_undeclared(servers, configured), str(error))
        log.error(
            "mcp servers of the settings are not in force",
            servers=list(skipped), reason=str(error),
        )  # fmt: skip
        return servers, skipped


def _find_undeclared(servers: Sequence[Thing], configured: Sequence[McpSettings]) -> list[str]:
    """Return the names of servers that a world does not have as they are set."""
    own = {server.name: server for server in servers if server_records.is_from_settings(server)}
    return [
        settings.name
        for settings in configured
        if settings.name not in own or server_records.read_settings(own[settings.name]) != settings
    ]


def _declare_all(
    tx: Change, configured: Sequence[McpSettings]
) -> tuple[list[Thing], dict[str, str]]:
    skipped: dict[str, str] = {}
    names = {settings.name for settings in configured}
    for settings in configured:
        try:
            server_records.declare_server(tx, settings, created_by=None, from_settings=True)
        except (Conflict, NotFound) as error:
            log.warning("an mcp server was skipped", server=settings.name, reason=str(error))
            skipped[settings.name] = str(error)
    server_records.remove_offers(tx)
    for server in server_records.list_servers(tx.conn):
        if server_records.is_from_settings(server) and server.name not in names:
            server_records.remove_server(tx, server)
    servers = server_records.list_servers(tx.conn)
    if servers:
        server_records.mark_unavailable(tx, [server.id for server in servers])
    return servers, skipped


async def adopt(
    pool: ServerPool, world: World, configured: Sequence[McpSettings]
) -> dict[str, str]:
    """Connect new and changed servers of the settings; remove the others.

    Returns:
        Why servers were skipped, a sentence for each name: it is in use, or the world cannot be
        written to. One that was there stays then as it was, and one to remove is disconnected.
    """
    names = {settings.name for settings in configured}
    problems: dict[str, str] = {}

    async def attempt(name: str, step: Awaitable[None]) -> None:
        try:
            await step
        except (Conflict, NotFound, Unavailable) as error:
            log.warning("an mcp server was skipped", server=name, reason=str(error))
            problems[name] = str(error)

    for server in await world.store.read(server_records.list_servers):
        if server_records.is_from_settings(server) and server.name not in names:
            await attempt(server.name, _remove(pool, world, server))
    for settings in configured:
        await attempt(settings.name, _declare(pool, world, settings))
    return problems


async def _remove(pool: ServerPool, world: World, server: Thing) -> None:
    async with pool.lock_for(server.name):
        await pool.oauth_sign_ins.cancel(server)
        await pool.end(server.id)
        await world.change(
            lambda tx: server_records.remove_server(tx, things.get_live_thing(tx.conn, server.id))
        )


async def _declare(pool: ServerPool, world: World, settings: McpSettings) -> None:
    """Declare a server and connect to it, unless it is there with these settings.

    Raises:
        Conflict: if the name is in use.
        Unavailable: if the world cannot be written to; one that was there is connected again.
    """
    async with pool.lock_for(settings.name):
        servers = await world.store.read(server_records.list_servers)
        old = next((server for server in servers if server.name == settings.name), None)
        if (
            old is not None
            and server_records.is_from_settings(old)
            and server_records.read_settings(old) == settings
        ):
            return
        try:
            if old is not None:
                await pool.oauth_sign_ins.cancel(old)
                await pool.end(old.id)
            server = await world.change(
                lambda tx: server_records.declare_server(
                    tx, settings, created_by=None, from_settings=True
                )
            )
        except Unavailable:
            if old is not None and old.enabled:
                pool.supervise(old)
            raise
        if server.enabled:
            pool.supervise(server)
