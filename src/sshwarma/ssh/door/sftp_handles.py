"""The open files of the sftp door; rights are asked at every operation."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from io import FileIO
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from sshwarma.ssh.door.sftp_working import WorkingFile
from sshwarma.ssh.door.sftp_workspace import RoomFiles
from sshwarma.ssh.transport.interfaces import (
    SftpAttributes,
    SftpChanges,
    SftpFile,
    SftpOpenMode,
    SftpSpace,
)
from sshwarma.workspaces.blobs import reporting_errors
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden

NO_SPACE = SftpSpace(0, 0, 0, 0)


class OpenFile(SftpFile, Protocol):
    """An open file of a client."""

    def release(self) -> None:
        """Free what it holds, and keep nothing; the client has gone."""


class HandleOwner(Protocol):
    """What an open file asks of the client's files."""

    def on_opened(self, opened: OpenFile) -> None:
        """Take note that a file is open, and must be released."""

    def on_closed(self, opened: OpenFile) -> None:
        """Take note that a file is closed."""

    def refusing(self, where: str) -> contextlib.AbstractContextManager[None]:
        """Return what makes the refusals of the world those of sftp."""

    async def check(self, room_id: str, *, changes: bool) -> Caller:
        """Return who acts in a room now, if that is allowed.

        Raises:
            WorldError: if it is not.
        """


class TextFile(OpenFile):
    """A text that was made when it was opened."""

    def __init__(
        self, owner: HandleOwner, room_id: str, text: bytes, attributes: SftpAttributes
    ) -> None:
        self._owner = owner
        self._room_id = room_id
        self._text = text
        self._attributes = attributes
        owner.on_opened(self)

    @override
    async def read(self, offset: int, size: int) -> bytes:
        with self._owner.refusing("read"):
            await self._owner.check(self._room_id, changes=False)
        return self._text[offset : offset + size]

    @override
    async def write(self, offset: int, data: bytes) -> None:
        with self._owner.refusing("write"):
            raise _read_only_error()

    @override
    async def stat(self) -> SftpAttributes:
        return self._attributes

    @override
    async def set_attributes(self, changes: SftpChanges) -> None:
        with self._owner.refusing("set attributes"):
            raise _read_only_error()

    @override
    async def sync(self) -> None:
        pass

    @override
    async def space(self) -> SftpSpace:
        return NO_SPACE

    @override
    async def close(self) -> None:
        self._owner.on_closed(self)
        self.release()

    @override
    def release(self) -> None:
        pass


class VersionFile(TextFile):
    """A file of a version, opened to be read; it stays as it was."""

    def __init__(
        self, owner: HandleOwner, room_id: str, blob: Path, attributes: SftpAttributes
    ) -> None:
        with reporting_errors():
            self._file = FileIO(blob)
        super().__init__(owner, room_id, b"", attributes)

    @override
    async def read(self, offset: int, size: int) -> bytes:
        with self._owner.refusing("read"):
            await self._owner.check(self._room_id, changes=False)
            if offset >= self._attributes.size:
                return b""
            with reporting_errors():
                return await asyncio.to_thread(os.pread, self._file.fileno(), size, offset)

    @override
    def release(self) -> None:
        self._file.close()


class WrittenFile(OpenFile):
    """A file that this client is writing, or reads while it is writing it."""

    def __init__(
        self,
        owner: HandleOwner,
        room_id: str,
        files: RoomFiles,
        working: WorkingFile,
        mode: SftpOpenMode,
    ) -> None:
        self._owner = owner
        self._room_id = room_id
        self._files = files
        self._working = working
        self._mode = mode
        working.handles += 1
        working.writers += mode.writes
        owner.on_opened(self)

    @override
    async def read(self, offset: int, size: int) -> bytes:
        with self._owner.refusing(self._name):
            await self._owner.check(self._room_id, changes=False)
            return await self._working.read(offset, size)

    @override
    async def write(self, offset: int, data: bytes) -> None:
        start = self._working.size if self._mode.appends else offset
        await self._change(lambda: self._files.write(self._working, start, data))

    @override
    async def stat(self) -> SftpAttributes:
        with self._owner.refusing(self._name):
            await self._owner.check(self._room_id, changes=False)
        return SftpAttributes(self._working.mode, self._working.size, self._working.opened_at)

    @override
    async def set_attributes(self, changes: SftpChanges) -> None:
        size = changes.size
        if size is not None:
            await self._change(lambda: self._files.truncate(self._working, size))
        if changes.permissions is not None and self._mode.writes:
            self._working.set_permissions(changes.permissions)

    @override
    async def sync(self) -> None:
        with self._owner.refusing(self._name):
            await self._working.sync()

    @override
    async def space(self) -> SftpSpace:
        return self._files.space()

    @override
    async def close(self) -> None:
        self._owner.on_closed(self)
        working = self._working
        working.handles -= 1
        working.writers -= self._mode.writes
        try:
            if self._mode.writes and not working.writers:
                with self._owner.refusing(self._name):
                    caller = await self._check_change()
                    await self._files.refresh()
                    await self._files.close(working, caller)
        finally:
            if not working.handles:
                working.close()

    @override
    def release(self) -> None:
        self._working.close()

    async def _change(self, change: Callable[[], Awaitable[None]]) -> None:
        with self._owner.refusing(self._name):
            if not self._mode.writes:
                raise Forbidden("The file was opened to be read only.")
            await self._check_change()
            await change()

    async def _check_change(self) -> Caller:
        """Return who changes the file; nothing of it is kept if that is refused."""
        try:
            return await self._owner.check(self._room_id, changes=True)
        except Forbidden as error:
            self._working.fail(error)
            if not self._working.writers:
                await self._files.close(self._working, None)
            raise

    @property
    def _name(self) -> str:
        return self._working.path or "a removed file"


def _read_only_error() -> Forbidden:
    return Forbidden("Only the files in workspace/ can be changed.")
