"""A terminal in a browser, as the channel that a shell writes to.

It holds what the browser has not read: the shell is paused above some of it, and a browser that
reads nothing is dropped. What is typed waits while the shell does not take it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from sshwarma.common.limits import (
    BROWSER_TERMINAL_SIZE_SECONDS,
    CONSOLE_SEND_SECONDS,
    MAX_BROWSER_TERMINAL_INPUT_BYTES,
    MAX_BROWSER_TERMINAL_UNREAD_BYTES,
    MAX_TERMINAL_COLUMNS,
    MAX_TERMINAL_ROWS,
    MIN_TERMINAL_COLUMNS,
    MIN_TERMINAL_ROWS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.units import KIB
from sshwarma.web._uvicorn import ABORT
from sshwarma.world.errors import Invalid, TimedOut, TooLarge

HIGH_BYTES: Final = 256 * KIB
"""Unread bytes above which the shell is paused: many full screens."""

LOW_BYTES: Final = 64 * KIB
"""Unread bytes at which it resumes."""

RESIZE_SECONDS: Final = 0.03
"""Seconds in which resizes are delivered as one: dragging a window sends hundreds."""

NOTED_SECONDS: Final = 60.0
"""Seconds of typing for which one note of the use of a session does."""

_MESSAGE_BYTES: Final = 32 * KIB
_ENVIRONMENT: Final = MappingProxyType({"COLORTERM": "truecolor", "LANG": "C.UTF-8"})

ENDED: Final = 1000
RESTARTS: Final = 1012
"""Codes with which a terminal closes; the second is that of a server that stops."""


class Shell(Protocol):
    """What a terminal shows."""

    def data(self, data: bytes) -> None:
        """Take what was typed."""

    def resized(self, columns: int, rows: int) -> None:
        """Draw for another size."""

    def pause(self) -> None:
        """Write nothing until `resume`: the browser does not read."""

    def resume(self) -> None:
        """Write again."""

    def closed(self, error: Exception | None) -> None:
        """End, because the terminal has."""


class TerminalChannel:
    """The terminal of one tab; it has what the shell needs of a channel of ssh."""

    term = "xterm-256color"
    has_pty = True

    def __init__(
        self,
        socket: WebSocket,
        is_stopping: Callable[[], bool],
        on_typed: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a channel of an accepted socket.

        `is_stopping` says why its shell ends; `on_typed` is called now and then while somebody
        types.
        """
        self._on_typed = on_typed
        self._noted_at = 0.0
        self._socket = socket
        self._is_stopping = is_stopping
        self._asked_size = (0, 0)
        self._shell: Shell | None = None
        self._unread = bytearray()
        self._changed = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_paused = self._is_ending = self._is_gone = False
        self._resize: asyncio.TimerHandle | None = None

    # What a shell uses

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), clamped."""
        columns, rows = self._asked_size
        return (
            max(MIN_TERMINAL_COLUMNS, min(columns, MAX_TERMINAL_COLUMNS)),
            max(MIN_TERMINAL_ROWS, min(rows, MAX_TERMINAL_ROWS)),
        )

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal is smaller than the least `size`, and cuts rows."""
        columns, rows = self._asked_size
        return columns < MIN_TERMINAL_COLUMNS or rows < MIN_TERMINAL_ROWS

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the terminal."""
        return _ENVIRONMENT

    @property
    def buffered(self) -> int:
        """Bytes that wait for the browser to read."""
        return len(self._unread)

    def write(self, data: bytes) -> None:
        """Send bytes; drop a browser for which too many wait."""
        if self._is_gone or self._is_ending:
            return
        self._unread += data
        self._changed.set()
        if len(self._unread) > MAX_BROWSER_TERMINAL_UNREAD_BYTES:
            self._drop()
        elif len(self._unread) > HIGH_BYTES and not self._is_paused and self._shell is not None:
            self._is_paused = True
            self._shell.pause()

    def write_stderr(self, data: bytes) -> None:
        """Send bytes, in the same stream."""
        self.write(data)

    def exit(self, status: int) -> None:
        """Close after what is unread."""
        self.close()

    def close(self) -> None:
        """Close after what is unread."""
        self._is_ending = True
        self._changed.set()

    def pause_reading(self) -> None:
        """Let what is typed wait in the browser."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Take what is typed again."""
        self._may_read.set()

    # What the socket does

    async def read_size(self) -> None:
        """Read the first message, which says the size.

        Raises:
            TimedOut: if it does not come.
            Invalid: if it is something else.
            WebSocketDisconnect: if the tab has gone.
        """
        try:
            async with asyncio.timeout(BROWSER_TERMINAL_SIZE_SECONDS):
                message = await self._socket.receive()
        except TimeoutError:
            raise TimedOut("The terminal has not said its size.") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", ENDED))
        self._asked_size = _parse_size(message)

    async def run(self, shell: Shell) -> None:
        """Pass bytes both ways until either side ends; then the shell is closed.

        Raises:
            Invalid, TooLarge: if the browser sends what no terminal does.
        """
        self._shell = shell
        tasks = {asyncio.ensure_future(self._read(shell)), asyncio.ensure_future(self._send())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_gone = True
            self._unread.clear()
            if self._resize is not None:
                self._resize.cancel()
            for task in tasks:
                task.cancel()
            shell.closed(None)
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _read(self, shell: Shell) -> None:
        while True:
            await self._may_read.wait()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is None:
                self._asked_size = _parse_size(message)
                if self._resize is None:
                    loop = asyncio.get_running_loop()
                    self._resize = loop.call_later(RESIZE_SECONDS, self._deliver_resize)
                continue
            if len(data) > MAX_BROWSER_TERMINAL_INPUT_BYTES:
                problem = with_limit("Too many bytes at once", MAX_BROWSER_TERMINAL_INPUT_BYTES)
                raise TooLarge(f"{problem}.")
            self._deliver_resize()
            self._note_typing()
            shell.data(data)

    def _note_typing(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._noted_at > NOTED_SECONDS:
            self._noted_at = now
            self._on_typed()

    def _deliver_resize(self) -> None:
        """Tell the shell of a size that it does not know, before what is typed then."""
        if self._resize is not None and self._shell is not None:
            self._resize.cancel()
            self._resize = None
            self._shell.resized(*self.size)

    async def _send(self) -> None:
        while not self._is_gone:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._send_unread()
                if self._is_ending:
                    await self._socket.close(RESTARTS if self._is_stopping() else ENDED)
                    return
            except (WebSocketDisconnect, RuntimeError):  # the tab has gone
                return

    async def _send_unread(self) -> None:
        """Send all that waits; it counts as unread until the socket has taken it."""
        while self._unread:
            part = bytes(self._unread[:_MESSAGE_BYTES])
            try:
                async with asyncio.timeout(CONSOLE_SEND_SECONDS):
                    await self._socket.send_bytes(part)
            except TimeoutError:
                self._drop()
            del self._unread[: len(part)]
            if self._is_paused and len(self._unread) <= LOW_BYTES and self._shell is not None:
                self._is_paused = False
                self._shell.resume()

    def _drop(self) -> None:
        """End a connection that is not read: a close would wait for its reader, too."""
        self._is_gone = True
        self._unread.clear()
        self._socket.scope["extensions"][ABORT]()


def _parse_size(message: Mapping[str, Any]) -> tuple[int, int]:
    """Return (columns, rows) of a message.

    Raises:
        Invalid: if it has none.
    """
    try:
        found = json.loads(message.get("text") or "")
        columns, rows = found["columns"], found["rows"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid('A message of text must be {"columns": N, "rows": N}.') from error
    if type(columns) is not int or type(rows) is not int:
        raise Invalid("columns, rows: must be numbers.")
    return columns, rows
