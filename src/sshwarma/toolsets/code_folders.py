"""Folders with the files of toolsets, which sandboxes contain.

They are copies of contents, and can be deleted at any time but while a sandbox has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from pathlib import Path

from sshwarma.common.finish import finish
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.delete_tree import delete_tree


class CodeFolders:
    """Folders in a directory, each named by a toolset and the hash of its files."""

    def __init__(self, directory: Path, blobs: BlobStore) -> None:
        """Use a directory, which need not exist."""
        self._directory = directory
        self._blobs = blobs
        self._users: Counter[tuple[str, str]] = Counter()
        self._old: set[tuple[str, str]] = set()  # in use, and to be deleted afterwards
        self._changing = asyncio.Lock()  # one makes or deletes folders at a time

    @contextlib.asynccontextmanager
    async def use(
        self, toolset_id: str, tree: str, files: Mapping[str, str]
    ) -> AsyncIterator[Path]:
        """Keep a folder while it is in use; it is made if it is missing.

        Args:
            toolset_id: of the toolset.
            tree: the hash of all files.
            files: the hashes of their contents by path.

        Raises:
            DamagedBlob: if a content is missing or damaged.
            OSError: if the disk is full or fails.
        """
        key = (toolset_id, tree)
        self._users[key] += 1
        try:
            async with self._changing:
                folder = self._directory / toolset_id / tree
                await asyncio.to_thread(self._make, folder, files)
            yield folder
        finally:
            self._users[key] -= 1
            if key in self._old and not self._users[key]:
                self._old.discard(key)
                await finish(self._delete_folder(toolset_id, tree))

    async def _delete_folder(self, toolset_id: str, tree: str) -> None:
        async with self._changing:
            if not self._users[toolset_id, tree]:
                folder = self._directory / toolset_id / tree
                await asyncio.to_thread(delete_tree, folder)
                with contextlib.suppress(OSError):  # it has another version
                    folder.parent.rmdir()

    def _make(self, folder: Path, files: Mapping[str, str]) -> None:
        if folder.is_dir():
            return
        made = folder.with_name(f".new-{secrets.token_hex(8)}")
        try:
            for path, sha256 in files.items():
                target = made / path
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(self._blobs.read(sha256))
            made.rename(folder)
        finally:
            delete_tree(made)

    async def delete_others(
        self, list_kept: Callable[[], Awaitable[Collection[tuple[str, str]]]]
    ) -> None:
        """Delete all folders but those kept, by toolset and hash.

        One that is in use is deleted when its last user leaves it.

        Raises:
            OSError: if the disk fails.
        """
        async with self._changing:
            in_use = {key for key, users in self._users.items() if users}
            self._users = Counter({key: self._users[key] for key in in_use})
            # Afterwards: an install that has just left its folder is among them by now.
            kept = set(await list_kept())
            self._old = in_use - kept
            await asyncio.to_thread(self._delete, in_use | kept)

    def _delete(self, kept: Collection[tuple[str, str]]) -> None:
        if not self._directory.is_dir():
            return
        ids = {toolset_id for toolset_id, _ in kept}
        for toolset in self._directory.iterdir():
            if toolset.name not in ids:
                delete_tree(toolset)
                continue
            for folder in toolset.iterdir():
                if (toolset.name, folder.name) not in kept:
                    delete_tree(folder)
