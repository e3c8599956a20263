"""Running servers: a supervisor for each enabled one, and the SDK they dial with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.common.limits import MAX_MCP_SERVERS
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.elicitation import Elicitation
from sshwarma.mcp.client.link import Dialer, ProtocolEra, SdkDial
from sshwarma.mcp.client.oauth_sign_in import OAuthSignIns
from sshwarma.mcp.client.server_listener import ServerListener
from sshwarma.mcp.client.server_state import SupervisorTiming
from sshwarma.mcp.client.supervisor import Supervisor
from sshwarma.sandbox.run import Sandbox
from sshwarma.world.errors import Unavailable
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_CONNECTING_SERVERS: Final = 10
"""Servers that may be connecting at the same time."""

SERVER_STOP_TIMEOUT_SECONDS: Final = 10.0
"""Seconds for all connections to close."""

SIGN_IN_CONNECT_SECONDS: Final = 15.0
"""Seconds to wait for a connection after a sign-in before the owner is notified."""


class ServerPool:
    """Supervisors of the enabled servers, by the id of their things.

    `folder` is the working directory of programs that have none of their own; the sign-in files
    are stored beside it. `dial` replaces the SDK in tests.

    Attributes:
        running: Supervisors by server id.
        open_sandbox: Starts the program of a toolset's server, given its thing, command and
            environment.
    """

    def __init__(
        self, world: World, folder: Path, timing: SupervisorTiming, dial: Dialer | None
    ) -> None:
        self.elicitation = Elicitation(world)
        self.oauth_sign_ins = OAuthSignIns(world, folder.with_name("signins"), self._reconnect)
        self.running: dict[str, Supervisor] = {}
        self.open_sandbox: Callable[..., AbstractAsyncContextManager[Sandbox]] | None = None
        self._world = world
        self._folder = folder
        self._timing = timing
        self._given_dial = dial
        self._loading = asyncio.Lock()
        self._slots = asyncio.Semaphore(MAX_CONNECTING_SERVERS)
        self._locks: dict[str, asyncio.Lock] = {}

    def get(self, server_id: str | None) -> Supervisor | None:
        """Return the supervisor of a server, or None if it is not enabled."""
        return self.running.get(server_id or "")

    def lock_for(self, name: str) -> asyncio.Lock:
        """Return the lock that serializes changes of one server."""
        if len(self._locks) > 2 * MAX_MCP_SERVERS:
            self._locks = {n: lock for n, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(name, asyncio.Lock())

    def supervise(
        self, server: Thing, dial: Callable[[], Awaitable[Dialer]] | None = None
    ) -> Supervisor:
        """Start to connect a server, and keep it connected until `end`.

        Args:
            server: The server's thing.
            dial: Returns the dialer; None for that of a configured server.
        """
        settings = server_records.read_settings(server)
        era: ProtocolEra = "legacy" if server.metadata.get("era") == "legacy" else "auto"
        supervisor = Supervisor(
            settings=settings,
            folder=self._folder / server.name,
            era=era,
            dial=dial or partial(self._dial, server),
            listener=ServerListener(
                self._world, self.elicitation, self.oauth_sign_ins, server.id, settings
            ),
            timing=self._timing,
            slots=self._slots,
        )
        self.running[server.id] = supervisor
        supervisor.start()
        return supervisor

    async def end(self, server_id: str) -> None:
        """Disconnect a server and mark its tools as unavailable."""
        supervisor = self.running.pop(server_id, None)
        if supervisor is not None:
            await supervisor.stop()
        await self._world.change(lambda tx: server_records.mark_unavailable(tx, [server_id]))

    async def close(self) -> None:
        """Stop all sign-ins, connections and programs concurrently."""
        await self.oauth_sign_ins.close()
        tasks = [asyncio.create_task(server.stop()) for server in self.running.values()]
        self.running.clear()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=SERVER_STOP_TIMEOUT_SECONDS)
            for task in pending:
                log.error("an mcp server did not stop in time", seconds=SERVER_STOP_TIMEOUT_SECONDS)
                task.cancel()

    async def _reconnect(self, server: Thing) -> None:
        """Reconnect a server after a sign-in or sign-out."""
        supervisor = self.running.get(server.id)
        credentials = self.oauth_sign_ins.credentials(server)
        if supervisor is None or credentials is None:
            return
        if credentials.token:
            await supervisor.refresh(SIGN_IN_CONNECT_SECONDS)
        else:
            supervisor.redial("signed out")

    async def _dial(self, server: Thing) -> Dialer:
        """Return the dialer of the SDK, which is imported at the first use."""
        if self._given_dial is not None:
            return self._given_dial
        async with self._loading:
            dial = await load_dial()
        credentials = self.oauth_sign_ins.credentials(server)
        if not server_records.is_of_toolset(server):
            return partial(dial, credentials=credentials)
        if self.open_sandbox is None:  # never outside of one
            raise Unavailable("Programs of toolsets cannot be run here.")
        sandbox = partial(self.open_sandbox, server)
        return partial(dial, credentials=credentials, sandbox=sandbox)


async def load_dial() -> SdkDial:
    """Import the SDK in a thread, which takes seconds; return its dial function."""
    return await asyncio.get_running_loop().run_in_executor(None, _import_dial)


def _import_dial() -> SdkDial:
    with serialize_imports():
        from sshwarma.mcp.client.sdk.dial import dial
    return dial
