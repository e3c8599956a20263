"""The channel of a terminal in a browser: what waits, and for how long."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.websockets import WebSocket

from sshwarma.common.limits import (
    MAX_BROWSER_TERMINAL_UNREAD_BYTES,
    MAX_TERMINAL_COLUMNS,
    MIN_TERMINAL_ROWS,
)
from sshwarma.common.units import KIB
from sshwarma.web._uvicorn import ABORT
from sshwarma.web.console import terminal_channel
from sshwarma.web.console.terminal_channel import HIGH_BYTES, LOW_BYTES, TerminalChannel
from sshwarma.world.errors import Invalid, TimedOut


class Browser:
    """The other end of a socket, which reads when a test says so."""

    def __init__(self) -> None:
        self.typed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.may_read = asyncio.Event()
        self.is_dropped = False
        self.socket = WebSocket(
            {"type": "websocket", "extensions": {ABORT: self._drop}}, self.typed.get, self._send
        )
        self.typed.put_nowait({"type": "websocket.connect"})

    def _drop(self) -> None:
        self.is_dropped = True
        self.typed.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def _send(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            await self.may_read.wait()
        self.sent.append(message)

    def type(self, **message: Any) -> None:
        self.typed.put_nowait({"type": "websocket.receive", **message})

    async def open(self, size: tuple[int, int] = (80, 24)) -> TerminalChannel:
        await self.socket.accept()
        self.type(text=json.dumps({"columns": size[0], "rows": size[1]}))
        channel = TerminalChannel(self.socket, lambda: False)
        await channel.read_size()
        return channel


class Shell:
    """Notes what it was asked."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.called = asyncio.Event()

    def _note(self, call: object) -> None:
        self.calls.append(call)
        self.called.set()

    def data(self, data: bytes) -> None:
        self._note(data)

    def resized(self, columns: int, rows: int) -> None:
        self._note((columns, rows))

    def pause(self) -> None:
        self._note("pause")

    def resume(self) -> None:
        self._note("resume")

    def closed(self, error: Exception | None) -> None:
        self._note("closed")

    async def wait_for(self, call: object) -> None:
        async with asyncio.timeout(20):
            while call not in self.calls:
                self.called.clear()
                await self.called.wait()


async def test_shell_is_paused_while_the_browser_does_not_read() -> None:
    browser, shell = Browser(), Shell()
    channel = await browser.open()
    running = asyncio.ensure_future(channel.run(shell))
    await asyncio.sleep(0)
    for _ in range(HIGH_BYTES // KIB):
        channel.write(b"x" * KIB)
    assert shell.calls == []
    channel.write(b"x")
    assert shell.calls == ["pause"] and channel.buffered == HIGH_BYTES + 1
    browser.may_read.set()
    await shell.wait_for("resume")
    assert channel.buffered <= LOW_BYTES
    channel.close()
    await running
    assert shell.calls == ["pause", "resume", "closed"]
    assert sum(len(one.get("bytes", b"")) for one in browser.sent) == HIGH_BYTES + 1
    assert browser.sent[-1]["type"] == "websocket.close" and not browser.is_dropped


async def test_shell_that_is_not_paused_loses_its_browser() -> None:
    browser, shell = Browser(), Shell()
    channel = await browser.open()
    running = asyncio.ensure_future(channel.run(shell))
    await asyncio.sleep(0)
    channel.write(b"x" * MAX_BROWSER_TERMINAL_UNREAD_BYTES)
    assert not browser.is_dropped
    channel.write(b"x")
    assert browser.is_dropped and channel.buffered == 0
    await running
    assert shell.calls[-1] == "closed"
    channel.write(b"late")
    assert channel.buffered == 0


async def test_browser_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_channel, "CONSOLE_SEND_SECONDS", 0.01)
    browser, shell = Browser(), Shell()
    channel = await browser.open()
    channel.write(b"x")
    async with asyncio.timeout(20):
        await channel.run(shell)
    assert browser.is_dropped and shell.calls == ["closed"]


async def test_size_is_clamped_and_comes_before_what_is_typed_then() -> None:
    browser, shell = Browser(), Shell()
    channel = await browser.open((10**6, 0))
    assert channel.size == (MAX_TERMINAL_COLUMNS, MIN_TERMINAL_ROWS) and channel.is_too_small
    for columns in range(30, 90):
        browser.type(text=json.dumps({"columns": columns, "rows": 24}))
    browser.type(bytes=b"typed")
    browser.type(text=json.dumps({"columns": 40, "rows": 24}))
    running = asyncio.ensure_future(channel.run(shell))
    await shell.wait_for((40, 24))
    assert shell.calls == [(89, 24), b"typed", (40, 24)]
    browser.type(text="{}")
    with pytest.raises(Invalid):
        await running


async def test_typed_text_waits_while_the_shell_does_not_take_it() -> None:
    browser, shell = Browser(), Shell()
    channel = await browser.open()
    channel.pause_reading()
    running = asyncio.ensure_future(channel.run(shell))
    browser.type(bytes=b"a")
    await asyncio.sleep(0)
    assert shell.calls == []
    channel.resume_reading()
    await shell.wait_for(b"a")
    browser.typed.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await running
    assert shell.calls == [b"a", "closed"]


async def test_terminal_that_does_not_say_its_size_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal_channel, "BROWSER_TERMINAL_SIZE_SECONDS", 0.01)
    browser = Browser()
    await browser.socket.accept()
    with pytest.raises(TimedOut):
        await TerminalChannel(browser.socket, lambda: False).read_size()
