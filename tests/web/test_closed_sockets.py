"""Sockets of the console that were closed, whose clients keep them."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.web import connection
from web.test_console_sockets import Site, site

__all__ = ["site"]

pytestmark = pytest.mark.process


async def test_sockets_that_do_not_answer_a_close_keep_nobody_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 3)
    head = (
        f"GET /live?in=lobby&after=0 HTTP/1.1\r\nHost: 127.0.0.1:{site.http.port}\r\n"
        f"Origin: {site.origin}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    opened = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.http.port)
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert b" 101 " in answer
        await asyncio.wait_for(reader.readexactly(2), 20)  # the close, which is not answered
        opened.append(writer)
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.http.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
        opened.append(writer)
    for writer in opened:
        writer.close()
