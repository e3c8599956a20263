"""MCP servers that toolsets bring: declared and removed with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_MCP_SERVERS
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.server_pool import ServerPool
from sshwarma.settings import McpSettings
from sshwarma.world import things
from sshwarma.world.errors import Conflict, Unavailable
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


class BundledServers:
    """The MCP servers of toolsets; those of one are children of its namespace."""

    def __init__(self, world: World, pool: ServerPool) -> None:
        """Connect servers by a pool."""
        self._world = world
        self._pool = pool

    def declare(
        self,
        tx: Change,
        space: Thing,
        servers: Sequence[tuple[McpSettings, Mapping[str, Any]]],
        created_by: str,
        describe: Callable[[str], str] = str,
    ) -> None:
        """Make these the servers of a toolset, in the change that installs it.

        `describe` adds its file and line to a problem of a field of the manifest.

        Raises:
            Conflict: if a name is in use, or there are MAX_MCP_SERVERS servers.
        """
        names = {settings.name for settings, _ in servers}
        for server in things.read_children(tx.conn, space.id, "mcp"):
            if server.name not in names:
                server_records.remove_server(tx, server)
        for index, (settings, shown) in enumerate(servers):
            try:
                server_records.declare_bundled(tx, settings, space, dict(shown), created_by)
            except Conflict as error:
                problem = f"mcp_servers[{index}].id: {error.message.removesuffix('.')}"
                raise Conflict(f"{describe(problem)}.", hint=error.hints) from error
        if servers and len(server_records.list_servers(tx.conn)) > MAX_MCP_SERVERS:
            raise Conflict(f"A world can have at most {MAX_MCP_SERVERS} MCP servers.")

    def remove(self, tx: Change, space: Thing) -> None:
        """Remove the servers of a toolset, in the change that uninstalls it."""
        self.declare(tx, space, (), "")

    async def apply(self, space_id: str) -> None:
        """Connect the servers of a toolset as they are now, and disconnect what is gone."""
        space, servers = await self._world.store.read(
            lambda conn: (things.get_thing(conn, space_id), _read_all(conn, space_id))
        )
        is_in_use = space is not None and space.deleted_at is None and space.enabled
        for server in servers:
            async with self._pool.lock_for(server.name):
                try:
                    if server.id in self._pool.running:
                        await self._pool.end(server.id)
                    if server.deleted_at is not None:
                        await self._pool.oauth_sign_ins.forget(server)
                except (Unavailable, OSError) as error:  # the disk is full; the others go on
                    log.warning(
                        "an mcp server was not marked as ended",
                        server=server.name,
                        reason=str(error),
                    )
                if server.deleted_at is None and is_in_use and server.enabled:
                    self._pool.supervise(server)


def _read_all(conn: Connection, space_id: str) -> list[Thing]:
    """Return the servers that a toolset has or had."""
    query = select(things_table).where(
        things_table.c.kind == "mcp", things_table.c.parent_id == space_id
    )
    return [things.thing_from_row(row) for row in conn.execute(query).mappings()]
