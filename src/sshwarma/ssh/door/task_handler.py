"""The base of the handlers that run one task in a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from typing_extensions import override

from sshwarma.ssh.transport.interfaces import Channel, ChannelHandler


class TaskHandler(ChannelHandler):
    """A handler whose work is one task; an interrupt or the channel's end cancels it.

    It ignores input and the size of the terminal, and writes whenever it has output: the channel
    buffers up to its limit. Subclasses override what they need.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._task: asyncio.Task[None]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the task. Called once, when the subclass is ready."""
        self._task = asyncio.get_running_loop().create_task(work)

    @override
    def data(self, data: bytes) -> None:
        pass

    @override
    def eof(self) -> None:
        pass

    @override
    def resized(self, columns: int, rows: int) -> None:
        pass

    @override
    def interrupt(self) -> None:
        self._task.cancel()

    @override
    def pause(self) -> None:
        pass

    @override
    def resume(self) -> None:
        pass

    @override
    def closed(self, error: Exception | None) -> None:
        self._task.cancel()


class ChannelStream(Protocol):
    """What gets the events of a channel, for a task that reads and writes it."""

    def data(self, data: bytes) -> None:
        """Take input."""

    def eof(self) -> None:
        """End the input."""

    def pause(self) -> None:
        """Make writers wait."""

    def resume(self) -> None:
        """Let writers continue."""

    def closed(self) -> None:
        """End the input, and make writers fail."""


class StreamHandler(TaskHandler):
    """A handler whose task reads and writes the channel as a stream."""

    def __init__(self, channel: Channel, stream: ChannelStream) -> None:
        super().__init__(channel)
        self._events = stream

    @override
    def data(self, data: bytes) -> None:
        self._events.data(data)

    @override
    def eof(self) -> None:
        self._events.eof()

    @override
    def pause(self) -> None:
        self._events.pause()

    @override
    def resume(self) -> None:
        self._events.resume()

    @override
    def closed(self, error: Exception | None) -> None:
        self._events.closed()
        super().closed(error)
