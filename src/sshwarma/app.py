"""The composition root: builds every part, starts them in order, stops them in reverse."""

from __future__ import annotations

import asyncio
import getpass
import os
import subprocess
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import asyncssh
import structlog
from prometheus_client import CollectorRegistry

from sshwarma import verbs
from sshwarma.admin import control_socket
from sshwarma.admin.operations import run_operation
from sshwarma.common.background import BackgroundTasks
from sshwarma.lua_tools.provider import LUA_PROVIDER, SCRIPT_LIMITS, LuaToolProvider
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.server.server import McpServer
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.settings import Settings, is_loopback, split_address
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login import WorldAuthenticator
from sshwarma.ssh.door.router import SessionRouter
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.host_key import compute_fingerprint, load_host_key
from sshwarma.ssh.transport.server import SshServer, start_ssh_server
from sshwarma.terminal.clock import FrameClock
from sshwarma.tools.call import ToolProvider, Tools
from sshwarma.tools.embedding import choose_embedder
from sshwarma.tools.namespace_index import Prefetcher
from sshwarma.tools.search import NamespaceSearch
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.preferences import load_help_topics
from sshwarma.verbs.registry import tool_specs
from sshwarma.verbs.tool_provider import VerbToolProvider
from sshwarma.web.api import HttpApi
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import LoopLagMonitor, WorldMetricsCollector
from sshwarma.web.oauth_callback import make_client_metadata, oauth_callback_routes
from sshwarma.world.errors import WorldError
from sshwarma.world.names import check_name
from sshwarma.world.room_states import RoomStateWatcher
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer
from sshwarma.wrap.host import LuaHost

log = structlog.get_logger(__name__)

SHUTDOWN_MESSAGE = "The server is shutting down. What was said is kept; come back soon."
DRAIN_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class AdmittedOperator:
    """The operator, let in on the first run. `identity` is the private key file that was made for
    them, if they had none."""

    name: str
    fingerprints: tuple[str, ...]
    identity: Path | None = None


async def open_world(settings: Settings) -> World:
    """The world of a data directory, which is made if need be; no door is opened."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _ = verbs.__all__  # importing the package declared every verb
    return await World.open(settings.database, tool_specs())


class App:
    """A running server. Made by `await App.start(settings)`; ended by `stop`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.world: World
        self.ssh: SshServer
        self.http: HttpServer | None = None
        self.admitted: AdmittedOperator | None = None
        self.host_key: asyncssh.SSHKey
        self._parts = AsyncExitStack()

    @classmethod
    async def start(cls, settings: Settings) -> App:
        """Open the world and its doors. If a part fails, those already started are stopped.

        Raises:
            OSError: if an address cannot be had.
            control_socket.DataDirInUseError: if another process uses the data directory.
            hostkey.UnusableKey: if the host key cannot be used.
        """
        app = cls(settings)
        try:
            await app._start()
        except BaseException:
            await app._parts.aclose()
            raise
        return app

    async def stop(self, reason: str = SHUTDOWN_MESSAGE) -> None:
        """Tell people, finish what is being written, let go of everything."""
        for farewell in list(self.house.farewells):
            farewell(reason)
        await self._parts.aclose()

    @property
    def ssh_address(self) -> str:
        return f"{split_address(self.settings.ssh.listen)[0]}:{self.ssh.port}"

    @property
    def http_address(self) -> str:
        if self.http is None:
            return "off"
        return f"{split_address(self.settings.http.listen)[0]}:{self.http.port}"

    async def _start(self) -> None:
        settings, parts = self.settings, self._parts
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock: IO[str] = parts.enter_context(control_socket.lock_data_dir(settings.data_dir))
        log.debug("data directory taken", path=lock.name)
        self.host_key = load_host_key(settings.data_dir)
        self.world = await open_world(settings)
        parts.push_async_callback(self.world.close)
        host, port = split_address(settings.ssh.listen)
        if is_loopback(host):
            self.admitted = await admit_operator(self.world, settings.data_dir)
        lua, scripts = await asyncio.gather(LuaHost.start(), LuaHost.start(SCRIPT_LIMITS))
        parts.push_async_callback(lua.close)
        parts.push_async_callback(scripts.close)
        lua_tools = LuaToolProvider(scripts)
        hub = Hub(self.world, settings.data_dir / "mcp")
        providers: dict[str, ToolProvider] = dict.fromkeys(
            ("internal", "global"), VerbToolProvider()
        )
        providers[server_records.MCP_PROVIDER] = hub
        providers[LUA_PROVIDER] = lua_tools
        tools = Tools(self.world, providers)
        composer = ContextComposer(lua)
        roster = await Roster.open(self.world, settings.models, load_help_topics(), os.environ)
        parts.push_async_callback(roster.close)
        budgets = ModelBudgets(self.world, roster.limits)
        turns = TurnRunner(self.world, tools, roster, settings.limits, composer, budgets)
        parts.push_async_callback(turns.close)
        for part in (tools, lua_tools, composer, roster, budgets, turns, hub):
            self.world.provide(part)
        parts.push_async_callback(hub.close)
        await hub.start(settings.mcp)
        gate = WorldAuthenticator(self.world, settings.registration)
        clock = FrameClock(asyncio.get_running_loop())
        pace = LineRateLimiter(settings.limits.lines_per_10_seconds)
        self.house = SshContext(
            self.world,
            gate,
            settings.limits,
            clock,
            settings.motd,
            pace,
        )
        parts.push_async_callback(self.house.settle)
        mcp = McpServer(self.world, tools, settings.limits, settings.http, pace)
        self.house.services["mcp"] = mcp.lines
        self.ssh = await start_ssh_server(
            host,
            port,
            host_keys=[self.host_key],
            gate=gate,
            sessions=SessionRouter(self.house),
            limits=AdmissionLimits.of(settings.ssh),
        )
        parts.push_async_callback(self.ssh.drain, SHUTDOWN_MESSAGE, DRAIN_TIMEOUT_SECONDS)
        registry = CollectorRegistry()
        registry.register(WorldMetricsCollector(self.world, self.ssh))
        finder = NamespaceSearch(
            await asyncio.to_thread(choose_embedder), settings.finding.threshold
        )
        self.world.provide(finder)
        watchers = BackgroundTasks()
        parts.push_async_callback(watchers.cancel)
        watchers.spawn(Prefetcher(self.world, finder).watch(), name="namespace index")
        watchers.spawn(RoomStateWatcher(self.world).watch(), name="room states")
        watchers.spawn(LoopLagMonitor(registry).watch(), name="loop lag")
        if settings.http.listen != "off":
            api = HttpApi(self.world, settings.limits, pace)
            others = {"/mcp": mcp.http, **oauth_callback_routes(hub.signing)}
            http = HttpServer(self.world, registry, api, others)
            await http.start(*split_address(settings.http.listen))
            parts.push_async_callback(http.stop)
            self.http = http
        hub.signing.ours = make_client_metadata(
            settings.http, self.http.port if self.http else None
        )
        mcp.start()
        parts.push_async_callback(mcp.stop)
        door = control_socket.ControlServer(settings.data_dir, partial(run_operation, self.world))
        await door.start()
        parts.push_async_callback(door.stop)
        log.info("ready", ssh=self.ssh_address, http=self.http_address)

    def host_fingerprint(self) -> str:
        return compute_fingerprint(self.host_key)


