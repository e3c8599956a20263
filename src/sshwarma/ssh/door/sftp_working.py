"""A file that a client of sftp is writing: in no version until it is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from sshwarma.common.finish import finish
from sshwarma.workspaces.scratch import ScratchFile
from sshwarma.workspaces.tree import FILE_MODE, PROGRAM_MODE, Entry
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.errors import WorldError

T = TypeVar("T")


class WorkingFile:
    """The content of a file while it is open; several handles may share it.

    One thing is done after another: the handler of sftp awaits each request of a client. Only the
    end of the connection comes at any time; what a thread works on is dropped after that.

    A content that was there lies under the new one, and only the part behind its end is copied:
    when a client writes behind a gap, reads there or closes the file. scp empties no file before
    it writes, and cuts it to its length at the end, so that nothing is copied.

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
        self._blobs = workspaces.blobs
        self._present = present
        self._under: Entry | None = None  # the present content behind what is in the scratch file
        self._scratch = ScratchFile(workspaces.blobs) if present is None else None
        self._held = "" if present is None else present.sha256
        if self._held:
            self._blobs.hold(self._held)
        self.path: str | None = path
        self.base = base
        self.mode = FILE_MODE if base is None or not base.is_file else base.mode
        self.is_changed = present is None
        self.failure = ""
        self.opened_at = int(time.time())
        self.charged = 0  # bytes that count for who writes it
        self._threads = 0  # that work on the scratch file
        self._is_closed = False
        self.handles = 0
        self.writers = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        under = self._present if self._scratch is None else self._under
        return max(
            0 if self._scratch is None else self._scratch.size, 0 if under is None else under.size
        )

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
        scratch = self._begin()
        if offset + size > scratch.size:
            await self._copy_rest(scratch)
        return scratch.read(offset, size)

    async def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset."""
        scratch = self._begin()
        if offset > scratch.size:
            await self._copy_rest(scratch)
        scratch.write(offset, data)
        self.is_changed = True

    async def truncate(self, size: int) -> None:
        """Make it that long."""
        scratch = self._begin()
        if size > scratch.size:
            await self._copy_rest(scratch)
        self._under = None
        scratch.truncate(size)
        self.is_changed = True

    async def sync(self) -> None:
        """Wait until a temporary file is on the disk."""
        if self._scratch is not None:
            await self._in_thread(self._scratch.sync)

    async def store(self) -> Entry:
        """Store the content, for the version to come."""
        if self._scratch is None:  # only its mode has changed
            present = self._present or Entry("")
            return Entry(present.sha256, self.mode, present.size)
        await self._copy_rest(self._scratch)
        sha256 = await self._in_thread(self._scratch.finish)
        return Entry(sha256, self.mode, self._scratch.size)

    def close(self) -> None:
        """Drop what is not stored."""
        self._is_closed = True
        if not self._threads:
            self._drop()

    def _drop(self) -> None:
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        if self._held:
            self._blobs.release(self._held)
            self._held = ""

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Work on the scratch file, which is dropped after that.

        The number of a closed file may be that of another, which would be written to.
        """
        self._threads += 1
        try:
            return await finish(asyncio.to_thread(work))
        finally:
            self._threads -= 1
            if self._is_closed and not self._threads:
                self._drop()

    def _begin(self) -> ScratchFile:
        if self._scratch is None:
            self._scratch = ScratchFile(self._blobs)
            self._under = self._present
        return self._scratch

    async def _copy_rest(self, scratch: ScratchFile) -> None:
        """Copy what lies behind the bytes that are in the scratch file."""
        under = self._under
        if under is not None and under.size > scratch.size:
            await self._in_thread(lambda: scratch.append_from(self._blobs.check(under.sha256)))
        self._under = None
