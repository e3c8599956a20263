"""Ends of pipes that an event loop reads or writes, each closed exactly once.

uvloop closes a pipe twice: libuv closes the number, and then uvloop closes the file object that it
was given, with the same number. A thread that opens a file in between gets that number, and then
loses its file, or writes into that of somebody else. The loop of asyncio closes only the object.
"""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from typing import Final

REFUSALS: Final = (OSError, ValueError)
"""What a loop raises for a pipe that it does not take: uvloop the first, asyncio both."""


class PipeEnd:
    """The end of a pipe as a loop takes it: with a number and a `close`.

    It is closed when it is deleted, unless the loop has taken it.
    """

    def __init__(self, number: int) -> None:
        """Own the descriptor `number`, for the running loop."""
        self.number: Final = number
        self._is_owned = True
        # All loops of asyncio itself are of this class, and uvloop's is not.
        self._is_closed_by_loop = not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)

    def fileno(self) -> int:
        """Return the number for the loop, which closes it from now on if it is uvloop."""
        if self._is_closed_by_loop:
            self._is_owned = False
        return self.number

    def close(self) -> None:
        """Close it, unless that was done or the loop does it."""
        if self._is_owned:
            self._is_owned = False
            os.close(self.number)

    def close_refused(self) -> None:
        """Close what the loop did not take: it raised one of REFUSALS."""
        if self._is_closed_by_loop:
            self._is_closed_by_loop = False
            self._is_owned = True
        self.close()

    def __del__(self) -> None:
        self.close()


async def connect_writer(number: int) -> StreamWriter:
    """Return a stream that writes to a pipe, and closes it.

    Args:
        number: the descriptor of the pipe; it is closed if this fails, too.

    Raises:
        OSError: if the loop cannot write to it.
        ValueError: if it is no pipe, socket or terminal.
    """
    loop = asyncio.get_running_loop()
    end = PipeEnd(number)
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: StreamReaderProtocol(StreamReader()), end
        )
    except REFUSALS:
        end.close_refused()
        raise
    return StreamWriter(transport, protocol, None, loop)
