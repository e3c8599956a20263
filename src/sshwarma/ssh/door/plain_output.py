"""Output of a shell without a terminal, at the speed at which its client reads.

Blocks are written as text in pieces, between which the channel may pause. While it is paused at
most MAX_QUEUED_BLOCKS wait; the oldest are dropped, and a notice says how many lines they had.
"""

from __future__ import annotations

import asyncio
from collections import deque

from sshwarma.common.limits import MAX_QUEUED_BLOCKS
from sshwarma.ssh.door.context import encode_plain_block
from sshwarma.ssh.door.paced_writer import WRITE_CHUNK_BYTES
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.terminal.text import Block, block, line


class PlainOutput:
    """The standard output of one plain shell."""

    def __init__(self, channel: Channel, *, utf8: bool) -> None:
        self._channel = channel
        self._utf8 = utf8
        self._paused = False
        self._unwritten = memoryview(b"")  # of the block that is being written
        self._blocks: deque[Block] = deque()
        self._skipped = 0
        self._drained = asyncio.Event()
        self._drained.set()

    def print(self, drawn: Block) -> None:
        """Write a block, or queue it while the client does not read."""
        self._blocks.append(drawn)
        if self._paused and len(self._blocks) > MAX_QUEUED_BLOCKS:
            self._skipped += max(1, len(self._blocks.popleft().lines))
        self._write()

    def pause(self) -> None:
        """Stop writing: the client does not read."""
        self._paused = True

    def resume(self) -> None:
        """Write again; a notice tells how many lines were dropped since `pause`."""
        self._paused = False
        if self._skipped:
            self._blocks.appendleft(block(line(f"[{self._skipped} lines skipped]")))
            self._skipped = 0
        self._write()

    def close(self) -> None:
        """Let `drain` return: the client is gone."""
        self._blocks.clear()
        self._unwritten = memoryview(b"")
        self._drained.set()

    async def drain(self) -> None:
        """Wait until everything is written."""
        await self._drained.wait()

    def _write(self) -> None:
        while not self._paused and (self._unwritten or self._blocks):
            if not self._unwritten:
                drawn = self._blocks.popleft()
                text = encode_plain_block(drawn, utf8=self._utf8, newline="\n")
                self._unwritten = memoryview(text)
            piece = self._unwritten[:WRITE_CHUNK_BYTES]
            self._unwritten = self._unwritten[WRITE_CHUNK_BYTES:]
            self._channel.write(bytes(piece))
        if self._unwritten or self._blocks:
            self._drained.clear()
        else:
            self._drained.set()
