"""The folders of a toolset in its sandboxes: its files, and packages."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.finish import check_stop, run_in_thread
from sshwarma.toolsets.bundle import hash_files
from sshwarma.toolsets.kept_folders import KeptFolders
from sshwarma.toolsets.packages import PACKAGES_PATH, Packages
from sshwarma.toolsets.records import StoredFile, is_plugin, list_toolsets, read_files
from sshwarma.toolsets.stored_keys import PACKAGES_KEY, PLUGINS_GROUP, TREE_KEY
from sshwarma.toolsets.worker_process import TOOLSET_PATH
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.world import things
from sshwarma.world.errors import Unavailable
from sshwarma.world.things import Thing
from sshwarma.world.world import World

CODE_DIRECTORY: Final = "toolsets"
"""In the data directory: the files of toolsets, by the hash of all of them."""

PACKAGES_DIRECTORY: Final = "packages"
"""In the data directory: the packages that toolsets require."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The files and packages of a toolset.

    Attributes:
        id: of the toolset, or PLUGINS_GROUP.
        tree: the hash of all files.
        hashes: the hashes of their contents by path.
        packages: the locked packages that it requires, as text for uv; "" if none.
    """

    id: str
    tree: str
    hashes: Mapping[str, str]
    packages: str


class ToolsetFolders:
    """The folders of all toolsets. They are made when they are used."""

    def __init__(self, world: World, blobs: BlobStore, data_dir: Path) -> None:
        """Use a data directory."""
        self._world = world
        self._blobs = blobs
        self._code = KeptFolders(data_dir / CODE_DIRECTORY)
        self.packages = Packages(data_dir / PACKAGES_DIRECTORY)

    async def delete_old(self) -> None:
        """Delete the folders of toolsets that are not installed, and of old versions.

        Raises:
            OSError: if the disk fails.
        """

        async def list_code() -> set[tuple[str, str]]:
            spaces = await self._world.store.read(list_toolsets)
            return {(_name_group(one), str(one.metadata.get(TREE_KEY, ""))) for one in spaces}

        async def list_packages() -> set[str]:
            spaces = await self._world.store.read(list_toolsets)
            return {str(space.metadata.get(PACKAGES_KEY) or "") for space in spaces}

        await self._code.delete_others(list_code)
        await self.packages.delete_others(list_packages)

    @contextlib.asynccontextmanager
    async def use(self, installed: Installation) -> AsyncIterator[dict[str, Path]]:
        """Keep the folders of a toolset; the value is where each is inside.

        Raises:
            DamagedBlob: if a content is missing or damaged.
            Invalid, Unavailable: if its packages are gone and cannot be installed.
            Unavailable: if the disk is full or fails.
        """

        async def fill(folder: Path) -> None:
            write = functools.partial(_write_contents, self._blobs, folder, installed.hashes)
            await run_in_thread(write)

        async with contextlib.AsyncExitStack() as stack:
            code = self._code.use((installed.id, installed.tree), fill)
            mounts = {TOOLSET_PATH: await stack.enter_async_context(code)}
            if installed.packages:
                packages = self.packages.use(installed.packages)
                mounts[PACKAGES_PATH] = await stack.enter_async_context(packages)
            yield mounts

    @contextlib.asynccontextmanager
    async def open(self, child: Thing) -> AsyncIterator[tuple[Thing, dict[str, Path]]]:
        """Keep the folders of the toolset that a tool or server belongs to; see `use`.

        Raises:
            Unavailable: if it is not installed any more.
        """

        def read(conn: Connection) -> tuple[Thing, list[StoredFile]]:
            space = things.get_live_thing(conn, child.parent_id or "")
            return space, read_files(conn, space.label)

        space, files = await self._world.store.read(read)
        hashes = {file.path: file.sha256 for file in files}
        tree = str(space.metadata.get(TREE_KEY, ""))
        if tree != hash_files(hashes):
            raise Unavailable(f"The files of {space.label} are not those that were installed.")
        packages = str(space.metadata.get(PACKAGES_KEY) or "")
        async with self.use(Installation(_name_group(space), tree, hashes, packages)) as mounts:
            yield space, mounts


def _name_group(space: Thing) -> str:
    """Return the group of a toolset's folder; that of plugins is the same for all."""
    return PLUGINS_GROUP if is_plugin(space) else space.label


def _write_contents(
    blobs: BlobStore, folder: Path, hashes: Mapping[str, str], stop: threading.Event
) -> None:
    for path, sha256 in hashes.items():
        check_stop(stop)
        target = folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(blobs.read(sha256))