async def admit_operator(world: World, data_dir: Path) -> AdmittedOperator | None:
    """On a world without people, make the person who runs it its owner, with the public keys of
    their account; with a key made for them if they have none. Nobody else is let in."""
    if any(agent.kind == "person" for agent in world.agents):
        return None
    name = _choose_operator_name()
    loop = asyncio.get_running_loop()
    texts = await loop.run_in_executor(None, _read_own_public_keys)
    identity = None
    if not texts:
        identity = data_dir / "operator_ed25519"
        texts = [_create_operator_key(identity)]
    admitted: list[str] = []
    for text in texts:
        try:
            done = await run_operation(
                world, "keys_add", {"name": name, "public_key": text, "role": "owner"}
            )
        except WorldError as error:
            log.warning("a key of yours was not admitted", error=str(error))
            continue
        admitted.append(done["fingerprint"])
    return AdmittedOperator(name, tuple(admitted), identity)


def _read_own_public_keys() -> list[str]:
    """The public keys of the account that runs the program: its files and its ssh agent."""
    found = {
        file.read_text(encoding="utf-8", errors="replace").strip()
        for file in sorted((Path.home() / ".ssh").glob("id_*.pub"))
    }
    if os.environ.get("SSH_AUTH_SOCK"):
        try:
            listed = subprocess.run(
                ["ssh-add", "-L"],  # noqa: S607 - whichever ssh the operator uses
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("the ssh agent was not asked", error=str(error))
        else:
            found |= {
                text
                for text in listed.stdout.splitlines()
                if text.startswith(("ssh-", "ecdsa-", "sk-"))
            }
    return sorted(found)


def _create_operator_key(path: Path) -> str:
    """A key for an operator who has none: the private half 0600 in the data directory."""
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="made by sshwarma")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key("openssh"))
        path.with_suffix(".pub").write_bytes(key.export_public_key("openssh"))
    return path.with_suffix(".pub").read_text(encoding="utf-8")


def _choose_operator_name() -> str:
    try:
        return check_name(getpass.getuser().lower(), "agent")
    except (WorldError, OSError, KeyError):
        return "owner"
