"""However a connection ends, its handlers hear of it once and nothing is left."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, cast

import asyncssh
import pytest

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Serve, Ssh, World, finish, within
from support.waiting import until


async def test_dead_peer_is_dropped_by_keepalive(serve: Serve, ssh: Ssh, world: World) -> None:
    server = await serve(keepalive_seconds=0.4, max_keepalive_misses=3)
    client = await ssh(server, "-tt", "")
    assert client.stdout
    await within(client.stdout.readline())
    (program,), (visitor,) = world.programs, cast("set[Any]", server.clients)
    asked = 0
    ask = visitor._conn._make_keepalive_request

    async def count() -> None:
        nonlocal asked
        asked += 1
        await ask()

    client.send_signal(signal.SIGSTOP)  # as if the plug were pulled: no answer, no FIN
    visitor._conn._make_keepalive_request = count
    try:
        await until(lambda: program.count("closed"))
        # Counted, not timed: a loaded machine is late, but it asks no more often.
        assert asked <= server.limits.max_keepalive_misses - 1
        assert program.count("closed") == 1
        await until(lambda: server.connections == 0)
    finally:
        client.send_signal(signal.SIGCONT)


async def test_idle_peer_that_answers_stays_connected(serve: Serve, connect: Connect) -> None:
    # Six misses of 40 ms: a loaded machine may keep both ends waiting for most of that.
    server = await serve(keepalive_seconds=0.04, max_keepalive_misses=6)
    client = await connect(server)
    asked = 0
    answer = client._process_keepalive_at_openssh_dot_com_global_request

    def count(packet: asyncssh.packet.SSHPacket) -> None:
        nonlocal asked
        asked += 1
        answer(packet)

    client._process_keepalive_at_openssh_dot_com_global_request = count
    await until(lambda: asked >= 8)
    assert server.connections == 1


async def test_drain_sends_the_reason_and_closes_all_connections(
    server: SshServer, ssh: Ssh, world: World
) -> None:
    client = await ssh(server, "-tt", "")
    assert client.stdout
    await within(client.stdout.readline())
    world.programs[0].channel.write(b"goodbye, all")
    port = server.port
    await within(server.drain("the world is restarting"))
    done = await finish(client)
    assert b"the world is restarting" in done.err
    assert done.out.endswith(b"goodbye, all")
    assert world.programs[0].received[-1] == ("closed", None)
    assert server.connections == 0
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_drain_drops_a_peer_that_does_not_read(
    serve: Serve, connect: Connect, world: World
) -> None:
    server = await serve(farewell_seconds=60)
    client = await connect(server)
    await client.create_process("cat", encoding=None, window=1 << 31)
    (program,) = world.programs
    assert client._transport
    client._transport.pause_reading()
    while not program.count("pause"):
        program.channel.write(bytes(1024))
    await within(server.drain("bye", seconds=0.1))
    assert server.connections == 0
    assert program.count("closed") == 1


async def test_connection_can_be_closed_by_the_server(
    server: SshServer, ssh: Ssh, world: World
) -> None:
    client = await ssh(server, "-tt", "")
    assert client.stdout
    await within(client.stdout.readline())
    (link,) = server.clients
    assert link.identity == f"agent of {link.peer.fingerprint}"
    link.close("your account was disabled")
    link.close("twice")
    assert link.closed
    done = await finish(client)
    assert b"your account was disabled" in done.err
    assert world.programs[0].count("closed") == 1
    assert server.clients == []


async def test_channel_stays_open_after_eof(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("answer later", encoding=None)
    process.stdin.write_eof()
    (program,) = world.programs
    await until(lambda: program.count("eof"))
    program.channel.write(b"late")
    program.channel.exit(0)
    assert await within(process.stdout.read()) == b"late"


async def test_exit_flushes_buffered_output(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("cat", encoding=None, window=1_000)
    (program,) = world.programs
    program.channel.write(bytes(60_000))
    program.channel.write_stderr(b"done")
    program.channel.exit(4)
    assert len(await within(process.stdout.read())) == 60_000
    assert await within(process.stderr.read()) == b"done"
    await within(process.wait_closed())
    assert process.exit_status == 4


@pytest.mark.parametrize("when", ["before channel", "before shell", "running", "during gate"])
async def test_client_killed_at_any_time_leaks_nothing(
    when: str, server: SshServer, connect: Connect, world: World
) -> None:
    tasks = asyncio.all_tasks()
    if when == "during gate":
        world.admit = asyncio.Event()
    client = await connect(server)
    if when == "before shell":
        await _open_session(client)
    elif when == "running":
        await client.create_process("cat", encoding=None)
    client.abort()
    await within(client.wait_closed())
    await until(lambda: server.connections == 0)
    assert [program.count("closed") for program in world.programs] == [1] * len(world.programs)
    assert server.admission.connections == 0
    assert not server.admission._keys
    await until(lambda: asyncio.all_tasks() <= tasks)


async def _open_session(client: asyncssh.SSHClientConnection) -> None:
    await within(client.create_tcp_channel(encoding=None)._open(b"session"))
