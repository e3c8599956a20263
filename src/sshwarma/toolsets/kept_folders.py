"""Folders with files of toolsets, which sandboxes contain.

They can be made again, and be deleted at any time but while a sandbox has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from weakref import WeakValueDictionary

from sshwarma.common.finish import finish
from sshwarma.workspaces.delete_tree import delete_tree


class KeptFolders:
    """Folders in a directory, each named by a group and the hash of its contents."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, which need not exist."""
        self._directory = directory
        self._users: Counter[tuple[str, str]] = Counter()
        self._old: set[tuple[str, str]] = set()  # in use, and to be deleted afterwards
        self._making: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._changing = asyncio.Lock()  # held while folders are deleted

    @contextlib.asynccontextmanager
    async def use(
        self, key: tuple[str, str], fill: Callable[[Path], Awaitable[None]]
    ) -> AsyncIterator[Path]:
        """Keep a folder while it is in use.

        Args:
            key: its group and its hash.
            fill: writes its contents into a new folder, if it is missing; nothing of it may write
                there when it has returned or raised, or was cancelled.

        Raises:
            OSError: if the disk is full or fails.
        """
        group, name = key
        folder = self._directory / group / name
        async with self._keep(key):
            async with self._changing:  # a deletion that has begun may have found nobody here
                is_there = await asyncio.to_thread(folder.is_dir)
            if not is_there:
                async with self._making.setdefault(key, asyncio.Lock()):
                    if not await asyncio.to_thread(folder.is_dir):
                        await self._make(folder, fill)
            yield folder

    @contextlib.asynccontextmanager
    async def _keep(self, key: tuple[str, str]) -> AsyncIterator[None]:
        self._users[key] += 1
        try:
            yield
        finally:
            self._users[key] -= 1
            if key in self._old and not self._users[key]:
                self._old.discard(key)
                await finish(self._delete_folder(*key))

    async def _make(self, folder: Path, fill: Callable[[Path], Awaitable[None]]) -> None:
        """Make a folder, all of it or nothing."""
        new = folder.with_name(f".new-{secrets.token_hex(8)}")
        async with self._keep((folder.parent.name, new.name)):
            try:
                await finish(asyncio.to_thread(new.mkdir, mode=0o700, parents=True))
                await fill(new)
                await finish(asyncio.to_thread(new.rename, folder))
            finally:
                await finish(asyncio.to_thread(delete_tree, new))

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """Make an empty folder beside the others, and delete it at the end."""
        key = ("scratch", secrets.token_hex(8))
        folder = self._directory.joinpath(*key)
        async with self._keep(key):
            try:
                await finish(asyncio.to_thread(folder.mkdir, mode=0o700, parents=True))
                yield folder
            finally:
                await finish(asyncio.to_thread(delete_tree, folder))

    async def _delete_folder(self, group: str, name: str) -> None:
        async with self._changing:
            if not self._users[group, name]:
                folder = self._directory / group / name
                await asyncio.to_thread(delete_tree, folder)
                with contextlib.suppress(OSError):  # it has another
                    folder.parent.rmdir()

    async def delete_others(
        self, list_kept: Callable[[], Awaitable[Collection[tuple[str, str]]]]
    ) -> None:
        """Delete all folders but those kept, by group and hash.

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
            # To the end: a folder that comes into use meanwhile must not be deleted.
            await finish(asyncio.to_thread(self._delete, in_use | kept))

    def _delete(self, kept: Collection[tuple[str, str]]) -> None:
        if not self._directory.is_dir():
            return
        groups = {group for group, _ in kept}
        for group in self._directory.iterdir():
            if group.name not in groups:
                delete_tree(group)
                continue
            for folder in group.iterdir():
                if (group.name, folder.name) not in kept:
                    delete_tree(folder)
