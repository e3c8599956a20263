"""Folders with files of toolsets, which sandboxes contain.

They can be made again, and be deleted at any time but while a sandbox has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from pathlib import Path
from weakref import WeakValueDictionary

from sshwarma.common.finish import finish
from sshwarma.workspaces.blobs import write_error
from sshwarma.workspaces.delete_tree import (
    delete_tree,
    is_set_aside,
    list_set_aside,
    set_aside,
)


@contextlib.contextmanager
def _refusing_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(error) from error


class KeptFolders:
    """Folders in a directory, each named by a group and the hash of its contents."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, which need not exist."""
        self._directory = directory
        self._users: Counter[tuple[str, str]] = Counter()
        self._old: set[tuple[str, str]] = set()  # in use, and to be deleted afterwards
        self._making: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._changing = asyncio.Lock()  # held while folders get the names of deleted ones
        self._has_swept = False

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
            Unavailable: if the disk is full or fails.
        """
        group, name = key
        folder = self._directory / group / name
        async with self._keep(key):
            async with self._changing:  # a deletion that has begun may have found nobody here
                is_there = await asyncio.to_thread(folder.is_dir)
            if not is_there:
                async with self._making.setdefault(key, asyncio.Lock()):
                    if not await asyncio.to_thread(folder.is_dir):
                        with _refusing_full_disk():
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
        """Make an empty folder beside the others, and delete it at the end.

        Raises:
            Unavailable: if the disk is full or fails.
        """
        key = ("scratch", secrets.token_hex(8))
        folder = self._directory.joinpath(*key)
        async with self._keep(key):
            try:
                # A deletion that has begun may have found nobody here.
                async with self._changing:
                    with _refusing_full_disk():
                        await finish(asyncio.to_thread(folder.mkdir, mode=0o700, parents=True))
                yield folder
            finally:
                await finish(asyncio.to_thread(delete_tree, folder))

    async def _delete_folder(self, group: str, name: str) -> None:
        async with self._changing:
            if self._users[group, name]:
                return
            old = await finish(asyncio.to_thread(self._set_aside_folder, group, name))
        if old is not None:
            await asyncio.to_thread(delete_tree, old)

    async def delete_others(
        self, list_kept: Callable[[], Awaitable[Collection[tuple[str, str]]]]
    ) -> None:
        """Delete all folders but those kept, by group and hash.

        One that is in use is deleted when its last user leaves it. The folders have other names
        when they are deleted, so that nobody waits for that.

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
            old = await finish(asyncio.to_thread(self._set_aside_others, in_use | kept))
        for folder in old:
            await finish(asyncio.to_thread(delete_tree, folder))

    def _set_aside_others(self, kept: Collection[tuple[str, str]]) -> list[Path]:
        """Give all folders but those kept another name; return them.

        The first time, those that an ended server has left are among them.
        """
        if not self._directory.is_dir():
            return []
        old = [] if self._has_swept else list_set_aside(self._directory)
        self._has_swept = True
        groups = {group for group, _ in kept}
        for group in list(self._directory.iterdir()):
            if is_set_aside(group):
                continue
            if group.name not in groups:
                old += filter(None, [set_aside(group)])
                continue
            for folder in list(group.iterdir()):
                if (group.name, folder.name) not in kept:
                    old += filter(None, [self._set_aside_folder(group.name, folder.name)])
        return old

    def _set_aside_folder(self, group: str, name: str) -> Path | None:
        folder = self._directory / group / name
        old = set_aside(folder, self._directory)
        with contextlib.suppress(OSError):  # it has another
            folder.parent.rmdir()
        return old
