"""A peer that stops reading: its handler is called, memory is bounded.

Nobody else notices.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import asyncssh
import pytest

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Program, Serve, World, within
from support.waiting import until

KIB = bytes(1024)


def _fill(program: Program) -> int:
    """Write until told to pause; what was written."""
    written = 0
    while not program.count("pause"):
        program.channel.write(KIB)
        written += len(KIB)
        assert written < 64 * 1024 * 1024
    return written


@pytest.mark.parametrize("window", [4_096, 1 << 31], ids=["ssh window full", "socket full"])
async def test_slow_reader_pauses_and_resumes_its_handler(
    window: int, server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("cat", encoding=None, window=window)
    (program,) = world.programs
    process.channel.pause_reading()
    assert client._transport
    client._transport.pause_reading()
    written = _fill(program)
    limits = server.limits
    assert (
        limits.send_buffer_high_bytes
        < program.channel.buffered
        <= limits.send_buffer_high_bytes + 1024
    )
    other = await connect(server)
    assert (await within(other.run("exit 3"))).exit_status == 3

    client._transport.resume_reading()
    process.channel.resume_reading()
    await within(process.stdout.readexactly(written))
    await until(lambda: program.count("resume"))
    assert program.channel.buffered == 0


async def test_handler_that_ignores_pause_loses_its_connection(
    serve: Serve, connect: Connect, world: World
) -> None:
    server = await serve(max_send_buffer_bytes=256 * 1024, farewell_seconds=0.1)
    client = await connect(server)
    process = await client.create_process("cat", encoding=None, window=4_096)
    (program,) = world.programs
    process.channel.pause_reading()
    for _ in range(10_000):
        program.channel.write(KIB)
        assert program.channel.buffered <= 256 * 1024
    await until(lambda: program.count("closed"))
    await until(lambda: server.connections == 0)


async def test_unread_output_pauses_reading_from_the_peer(serve: Serve, connect: Connect) -> None:
    server = await serve()
    client = await connect(server)
    await client.create_process("cat", encoding=None)
    (visitor,) = cast("set[Any]", server.clients)
    assert client._transport
    client._transport.pause_reading()
    transport = visitor._conn._transport
    for end in (transport, client._transport):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    sending = asyncio.create_task(_ask_without_end(client))
    await until(lambda: not transport.is_reading())
    assert transport.get_write_buffer_size() < 1024 * 1024
    sending.cancel()


async def _ask_without_end(client: asyncssh.SSHClientConnection) -> None:
    while True:
        for _ in range(500):
            client._send_global_request(b"made-up", b"x" * 20, want_reply=True)
        await asyncio.sleep(0)


async def test_data_is_buffered_during_a_key_exchange(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("cat", encoding=None, window=1 << 31)
    (program,) = world.programs
    (visitor,) = cast("set[Any]", server.clients)
    visitor._conn._send_kexinit()
    visitor._conn._kexinit_sent = True
    written = _fill(program)
    assert len(visitor._conn._deferred_packets) < 10
    await within(process.stdout.readexactly(written))
    await until(lambda: program.count("resume"))


async def test_unfinished_key_exchange_ends_the_connection(serve: Serve, connect: Connect) -> None:
    server = await serve(rekey_timeout_seconds=0.1)
    client = await connect(server)
    (visitor,) = cast("set[Any]", server.clients)
    assert client._transport
    client._transport.pause_reading()
    visitor._conn._send_kexinit()
    await until(lambda: server.connections == 0)
