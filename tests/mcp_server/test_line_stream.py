"""A channel as lines: whole lines from any pieces, bounds, and no endless wait."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.common.limits import MAX_MCP_TOOL_NAME_CHARACTERS
from sshwarma.ssh.door.buffered_channel import MAX_UNREAD_BYTES
from sshwarma.ssh.door.byte_channel import ByteChannel
from sshwarma.ssh.door.line_channel import LineChannel
from sshwarma.ssh.door.paced_writer import WRITE_CHUNK_BYTES
from sshwarma.world.tool_names import mcp_tool_name


class Wire:
    """A channel that remembers what was done to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


def made() -> tuple[Wire, LineChannel]:
    wire = Wire()
    return wire, LineChannel(wire)  # type: ignore[arg-type]


async def test_read_line_joins_chunks_into_lines() -> None:
    _, lines = made()
    for byte in b"one\n\nthr":
        lines.data(bytes([byte]))
    lines.data(b"ee\nfour")
    assert [await lines.read_line(100) for _ in range(3)] == [b"one", b"", b"three"]
    reading = asyncio.create_task(lines.read_line(100))
    await asyncio.sleep(0)
    assert not reading.done()
    lines.eof()
    assert await reading == b"four"
    assert await lines.read_line(100) is None
    lines.data(b"too late\n")
    assert await lines.read_line(100) is None


@pytest.mark.parametrize("ended", [b"", b"\n"])
async def test_line_over_the_limit_ends_reading(ended: bytes) -> None:
    _, lines = made()
    lines.data(b"x" * 10 + b"\n" + b"y" * 11 + ended)
    assert await lines.read_line(10) == b"x" * 10
    with pytest.raises(ValueError, match="over 10 bytes"):
        await lines.read_line(10)
    assert await lines.read_line(10) is None


async def test_unread_data_pauses_the_sender() -> None:
    wire, lines = made()
    line = b"z" * 1000 + b"\n"
    while wire.reading:
        lines.data(line * 32)
    held = 0
    while not wire.reading:
        assert await lines.read_line(2000) == line[:-1]
        held += 1
    assert held >= 1
    assert len(line) * 32 >= len(line) * held  # soon enough that the next packet fits


async def test_one_long_line_does_not_pause_the_sender() -> None:
    wire, lines = made()
    for _ in range(8):
        lines.data(b"x" * (MAX_UNREAD_BYTES // 2))
    assert wire.reading
    lines.data(b"\n")
    line = await lines.read_line(MAX_UNREAD_BYTES * 10)
    assert line is not None and len(line) == MAX_UNREAD_BYTES * 4
    assert wire.reading


async def test_unread_bytes_pause_the_sender_until_they_are_read() -> None:
    wire = Wire()
    stream = ByteChannel(wire)  # type: ignore[arg-type]
    stream.data(b"x" * MAX_UNREAD_BYTES)
    assert wire.reading
    stream.data(b"y")
    stream.data(b"z")
    assert not wire.reading
    assert await stream.read() == b"x" * MAX_UNREAD_BYTES + b"yz"
    assert wire.reading
    stream.data(b"last")
    stream.eof()
    assert [await stream.read(), await stream.read()] == [b"last", b""]


async def test_writes_wait_for_resume_and_keep_their_order() -> None:
    wire, lines = made()
    lines.pause()
    first = asyncio.create_task(lines.write(b"a" * (WRITE_CHUNK_BYTES + 1)))
    second = asyncio.create_task(lines.write(b"b"))
    await asyncio.sleep(0)
    assert wire.written == []
    lines.resume()
    await asyncio.gather(first, second)
    assert wire.written == [b"a" * WRITE_CHUNK_BYTES, b"a", b"b"]
    lines.pause()
    third = asyncio.create_task(lines.write(b"c"))
    await asyncio.sleep(0)
    lines.closed()
    with pytest.raises(ConnectionError):
        await third
    assert await lines.read_line(10) is None


def test_mcp_tool_name_uses_only_allowed_characters() -> None:
    assert mcp_tool_name("git.branch:create") == "git.branch.create"
    assert mcp_tool_name("holler:make noise!") == "holler.make_noise_"
    long = [f"space:{'x' * 130}{end}" for end in "ab"]
    names = {mcp_tool_name(name) for name in long}
    assert len(names) == 2 and all(len(name) <= MAX_MCP_TOOL_NAME_CHARACTERS for name in names)
