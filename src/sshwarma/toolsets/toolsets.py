"""Toolsets of a server: installing them, their folders, calls of their tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import Connection
from typing_extensions import override

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.finish import finish
from sshwarma.common.limits import TOOLSET_CALL_SECONDS
from sshwarma.common.locks import hold_lock
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Sandbox, SandboxError, SandboxProgram
from sshwarma.tools.call_checks import check_after_wait
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.toolsets.archive import read_archive
from sshwarma.toolsets.bundle import Bundle, hash_files, read_bundle
from sshwarma.toolsets.inspect_bundle import inspect_bundle
from sshwarma.toolsets.linked import Changing, LinkedToolsets, is_installed_again
from sshwarma.toolsets.local_folder import read_folder
from sshwarma.toolsets.notices import tell_rooms
from sshwarma.toolsets.packages import PACKAGES_PATH
from sshwarma.toolsets.plugins import HOW_TO_LOAD, PLUGINS_OFF, Plugins
from sshwarma.toolsets.records import check_bundle_id, install_toolset, uninstall_toolset
from sshwarma.toolsets.rendered_results import add_render_plan
from sshwarma.toolsets.running_calls import RunningCalls
from sshwarma.toolsets.servers import (
    NETWORK_KEY,
    Allowed,
    ServerConnections,
    check_trust,
    read_servers,
)
from sshwarma.toolsets.stored_contents import storing_contents
from sshwarma.toolsets.stored_keys import LINKED, PACKAGES_KEY, TREE_KEY, Source
from sshwarma.toolsets.toolset_folders import Installation, ToolsetFolders
from sshwarma.toolsets.upgrade import Installed, Upgrade, compare, read_present
from sshwarma.toolsets.worker_process import (
    TOOLSET_PATH,
    ToolsetCode,
    WorkerAnswer,
    WorkerError,
    Workers,
    WorkerTool,
    no_sandbox_error,
)
from sshwarma.toolsets.worker_results import make_result, read_result, read_steps
from sshwarma.workspaces.runs import WorkspaceRuns, sandbox_user
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict
from sshwarma.world.ids import now_ms
from sshwarma.world.reader import Hint
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

_SERVER_SECONDS: Final = 10**9
"""Processor time of the program of an MCP server: it lasts as long as this server."""


class Toolsets(ToolProvider):
    """Installs toolsets, and carries out calls of their tools in sandboxes."""

    timeout_seconds = None  # each call has its own

    def __init__(
        self, world: World, runs: WorkspaceRuns, servers: ServerConnections, data_dir: Path
    ) -> None:
        """Use a data directory, where the files of toolsets are copies of contents."""
        self._world = world
        self._runs = runs
        self._servers = servers
        self._folders = ToolsetFolders(world, runs.workspaces.blobs, data_dir)
        self._workers = Workers(runs.sandbox)
        self._change_lock = asyncio.Lock()
        self._calls = RunningCalls()
        self._background = BackgroundTasks()
        self._linked = LinkedToolsets(world, self._install)
        self.plugins = Plugins(world, runs.workspaces.blobs, self._folders, self._workers)

    @classmethod
    async def open(
        cls, world: World, runs: WorkspaceRuns, servers: ServerConnections, data_dir: Path
    ) -> Toolsets:
        """Use a data directory; delete what a server that was killed has left there."""
        toolsets = cls(world, runs, servers, data_dir)
        toolsets._background.spawn(toolsets._delete_old())
        return toolsets

    @property
    def spare_count(self) -> int:
        """Sandboxes that wait for a call."""
        return len(self._workers.spares)

    async def close(self) -> None:
        """End the programs that wait for a call, and what runs in the background."""
        await self._workers.spares.end_all()
        await self._background.join()

    async def install(
        self,
        caller: Caller,
        archive: bytes,
        allowed: Allowed = Allowed(),  # noqa: B008 - it is frozen
    ) -> Installed:
        """Install the toolset of a ZIP file, or upgrade the one that has its id.

        Args:
            caller: who installs it.
            archive: the file.
            allowed: what an owner has allowed it.

        Raises:
            Invalid: if the file, its manifest or a tool is not as it must be; then nothing has
                changed.
            Forbidden: if it has something that only an owner may add.
            Unavailable: if there is no sandbox to look at the tools in, or no uv for its packages.
        """
        bundle = await asyncio.to_thread(lambda: read_bundle(read_archive(archive)))
        await check_trust(caller, bundle.manifest, allowed)
        change = self._change_as_allowed(caller, bundle, allowed)
        by = caller.agent.id
        source = await asyncio.to_thread(Source.of_archive, archive, by, caller.door)
        return await self._install(caller, bundle, source, change)

    async def link(self, caller: Caller, folder: Path, allowed: Allowed) -> Installed:
        """Install the toolset in a folder of this machine, and again when it has changed.

        `allowed` is as for `install`.

        Raises:
            Invalid: if its files, its manifest or a tool are not as they must be.
            OSError: if the folder cannot be read.
            Unavailable: if there is no sandbox to look at the tools in.
        """
        bundle = await asyncio.to_thread(lambda: read_bundle(read_folder(folder)))
        await check_trust(caller, bundle.manifest, allowed)
        change = self._change_as_allowed(caller, bundle, allowed)
        source = Source(LINKED, str(folder), caller.agent.id, caller.door)
        return await self._install(caller, bundle, source, change)

    async def _install(
        self,
        caller: Caller,
        bundle: Bundle,
        source: Source,
        change: Changing,
        seen: Thing | None = None,
    ) -> Installed:
        """Install a bundle, all of it or nothing; see `install`.

        With `seen`, only in place of that toolset as it was.
        """
        manifest = bundle.manifest
        version, count = manifest.version, len(manifest.tools)
        servers = read_servers(manifest, bundle.describe_problem)
        tree = hash_files(bundle.hashes)
        done = Installed(manifest.id, manifest.name, version, count, len(servers))

        def work(tx: Change) -> tuple[Thing, Upgrade]:
            before = read_present(tx.conn, manifest.id)
            space = install_toolset(tx, bundle, tools, tree=tree, packages=packages, source=source)
            upgrade = compare(tx.conn, before, manifest.id)
            if not upgrade.is_unchanged:
                self._servers.declare(tx, space, servers, source.by, bundle.describe_problem)
            if seen is None:
                text = upgrade.describe(space.label, version)
                tell_rooms(tx, caller, space, text, upgrade.rooms_before)
            return space, upgrade

        packages = await self._lock_packages(caller, bundle) if manifest.requirements else ""
        # Before the lock: the share may wait for programs of the caller, and nobody else should.
        share = self._runs.sandbox.take_share(sandbox_user(caller))
        async with self._use_packages(packages), share, self._begin_change(caller):
            # Before anything of it is on the disk or runs.
            known = await self._world.store.read(lambda conn: check_bundle_id(conn, bundle))
            if seen is not None and is_installed_again(known, seen, tree):
                return done
            installed = Installation(manifest.id, tree, bundle.hashes, packages)
            blobs = self._runs.workspaces.blobs
            try:
                async with (
                    storing_contents(blobs, bundle.contents.values()) as stored,
                    self._folders.use(installed) as mounts,
                ):
                    tools, warnings = await inspect_bundle(self._workers, caller, bundle, mounts)

                    async def store() -> Upgrade:
                        """Store it, and connect its servers."""
                        space, upgrade = await change(work)
                        stored.are_used = True
                        if not upgrade.is_unchanged:
                            await self._servers.apply(space.id)
                        return upgrade

                    upgrade = await finish(store())
            finally:
                await finish(self._delete_old())
        return replace(done, upgrade=upgrade, warnings=warnings)

    async def uninstall(self, caller: Caller, space: Thing) -> list[str]:
        """Delete a toolset with all it has, and disconnect its MCP servers.

        Returns the calls of it that ran and were ended, each with who made it.
        """

        def work(tx: Change) -> None:
            things.get_live_thing(tx.conn, space.id)  # another call may have been first
            tell_rooms(tx, caller, space, f"uninstalled the toolset {space.label}")
            self._servers.remove(tx, space)
            uninstall_toolset(tx, space)

        async def remove() -> list[str]:
            """Delete it, and end what runs of it."""
            await caller.change(work)
            ended = await self._calls.end_all(caller, space)
            await self._workers.spares.end_all()
            await self._servers.apply(space.id)
            await self._delete_old()
            return ended

        async with self._begin_change(caller):
            return await finish(remove())

    async def switch(self, caller: Caller, space: Thing, *, is_enabled: bool) -> None:
        """Enable or disable a toolset, with the connections of its MCP servers."""
        done = "enabled" if is_enabled else "disabled"

        def work(tx: Change) -> None:
            things.update_thing(tx, space.id, enabled=int(is_enabled))
            tell_rooms(tx, caller, space, f"{done} the toolset {space.label}")

        async def apply() -> None:
            """Switch it, and connect or disconnect its servers."""
            await caller.change(work)
            await self._workers.spares.end_all()
            await self._servers.apply(space.id)

        async with self._begin_change(caller):
            await finish(apply())

    async def _delete_old(self) -> None:
        """Delete old folders; a failure is logged, because what was asked for is done."""
        try:
            await self._folders.delete_old()
        except OSError as error:
            log.error("old folders were not deleted", reason=str(error))

    @contextlib.asynccontextmanager
    async def open_server_sandbox(
        self, server: Thing, command: Sequence[str], environment: Mapping[str, str]
    ) -> AsyncIterator[Sandbox]:
        """Start the program of an MCP server of a toolset, with the files of the toolset.

        Raises:
            Unavailable: if there is no sandbox, or the toolset is gone.
        """
        async with self._folders.open(server) as (_, mounts):
            profile = Profile(
                None, mounts=mounts, directory=TOOLSET_PATH,
                environment={"PYTHONPATH": PACKAGES_PATH, **environment},
                network=bool(server.metadata.get(NETWORK_KEY)),
            )  # fmt: skip
            program = SandboxProgram(profile, command, cpu_seconds=_SERVER_SECONDS, has_input=True)
            try:
                async with self._runs.sandbox.run(program, None) as sandbox:
                    yield sandbox
            except SandboxError as error:
                raise no_sandbox_error(error) from error

    def _begin_change(self, caller: Caller) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until no other toolset is being changed, and let the caller know."""
        reason = "Waiting: another toolset is being installed or changed."
        return hold_lock(self._change_lock, sandbox_user(caller).tell, reason)

    def _use_packages(self, packages: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Keep packages that an import needs: it would hold up others while they come."""
        return self._folders.packages.use(packages) if packages else contextlib.nullcontext()

    def _change_as_allowed(self, caller: Caller, bundle: Bundle, allowed: Allowed) -> Changing:
        """Return how an import is stored, if it is still allowed: it may take minutes."""

        async def change(
            work: Callable[[Change], tuple[Thing, Upgrade]],
        ) -> tuple[Thing, Upgrade]:
            current = await caller.refreshed()
            await current.require(Right.ADMIN)
            await check_trust(current, bundle.manifest, allowed)
            return await current.change(work)

        return change

    async def _lock_packages(self, caller: Caller, bundle: Bundle) -> str:
        """Return what a toolset requires, with hashes; the earlier ones if possible."""
        pins = bundle.manifest.requirements

        def read(conn: Connection) -> str:
            space = check_bundle_id(conn, bundle)
            known = space.metadata if space is not None and space.deleted_at is None else {}
            is_same = known.get(BUNDLE_KEY, {}).get("requirements") == list(pins)
            return str(known.get(PACKAGES_KEY) or "") if is_same else ""

        sandbox_user(caller).tell(f"Installing packages: {', '.join(pins)}.")
        return await self._world.store.read(read) or await self._folders.packages.lock(pins)

    @override
    def why_unavailable(self, tool: Thing) -> str:
        if PLUGIN_NAME_KEY in tool.metadata and not self.plugins.is_on:
            return PLUGINS_OFF
        obstacle = self._runs.sandbox.obstacle
        return "" if obstacle is None else obstacle.reason

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        if self.why_unavailable(tool) == PLUGINS_OFF:
            return HOW_TO_LOAD
        obstacle = self._runs.sandbox.obstacle
        return "" if obstacle is None else obstacle.hint

    @override
    async def refresh_tool(self, caller: Caller, tool: Thing) -> bool:
        return await self._linked.install_again(caller, tool)

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        tool = await self._linked.refresh(caller, tool)
        steps: list[tuple[str, int]] = []
        session: dict[str, Any] = {}

        async def work(folder: Path) -> WorkerAnswer | WorkerError | TimeoutError:
            steps.append(("workspace materialized", now_ms()))
            session.update(await self.plugins.sessions.begin(caller, tool))
            try:
                return await self._workers.ask(
                    code, folder, caller.room_id, "tools/call",
                    {"name": tool.name, "arguments": arguments, **session}, TOOLSET_CALL_SECONDS,
                    sandbox_user(caller),
                )  # fmt: skip
            except (WorkerError, TimeoutError) as error:
                return error  # what the tool did to the files until then is kept

        try:
            with self._calls.run(caller, tool):
                async with self._open_code(tool) as code:
                    answer, files = await self._runs.run(
                        caller, work, lambda: check_after_wait(caller)
                    )
        except SandboxError as error:
            raise no_sandbox_error(error) from error
        saved_at = now_ms()
        if isinstance(answer, TimeoutError):
            raise TimeoutError(f"The tool was ended after {TOOLSET_CALL_SECONDS:.0f} s.")
        if isinstance(answer, WorkerError):
            return make_result(f"The tool failed: {answer}.", None, (), files, is_error=True)
        result = read_result(answer, files)
        result = await self.plugins.sessions.end(caller, tool, session, answer, result)
        result = await add_render_plan(  # with the files that it left
            self._runs.workspaces, caller, tool, arguments, result, result.structured
        )  # fmt: skip
        steps += read_steps(answer)
        steps += [("snapshot made", saved_at), ("render plan made", now_ms())]
        return replace(result, steps=tuple(steps))

    @contextlib.asynccontextmanager
    async def _open_code(self, tool: Thing) -> AsyncIterator[ToolsetCode]:
        """Keep the folder with the code of a tool; it is made again if it is gone.

        Raises:
            Conflict: if it was replaced since the call was checked, perhaps by a person who read
                what it does.
            Unavailable: if the toolset is not installed any more.
        """
        meta = tool.metadata
        found = WorkerTool(
            tool.name, meta["module"], meta["path"], meta["function"], meta.get("manifest_schema")
        )
        async with self._folders.open(tool) as (space, mounts):
            if meta.get(TREE_KEY, space.metadata[TREE_KEY]) != space.metadata[TREE_KEY]:
                raise Conflict(f"{tool.label} was changed just now: call it again.")
            version = str(space.metadata.get("version", ""))
            yield ToolsetCode(space.label, version, mounts, (found,))
