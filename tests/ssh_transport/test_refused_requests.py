"""Unserved requests are refused, and the next shell is still answered at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncssh
import pytest
from asyncssh.packet import Boolean, String, UInt32

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Ssh, World, finish, within
from support.waiting import until

Client = asyncssh.SSHClientConnection


async def _answered(client: Client) -> None:
    done = await within(client.run("exit 9"))
    assert done.exit_status == 9


async def _open(client: Client, kind: bytes, *fields: bytes) -> None:
    channel = client.create_tcp_channel(encoding=None)
    await channel._open(kind, *fields)


async def _direct_tcpip(client: Client) -> None:
    await client.open_connection("127.0.0.1", 22)


async def _direct_streamlocal(client: Client) -> None:
    await client.open_unix_connection("/var/run/docker.sock")


async def _tun(client: Client) -> None:
    await client.open_tun()


async def _forwarded_to_us(client: Client) -> None:
    await _open(client, b"forwarded-tcpip", String("x"), UInt32(1), String("y"), UInt32(2))


async def _x11_to_us(client: Client) -> None:
    await _open(client, b"x11", String("x"), UInt32(1))


async def _agent_to_us(client: Client) -> None:
    await _open(client, b"auth-agent@openssh.com")


async def _handler_named_channel(client: Client) -> None:
    # Spells the name of an asyncssh method that is no handler of an open request.
    await _open(client, b"channel")


async def _sftp(client: Client) -> None:
    await client.start_sftp_client()


async def _unknown_subsystem(client: Client) -> None:
    await client.create_process(subsystem="netconf")


@pytest.mark.parametrize(
    "attempt",
    [
        *(_direct_tcpip, _direct_streamlocal, _tun, _forwarded_to_us, _x11_to_us, _agent_to_us),
        *(_handler_named_channel, _sftp, _unknown_subsystem),
    ],
)
async def test_other_channel_types_are_refused(
    attempt: Callable[[Client], Awaitable[None]], server: SshServer, connect: Connect
) -> None:
    client = await connect(server)
    with pytest.raises((asyncssh.ChannelOpenError, asyncssh.SFTPError)):
        await within(attempt(client))
    await _answered(client)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (b"tcpip-forward", (String("0.0.0.0"), UInt32(0))),
        (b"cancel-tcpip-forward", (String("0.0.0.0"), UInt32(1))),
        (b"streamlocal-forward@openssh.com", (String("/tmp/x"),)),
        (b"cancel-streamlocal-forward@openssh.com", (String("/tmp/x"),)),
        (b"hostkeys-prove-00@openssh.com", ()),
        (b"no-more-sessions@openssh.com", ()),
        (b"made-up", (b"\xff" * 99,)),
        (b"\xff\xfe", ()),
    ],
)
async def test_global_requests_are_refused(
    request_: bytes, fields: tuple[bytes, ...], server: SshServer, connect: Connect
) -> None:
    client = await connect(server)
    from asyncssh.constants import MSG_REQUEST_FAILURE

    answer, _ = await within(client._make_global_request(request_, *fields))
    assert answer == MSG_REQUEST_FAILURE
    await _answered(client)


async def test_announced_host_keys_are_proved_once(server: SshServer, connect: Connect) -> None:
    from asyncssh.constants import MSG_REQUEST_FAILURE, MSG_REQUEST_SUCCESS

    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(2)]
    foreign = asyncssh.generate_private_key("ssh-ed25519")
    await server.set_host_keys(keys)
    client = await connect(server)
    proof = (b"hostkeys-prove-00@openssh.com", String(keys[1].public_data))
    answer, signatures = await within(client._make_global_request(*proof))
    assert answer == MSG_REQUEST_SUCCESS
    prefix = String(proof[0]) + String(client._session_id)
    assert keys[1].convert_to_public().verify(prefix + proof[1], signatures.get_string())
    answer, _ = await within(client._make_global_request(*proof))
    assert answer == MSG_REQUEST_FAILURE
    other = await connect(server)
    answer, _ = await within(other._make_global_request(proof[0], String(foreign.public_data)))
    assert answer == MSG_REQUEST_FAILURE
    await _answered(client)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (b"x11-req", (Boolean(False), String("MIT-MAGIC-COOKIE-1"), String("00"), UInt32(0))),
        (b"auth-agent-req@openssh.com", ()),
        (b"xon-xoff", (Boolean(True),)),
        (b"eow@openssh.com", ()),
        (b"exit-status", (UInt32(0),)),
        (b"env", (String("LD_PRELOAD"), String("/tmp/x.so"))),
        (b"env", (String("LANG"), String("y" * 9_000))),
        (b"env", (String("LANG"), String(b"\xff\xfe"))),
        (b"env", (String("LANG"), String("\x1b]0;x\x07"))),
        (b"made-up", (b"\xff" * 99,)),
    ],
)
async def test_channel_requests_are_refused(
    request_: bytes, fields: tuple[bytes, ...], server: SshServer, connect: Connect
) -> None:
    client = await connect(server)
    process = await client.create_process(encoding=None)
    assert await within(process.channel._make_request(request_, *fields)) is False
    await _answered(client)


async def test_environment_variables_are_bounded(server: SshServer, connect: Connect) -> None:
    flood = {f"NAME{number}": "x" for number in range(10_000)} | {"LANG": "C"}
    client = await connect(server)
    done = await within(client.run("env", env=flood))  # a loaded machine takes 6 s
    assert done.stdout == "{'LANG': 'C'}"


async def test_stock_client_that_asks_for_forwarding_still_works(
    server: SshServer, ssh: Ssh
) -> None:
    done = await finish(
        await ssh(
            *(server, "-A", "-X", "-R", "0:127.0.0.1:9", "exit 3"),
            env={"DISPLAY": ":0"},
        )
    )
    assert done.status == 3


async def test_stdio_forwarding_is_refused(server: SshServer, ssh: Ssh) -> None:
    done = await finish(await ssh(server, "-W", "127.0.0.1:22", ""))
    assert done.status == 255
    assert b"only console:80" in done.err


async def test_a_tiny_packet_size_is_refused(server: SshServer, connect: Connect) -> None:
    client = await connect(server)
    with pytest.raises(asyncssh.ChannelOpenError):
        await within(client.create_process("cat", max_pktsize=1))
    await _answered(client)


async def test_channel_over_the_limit_is_refused(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    ten = [await within(client.create_process("cat", encoding=None)) for _ in range(10)]
    with pytest.raises(asyncssh.ChannelOpenError, match="at most 10 channels"):
        await within(client.create_process("cat"))
    assert len(server.clients[0].channels) == 10
    for number, process in enumerate(ten):
        process.stdin.write(b"%d" % number)
        assert await within(process.stdout.readexactly(1)) == b"%d" % number
    ten[0].stdin.write_eof()
    await within(ten[0].wait())
    await until(lambda: len(server.clients[0].channels) == 9)
    await _answered(client)


async def test_concurrent_channel_opens_are_limited(server: SshServer, connect: Connect) -> None:
    import asyncio

    client = await connect(server)
    opens = [client.create_process("cat") for _ in range(200)]
    results = await within(asyncio.gather(*opens, return_exceptions=True))
    refused = [r for r in results if isinstance(r, asyncssh.ChannelOpenError)]
    assert len(refused) == 190
    assert server.connections == 1


async def test_a_second_command_on_one_channel_is_refused(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("cat", encoding=None)
    assert await within(process.channel._make_request(b"exec", String("cat"))) is False
    assert len(world.programs) == 1


async def test_registered_subsystem_is_served(server: SshServer, connect: Connect) -> None:
    client = await connect(server)
    process = await within(client.create_process(subsystem="mcp", encoding=None))
    process.stdin.write(b"{}\n")
    assert await within(process.stdout.readexactly(3)) == b"{}\n"


async def test_handler_crash_ends_only_its_connection(server: SshServer, connect: Connect) -> None:
    honest, unlucky = await connect(server), await connect(server)
    process = await unlucky.create_process("cat", encoding=None)
    process.stdin.write(b"crash")
    await within(unlucky.wait_closed())
    third = await connect(server)
    await within(third.run("crash"))
    await within(third.wait_closed())
    await _answered(honest)
    assert server.counters.crashed == 2


async def test_a_name_that_the_world_knows_is_forwarded(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    reader, writer = await within(client.open_connection("console", 80))
    writer.write(b"GET / HTTP/1.1\r\n")  # the program sends it back
    assert await within(reader.readexactly(16)) == b"GET / HTTP/1.1\r\n"
    (program,) = world.programs
    for name in (b"shell", b"exec", b"pty-req"):
        assert not await within(writer.channel._make_request(name))
    writer.close()
    await until(lambda: program.count("closed"))
    await _answered(client)


@pytest.mark.parametrize(
    ("host", "port"), [("console", 81), ("console.", 80), ("CONSOLE", 80), ("localhost", 80)]
)
async def test_other_names_are_not_forwarded(
    host: str, port: int, server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    with pytest.raises(asyncssh.ChannelOpenError, match="only console:80"):
        await within(client.open_connection(host, port))
    assert world.programs == []
    await _answered(client)
