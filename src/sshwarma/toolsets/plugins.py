"""The plugins of a server: loaded at the start, and again at a reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import structlog
from sqlalchemy import Connection

from sshwarma.common.finish import finish
from sshwarma.toolsets.plugin_folder import PluginError, PluginFiles, read_plugins
from sshwarma.toolsets.plugin_records import (
    PluginChange,
    StoredPlugin,
    is_installed,
    list_plugins,
    set_available,
    store_plugins,
)
from sshwarma.toolsets.plugin_rules import Plugin, TakenNames, describe_plugins
from sshwarma.toolsets.plugin_session import RoomSessions
from sshwarma.toolsets.stored_contents import storing_contents
from sshwarma.toolsets.stored_keys import PLUGINS_GROUP
from sshwarma.toolsets.toolset_folders import Installation, ToolsetFolders
from sshwarma.toolsets.worker_process import Workers
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.world.audit import record_change
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.reader import TextByReader
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

PLUGINS_OFF: Final = "this server loads no plugins"
"""Why a tool of a plugin cannot be called, as a clause."""

HOW_TO_LOAD: Final = TextByReader(
    "Its operator can start it with --load-custom-tools.", "Its operator can turn them on."
)
"""What to do about it."""

Storing: TypeAlias = Callable[[Callable[[Change], PluginChange]], Awaitable[PluginChange]]
"""Carries out the change that installs plugins."""


@dataclass(frozen=True, slots=True)
class PluginReport:
    """The plugins that are loaded now, and what that has changed."""

    plugins: tuple[StoredPlugin, ...]
    change: PluginChange


class Plugins:
    """Loads the plugins of a folder.

    Attributes:
        sessions: the session data that their tools get.
    """

    def __init__(
        self, world: World, blobs: BlobStore, folders: ToolsetFolders, workers: Workers
    ) -> None:
        """Keep their files with those of toolsets; no plugin is loaded yet."""
        self._world = world
        self._blobs = blobs
        self._folders = folders
        self._workers = workers
        self._lock = asyncio.Lock()
        self._root: Path | None = None
        self._builtin: tuple[str, ...] = ()
        self.sessions = RoomSessions(world)

    @property
    def is_on(self) -> bool:
        """Whether this server loads plugins."""
        return self._root is not None

    async def start(self, root: Path | None, builtin: Sequence[str]) -> None:
        """Load the plugins of a folder, or make those of an earlier start unavailable.

        Args:
            root: the folder; None to load none.
            builtin: canonical names of the program's own tools, which no plugin may have.

        Raises:
            PluginError: for the first rule that is broken.
        """
        self._builtin = tuple(builtin)
        if root is None:
            await self._world.change(lambda tx: set_available(tx, is_available=False))
            return
        await self._load(root, self._store_by_server)
        self._root = root

    async def reload(self, store: Storing | None = None) -> PluginReport:
        """Load the plugins again; a folder that breaks a rule leaves all as it was.

        Calls that run keep the files with which they began.

        Args:
            store: carries out the change, in the name of who asked; None for the server itself.

        Raises:
            PluginError: for the first rule that is broken.
            Unavailable: if this server does not load plugins.
        """
        if self._root is None:
            raise Unavailable("This server loads no plugins.", hint=HOW_TO_LOAD)
        try:
            return await self._load(self._root, store or self._store_by_server)
        except (PluginError, WorldError) as error:
            log.error("plugins were not loaded, and stay as they were", reason=str(error))
            raise

    async def list(self) -> tuple[StoredPlugin, ...] | None:
        """Return the plugins that are loaded, by folder; None if this server loads none."""
        return await self._world.store.read(list_plugins) if self.is_on else None

    async def _load(self, root: Path, store: Storing) -> PluginReport:
        async with self._lock:
            files = await asyncio.to_thread(read_plugins, root)
            known = await self._world.store.read(lambda conn: _read_installed(conn, files))
            if known is None:
                change = await self._install(files, store)
                known = await self._world.store.read(list_plugins)
            else:
                self._check_names(files, known)
                change = PluginChange()
                await self._world.change(lambda tx: set_available(tx, is_available=True))
        counts = {one.folder: len(one.tools) for one in known}
        log.info(
            "plugins loaded", folder=files.name_file(""), tools=counts,
            changed=[*change.added, *change.changed, *change.removed],
        )  # fmt: skip
        return PluginReport(known, change)

    def _check_names(self, files: PluginFiles, known: Sequence[StoredPlugin]) -> None:
        """Raise PluginError if a newer program has a tool with the name of a plugin's."""
        taken = TakenNames(self._builtin)
        for tool in (tool for plugin in known for tool in plugin.tools):
            taken.claim(files, tool.name, tool.path)

    async def _install(self, files: PluginFiles, store: Storing) -> PluginChange:
        """Describe plugins in sandboxes, and install all of them or none."""
        hashes = {file.path: file.sha256 for file in files.files}
        installed = Installation(PLUGINS_GROUP, files.tree, hashes, "")
        try:
            async with (
                storing_contents(self._blobs, files.contents.values()) as stored,
                self._folders.use(installed) as mounts,
            ):
                plugins: tuple[Plugin, ...] = await describe_plugins(
                    self._workers, files, mounts, self._builtin
                )

                async def keep() -> PluginChange:
                    change = await store(lambda tx: store_plugins(tx, files, plugins))
                    stored.are_used = True
                    return change

                return await finish(keep())
        finally:
            await finish(self._delete_old())

    async def _store_by_server(self, work: Callable[[Change], PluginChange]) -> PluginChange:
        def change(tx: Change) -> PluginChange:
            done = work(tx)
            if not done.is_empty:
                names = ", ".join((*done.added, *done.changed, *done.removed))
                record_change(tx, door="server", verb="plugins reload", request=f"loaded {names}")
            return done

        return await self._world.change(change)

    async def _delete_old(self) -> None:
        try:
            await self._folders.delete_old()
        except OSError as error:
            log.error("old folders were not deleted", reason=str(error))


def _read_installed(conn: Connection, files: PluginFiles) -> tuple[StoredPlugin, ...] | None:
    """Return the installed plugins if they are just these files, else None."""
    return list_plugins(conn) if is_installed(conn, files) else None
