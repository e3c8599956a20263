"""A file that a client of sftp is writing: in no version until it is closed."""

from __future__ import annotations

import asyncio
import time

from sshwarma.workspaces.scratch import ScratchFile
from sshwarma.workspaces.tree import FILE_MODE, PROGRAM_MODE, Entry
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.errors import WorldError


class WorkingFile:
    """The content of a file while it is open; several handles may share it.

    A content that was there is copied when it is first written to.

    Attributes:
        path: where it is; None if it was removed meanwhile, and will not be kept.
        base: what the version had at the path when it was opened.
        mode: FILE_MODE or PROGRAM_MODE.
        is_changed: whether closing it changes anything.
        failure: why it cannot be kept; "" if it can.
        opened_at: when it was opened, in seconds since 1970.
        handles, writers: how many have it open, and how many of them to write.
    """

    def __init__(
        self, workspaces: Workspaces, path: str, base: Entry | None, present: Entry | None
    ) -> None:
        """Open a file; `present` is its content, None for a new or emptied one."""
        self._workspaces = workspaces
        self._present = present
        self._scratch = ScratchFile(workspaces.blobs) if present is None else None
        self.path: str | None = path
        self.base = base
        self.mode = FILE_MODE if base is None or not base.is_file else base.mode
        self.is_changed = present is None
        self.failure = ""
        self.opened_at = int(time.time())
        self.handles = 0
        self.writers = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        if self._scratch is not None:
            return self._scratch.size
        return 0 if self._present is None else self._present.size

    def fail(self, error: WorldError) -> None:
        """Keep nothing of it: a part that should be in it is missing."""
        self.failure = self.failure or str(error)

    def set_permissions(self, permissions: int) -> None:
        """Make it a program or not, by the owner's right to execute."""
        mode = PROGRAM_MODE if permissions & 0o100 else FILE_MODE
        if mode != self.mode:
            self.mode = mode
            self.is_changed = True

    async def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""
        scratch = self._scratch
        if scratch is None:
            await self._load()
            scratch = self._scratch
        if scratch is None:
            return b""
        return scratch.read(offset, size)

    async def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset."""
        (await self._load()).write(offset, data)
        self.is_changed = True

    async def truncate(self, size: int) -> None:
        """Make it that long."""
        (await self._load()).truncate(size)
        self.is_changed = True

    async def sync(self) -> None:
        """Wait until a temporary file is on the disk."""
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.sync)

    async def store(self) -> Entry:
        """Store the content, for the version to come."""
        if self._scratch is None:  # only its mode has changed
            present = self._present or Entry("")
            return Entry(present.sha256, self.mode, present.size)
        sha256 = await asyncio.to_thread(self._scratch.finish)
        return Entry(sha256, self.mode, self._scratch.size)

    def close(self) -> None:
        """Drop what is not stored."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    async def _load(self) -> ScratchFile:
        if self._scratch is None:
            scratch = ScratchFile(self._workspaces.blobs)
            if self._present is not None:
                try:
                    blob = await asyncio.to_thread(
                        self._workspaces.blobs.check, self._present.sha256
                    )
                    await asyncio.to_thread(scratch.copy_from, blob)
                except BaseException:
                    scratch.close()
                    raise
            self._scratch = scratch
        return self._scratch
