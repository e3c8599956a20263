"""Window sizes, signals and terminal names as a handler sees them."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Serve, World, within
from support.waiting import until

HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ((0, 0), (80, 24)),
        ((0, 50), (80, 50)),
        ((1, 1), (20, 5)),
        ((100, 30), (100, 30)),
        ((65_535, 65_535), (500, 200)),
        ((HUGE, HUGE), (500, 200)),
        ((2**32 - 1, 2**32 - 1), (500, 200)),
    ],
)
async def test_window_size_is_clamped(
    asked: tuple[int, int], seen: tuple[int, int], server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process(term_type="xterm", term_size=asked, encoding=None)
    await within(process.stdout.readline())
    (program,) = world.programs
    assert program.channel.size == seen
    process.change_terminal_size(*asked)
    await until(lambda: program.count("resized"))
    assert program.received[-1] == ("resized", *seen)


async def test_resize_flood_is_coalesced(serve: Serve, connect: Connect, world: World) -> None:
    server = await serve(resize_seconds=0.1)
    client = await connect(server)
    process = await client.create_process(term_type="xterm", encoding=None)
    await within(process.stdout.readline())
    for number in range(5_000):
        process.change_terminal_size(20 + number % 400, 30)
    process.change_terminal_size(123, 45)
    (program,) = world.programs
    await until(lambda: ("resized", 123, 45) in program.received)
    process.stdin.write(b"x")
    await within(process.stdout.readexactly(1))
    assert program.count("resized") < 100


async def test_input_comes_at_the_size_that_the_client_had(
    serve: Serve, connect: Connect, world: World
) -> None:
    """A key answers for what is on the screen, which another size may have cut."""
    server = await serve(resize_seconds=60.0)
    client = await connect(server)
    process = await client.create_process(term_type="xterm", encoding=None)
    await within(process.stdout.readline())
    (program,) = world.programs
    process.change_terminal_size(50, 30)
    process.stdin.write(b"x")
    await within(process.stdout.readexactly(1))
    assert program.received[-2:] == [("resized", 50, 30), ("data", b"x")]


async def test_terminal_below_the_least_size_is_too_small(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process(term_type="xterm", term_size=(19, 30), encoding=None)
    await within(process.stdout.readline())
    (program,) = world.programs
    assert program.channel.is_too_small
    for size, is_too_small in (((20, 4), True), ((0, 0), False), ((20, 5), False)):
        process.change_terminal_size(*size)
        process.stdin.write(b"x")
        await within(process.stdout.readexactly(1))
        assert program.channel.is_too_small == is_too_small


async def test_session_without_pty_has_no_terminal(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process(encoding=None)
    assert await within(process.stdout.readline()) == b"alice  80x24\r\n"
    assert not world.programs[0].channel.has_pty


@pytest.mark.parametrize("term", ["../../etc/passwd", "x" * 500, "\x1b]0;x\x07", "(a+)+$", " "])
async def test_terminal_name_is_sanitized(
    term: str, server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process(term_type=term, encoding=None)
    await within(process.stdout.readline())
    channel = world.programs[0].channel
    assert channel.has_pty
    assert len(channel.term) <= 64
    assert all(char.isalnum() or char in "._-" for char in channel.term)


async def test_signals_and_breaks_interrupt_the_handler(
    server: SshServer, connect: Connect, world: World
) -> None:
    client = await connect(server)
    process = await client.create_process("cat", encoding=None)
    for name in ("INT", "TERM", "USR1", "KILL", "MADEUP"):
        process.send_signal(name)
    process.send_break(100)
    process.stdin.write(b"x")
    await within(process.stdout.readexactly(1))
    assert world.programs[0].count("interrupt") == 3


async def test_paused_reading_holds_back_input(
    serve: Serve, connect: Connect, world: World
) -> None:
    server = await serve(receive_window_bytes=10_000)
    client = await connect(server)
    process = await client.create_process("cat", encoding=None)
    (program,) = world.programs
    program.channel.pause_reading()
    process.stdin.write(bytes(50_000))
    await asyncio.wait([asyncio.ensure_future(process.stdout.read(1))], timeout=0.05)
    assert program.count("data") == 0
    assert process.channel.get_write_buffer_size() == 40_000
    program.channel.resume_reading()
    await until(lambda: sum(len(e[1]) for e in program.received if e[0] == "data") == 50_000)


async def test_malformed_pty_modes_end_only_that_connection(
    server: SshServer, connect: Connect
) -> None:
    from asyncssh.packet import String, UInt32

    client, honest = await connect(server), await connect(server)
    process = await client.create_process("cat", encoding=None)
    size = UInt32(80) + UInt32(24) + UInt32(0) + UInt32(0)
    request = process.channel._make_request(b"pty-req", String("x"), size, String(b"\x01\0"))
    with pytest.raises(asyncssh.Error):
        await within(request)
    assert (await within(honest.run("exit 0"))).exit_status == 0
