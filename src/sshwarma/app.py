"""Composition root: builds all parts, starts them in order, stops in reverse."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from typing import Any

import structlog

from sshwarma.admin import reload
from sshwarma.admin.drain import Drain
from sshwarma.admin.exposure import log_exposure
from sshwarma.admin.first_run import AdmittedOperator, admit_operator
from sshwarma.admin.host_keys import warn_of_missing_key
from sshwarma.admin.load_plugins import start_plugins
from sshwarma.admin.open_world import check_database_file, open_world
from sshwarma.admin.reload import ReloadReport
from sshwarma.admin.served_data_dir import ServedDataDir
from sshwarma.admin.server_operations import run_operation
from sshwarma.admin.service_notify import ServiceNotifier
from sshwarma.admin.start_addresses import check_addresses
from sshwarma.admin.start_errors import listening_at, starting_workers
from sshwarma.admin.upgrade import upgrade_at_start
from sshwarma.admin.upkeep import Upkeep
from sshwarma.admin.work_directory import delete_leftovers
from sshwarma.common.background import BackgroundTasks
from sshwarma.common.open_files import watch_open_files
from sshwarma.hooks.outgoing import Hooks
from sshwarma.lua_tools.provider import LUA_PROVIDER, SCRIPT_LIMITS, LuaToolProvider
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.environment import PROGRAMS_DIRECTORY
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.server.server import McpServer
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.services import Services
from sshwarma.settings import (
    ReloadableSettings,
    Settings,
    SettingsSource,
    format_address,
    is_loopback,
    split_address,
)
from sshwarma.ssh.door.browser_shell import BrowserShells
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login import WorldAuthenticator
from sshwarma.ssh.door.router import SessionRouter
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.host_key import compute_fingerprint
from sshwarma.ssh.transport.server import SshServer, start_ssh_server
from sshwarma.terminal.clock import FrameClock
from sshwarma.tools.call import Tools
from sshwarma.tools.embedding import choose_embedder
from sshwarma.tools.namespace_index import Prefetcher
from sshwarma.tools.search import NamespaceSearch
from sshwarma.toolsets.records import TOOLSET_PROVIDER
from sshwarma.toolsets.rendered_results import RenderedResults
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.triggers.triggers import Triggers
from sshwarma.verbs.help import load_help_topics, load_how_tos
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.tool_provider import make_verb_providers
from sshwarma.web import service_metrics
from sshwarma.web.api import HttpApi
from sshwarma.web.console.pages import Console
from sshwarma.web.http import HttpServer, find_public_url
from sshwarma.web.metrics import LoopLagMonitor, MetricsPage, WorldMetricsCollector
from sshwarma.web.oauth_callback import make_client_metadata, oauth_callback_routes
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.errors import WorldError
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.room_states import RoomStateWatcher
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer
from sshwarma.wrap.host import LuaHost

log = structlog.get_logger(__name__)


class App:
    """A running server. Made by `await App.start(settings)`; ended by `stop`."""

    def __init__(
        self,
        settings: Settings,
        source: SettingsSource | None = None,
        notifier: ServiceNotifier | None = None,
    ) -> None:
        self.settings = settings
        self.source = source or SettingsSource()
        self._notifier = notifier or ServiceNotifier()
        self._reloading = asyncio.Lock()
        self.world: World
        self.services: Services
        self.ssh_context: SshContext
        self.ssh: SshServer
        self.http: HttpServer | None = None
        self.admitted_operator: AdmittedOperator | None = None
        self.upkeep: Upkeep
        self._lua_hosts: dict[str, LuaHost] = {}
        self.data_dir: ServedDataDir
        self._parts = AsyncExitStack()
        self._watchers = BackgroundTasks()

    @classmethod
    async def start(
        cls,
        settings: Settings,
        source: SettingsSource | None = None,
        notifier: ServiceNotifier | None = None,
    ) -> App:
        """Open the world and its doors; if a part fails, stop those started before.

        `source` is where `reload` reads the settings again; `notifier` reports how the server is.

        Raises:
            OSError: if a server cannot listen at its address.
            DataDirInUseError: if another process uses the data directory.
            UnusableKey: if the host key cannot be used.
        """
        app = cls(settings, source, notifier)
        try:
            await app._start()
        except BaseException:
            await app._parts.aclose()
            raise
        return app

    async def stop(self) -> None:
        """Notify people, finish pending writes, and release all resources."""
        self._notifier.report_stopping()
        for farewell in list(self.ssh_context.on_stop):
            farewell(self.drain.farewell)
        await self._parts.aclose()

    async def reload(self) -> ReloadReport:
        """Read the settings again; put into force what can change at run time.

        Raises:
            Invalid: if they are not valid; then nothing has changed.
        """
        async with self._reloading:
            self._notifier.report_reloading()
            try:
                new = await asyncio.to_thread(reload.load_again, self.source)
                report = reload.compare_settings(self.settings, new)
                kept = reload.keep_fixed(self.settings, new)
                report.unrecorded = await reload.record_reload(self.world)
                old, self.settings = self.settings, kept
                self.settings = await reload.apply_settings(self.services, old, kept, report)
                await asyncio.to_thread(reload.note_findings, self.settings, os.environ, report)
                self._set_client_metadata(self.http)
                self.upkeep.wake()
            except WorldError as error:
                log.error("the settings were not reloaded", reason=str(error))
                raise
            finally:
                self._report_ready()
        report.log()
        log_exposure(self.settings)
        return report

    async def load_host_keys(self) -> None:
        """Use the host keys in the data directory for new connections.

        Raises:
            UnusableKey: if one cannot be used; then the old ones stay.
        """
        await asyncio.to_thread(self.data_dir.load_host_keys)
        await self.ssh.set_host_keys(self.data_dir.host_keys)
        log.info(
            "host keys", in_use=self.host_fingerprint(), announced=len(self.data_dir.host_keys) - 1
        )

    @property
    def ssh_address(self) -> str:
        """HOST:PORT of the ssh server, with the port that was picked."""
        return format_address(split_address(self.settings.ssh.listen)[0], self.ssh.port)

    @property
    def http_address(self) -> str:
        """HOST:PORT of the HTTP server, or `off`."""
        if self.http is None:
            return "off"
        return format_address(split_address(self.settings.http.listen)[0], self.http.port)

    async def _start(self) -> None:
        await self._open_store()
        await self._build_services()
        await self._open_doors()
        await self._get_ready()

    async def _open_store(self) -> None:
        """Lock the data directory, load the host key and open the world."""
        settings, stack = self.settings, self._parts
        self.data_dir = stack.enter_context(ServedDataDir(settings.data_dir))
        check_addresses(settings)
        if not settings.database:
            check_database_file(settings)
        delete_leftovers(settings.data_dir)
        warn_of_missing_key(settings)
        self.data_dir.load_host_keys()
        if not settings.database:
            await upgrade_at_start(settings.database_file, self._notifier)
        self.world = await open_world(settings)
        stack.push_async_callback(self.world.close)
        if not settings.database:
            self.data_dir.hold_database(settings.database_file)
        watchdog = BackgroundTasks()  # until the store closes: stopping takes seconds, too
        stack.push_async_callback(watchdog.cancel)
        if self._notifier.watchdog_seconds is not None:
            watchdog.keep_running(
                lambda: self._notifier.keep_watchdog_quiet(self.world.store.probe), name="watchdog"
            )
        if is_loopback(split_address(settings.ssh.listen)[0]):
            self.admitted_operator = await admit_operator(self.world, settings.data_dir)

    async def _build_services(self) -> None:
        """Build every service; no door listens before all of them exist."""
        settings, stack, world = self.settings, self._parts, self.world
        reloadable = ReloadableSettings.of(settings)
        with starting_workers():
            lua, scripts, embedder = await asyncio.gather(
                LuaHost.start(), LuaHost.start(SCRIPT_LIMITS), asyncio.to_thread(choose_embedder)
            )
        stack.push_async_callback(lua.close)
        stack.push_async_callback(scripts.close)
        self._lua_hosts = {"compose": lua, "script": scripts}
        runs = await stack.enter_async_context(WorkspaceRuns.open(world, settings))
        hub = Hub(world, settings.data_dir / PROGRAMS_DIRECTORY)
        of_servers = {server_records.MCP_PROVIDER: RenderedResults(runs.workspaces, hub)}
        tools = Tools(world, make_verb_providers() | of_servers)
        lua_tools = LuaToolProvider(scripts, tools)
        tools.register(LUA_PROVIDER, lua_tools)
        toolsets = await Toolsets.open(world, runs, hub.bundled, settings.data_dir)
        stack.push_async_callback(toolsets.close)
        hub.pool.open_sandbox = toolsets.open_server_sandbox
        tools.register(TOOLSET_PROVIDER, toolsets)
        projects = await ProjectPaths.open(world, is_pinned=settings.memory.pin_project)
        await start_plugins(toolsets.plugins, settings.plugins, projects)
        composer = ContextComposer(lua, projects)
        topics, models_dir = load_help_topics(), settings.data_dir / "models"
        roster = await Roster.open(
            world, settings.models, topics, load_how_tos(), os.environ, models_dir
        )
        stack.push_async_callback(roster.close)
        budgets = ModelBudgets(world, roster.limits)
        turns = TurnRunner(world, tools, roster, reloadable, composer, budgets)
        stack.push_async_callback(turns.close)
        self.services = Services(
            tools=tools,
            lua_tools=lua_tools,
            composer=composer,
            roster=roster,
            budgets=budgets,
            turns=turns,
            hub=hub,
            search=NamespaceSearch(embedder, reloadable),
            settings=reloadable,
            workspaces=runs.workspaces,
            runs=runs,
            toolsets=toolsets,
            projects=projects,
            hooks=await stack.enter_async_context(Hooks.open(world)),
        )
        database = DatabaseUrl(settings.database) if settings.database else None
        self.upkeep = Upkeep(world, settings.data_dir, reloadable, database=database)
        stack.push_async_callback(hub.close)
        await hub.start(settings.mcp)
        self.settings = reload.leave_out(settings, {"models": roster.skipped, "mcp": hub.skipped})

    async def _open_doors(self) -> None:
        """Listen on ssh and, unless it is off, on HTTP, and serve MCP over both."""
        settings, stack, services = self.settings, self._parts, self.services
        reloadable = services.settings
        authenticator = WorldAuthenticator(self.world, reloadable)
        stack.push_async_callback(authenticator.audit.close)
        line_rate = LineRateLimiter(lambda: reloadable.limits.lines_per_10_seconds)
        self.ssh_context = SshContext(
            world=self.world,
            services=services,
            authenticator=authenticator,
            settings=reloadable,
            clock=FrameClock(asyncio.get_running_loop(), time.perf_counter),
            line_rate=line_rate,
        )
        stack.push_async_callback(self.ssh_context.flush)
        mcp = McpServer(self.world, services, reloadable, line_rate)
        self.ssh_context.channels["mcp"] = mcp.lines
        metrics = MetricsPage()
        # No door listens before a sign-in has its redirect address, which needs the port of HTTP.
        http = self._bind_http(mcp, line_rate, metrics)
        with listening_at(settings.ssh.listen, "--listen"):
            self.ssh = await start_ssh_server(
                *split_address(settings.ssh.listen),
                host_keys=self.data_dir.host_keys,
                authenticator=authenticator,
                sessions=SessionRouter(self.ssh_context),
                limits=AdmissionLimits.from_settings(settings.ssh),
            )
        self.drain = drain = Drain(self.world, services.turns, self.ssh)
        stack.push_async_callback(lambda: self.ssh.drain(drain.farewell))
        stack.push_async_callback(drain.close)
        stack.push_async_callback(self._watchers.cancel)
        self._add_metrics(metrics, http)
        self._watchers.keep_running(LoopLagMonitor(metrics.registry).watch, name="loop lag")
        self._watchers.keep_running(watch_open_files, name="open files")
        if http is not None:
            with listening_at(settings.http.listen, "--http"):
                await http.serve()
            self.ssh_context.open_console = http.serve_connection
            stack.push_async_callback(http.stop)
            self.http = http
        stack.push_async_callback(mcp.stop)

    def _bind_http(
        self, mcp: McpServer, line_rate: LineRateLimiter, metrics: MetricsPage
    ) -> HttpServer | None:
        """Take the address of the HTTP server, for sign-ins too; None if it is off.

        Raises:
            OSError: if it cannot listen there.
        """
        http, services, listen = None, self.services, self.settings.http.listen
        if listen != "off":
            api = HttpApi(self.world, services, services.settings, line_rate)
            routes = {"/mcp": mcp.http, **oauth_callback_routes(services.hub.oauth_sign_ins)}
            shells = BrowserShells(self.ssh_context, self.settings.ssh.max_connections_per_key)
            console = Console(self.world, services, line_rate, shells)
            http = HttpServer(self.world, metrics, api, routes, services.settings, console)
            with listening_at(listen, "--http"):
                http.bind(*split_address(listen))
            self._parts.callback(http.unbind)
        self._set_client_metadata(http)
        return http

    def _add_metrics(self, metrics: MetricsPage, http: HttpServer | None) -> None:
        """Add the families of all parts to the metrics."""
        world, services = self.world, self.services
        disk = service_metrics.DiskMetricsCollector(world, services)
        metrics.add(disk, disk.refresh)
        metrics.add(service_metrics.BackupMetricsCollector(self.upkeep))
        metrics.add(service_metrics.ModelMetricsCollector(world, services))
        context = self.ssh_context
        tools = service_metrics.ToolMetricsCollector
        metrics.add(tools(services, self._lua_hosts, lambda: context.git.running))
        metrics.add(
            WorldMetricsCollector(
                world, self.ssh, services.search, lambda: http.connections if http else 0,
                lambda: context.sftp_clients,
            )
        )  # fmt: skip

    def _set_client_metadata(self, http: HttpServer | None) -> None:
        """Set where sign-ins to MCP servers return, and the addresses of hooks."""
        self.services.http.url = find_public_url(self.settings.http, http)
        metadata = make_client_metadata(self.settings.http, http.port if http else None)
        self.services.hub.oauth_sign_ins.client_metadata = metadata

    async def _get_ready(self) -> None:
        """Watch for changes and listen on the control socket, which reports readiness."""
        index = Prefetcher(self.world, self.services.search)
        self._watchers.keep_running(index.watch, name="namespace index")
        self._watchers.keep_running(RoomStateWatcher(self.world).watch, name="room states")
        self._watchers.keep_running(self.upkeep.watch, name="upkeep")
        self._watchers.keep_running(self.data_dir.watch, name="data directory")
        self._watchers.keep_running(self.services.runs.sandbox.watch, name="sandbox")
        await self._parts.enter_async_context(Triggers.open(self.world, self.services))
        self._parts.push_async_callback(self.data_dir.close_control)
        await self.data_dir.open_control(self._operate)
        log.info("ready", ssh=self.ssh_address, http=self.http_address)
        log_exposure(self.settings)
        self._report_ready()

    def _report_ready(self) -> None:
        self._notifier.report_ready(f"Serving ssh at {self.ssh_address}, http {self.http_address}.")

    async def _operate(self, operation: str, args: dict[str, Any]) -> Any:
        """Run an operation of the command line, with the settings in force.

        Raises:
            WorldError: with the reason, if it is refused.
        """
        settings, listen = self.settings, self.settings.ssh.listen
        # Mostly as it was given: without a host, the server has IPv4 and IPv6.
        listen = listen if split_address(listen)[1] else self.ssh_address
        ssh = settings.ssh.model_copy(update={"listen": listen})
        settings = settings.model_copy(update={"ssh": ssh})
        return await run_operation(self.world, operation, args, settings=settings, server=self)

    def host_fingerprint(self) -> str:
        """Return the SHA-256 fingerprint of the host key."""
        return compute_fingerprint(self.data_dir.host_keys[0])
