"""Commands over ssh whose person loses a role, room or account before input ends."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.admin import operations
from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door import exec as exec_module
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.exec import ExecHandler
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.text import Line, line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.caller import Caller
from sshwarma.world.world import World
from support.people import Someone, alice, bob, do, world
from support.services import services_in

__all__ = ["alice", "bob", "world"]


class Output:
    """A channel that keeps what is written to it."""

    has_pty = False
    env: dict[str, str] = {}  # noqa: RUF012
    size = (80, 24)
    term = ""

    def __init__(self) -> None:
        self.out = self.err = b""
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        self.out += data

    def write_stderr(self, data: bytes) -> None:
        self.err += data

    def exit(self, status: int) -> None:
        self.status.set_result(status)


LINK: Any = SimpleNamespace(peer=SimpleNamespace(address="127.0.0.1", fingerprint="SHA256:x"))


def context_of(world: World, rate: LineRateLimiter) -> SshContext:
    gate: Any = None
    clock = FrameClock(asyncio.get_running_loop())
    return SshContext(world, services_in(world), gate, ReloadableSettings(), clock, rate)


async def run_command(world: World, agent_id: str, command: str, rate: LineRateLimiter) -> Output:
    """Run a command that reads no input, to its end."""
    output = Output()
    channel: Any = output
    ExecHandler(context_of(world, rate), agent_id, LINK, channel, command)
    await asyncio.wait_for(asyncio.shield(output.status), 20)
    return output


class Command(ExecHandler):
    """A command that says when it waits for the rest of its input."""

    async def _text_from_pipe(self, caller: Caller, line: str) -> str | None:
        self.is_reading.set()
        return await super()._text_from_pipe(caller, line)

    @classmethod
    async def begin(cls, world: World, agent_id: str, command: str) -> tuple[Command, Output]:
        output = Output()
        channel: Any = output
        made = cls(context_of(world, LineRateLimiter(100)), agent_id, LINK, channel, command)
        made.is_reading = asyncio.Event()
        await asyncio.wait_for(made.is_reading.wait(), 20)
        return made, output

    is_reading: asyncio.Event


@pytest.mark.parametrize("command", ["nonsense", "say --room", "say x --room nowhere", ""])
async def test_a_command_that_fails_early_counts_as_a_line(
    world: World, bob: Someone, command: str
) -> None:
    rate = LineRateLimiter(2)
    for _ in range(2):
        output = await run_command(world, bob.id, command, rate)
        assert b"lines in 10 seconds" not in output.err
    output = await run_command(world, bob.id, command, rate)
    assert output.err.startswith(b"At most 2 lines in 10 seconds are accepted.")
    assert await output.status == 1


async def test_result_is_drawn_beside_the_event_loop(
    world: World, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[threading.Thread] = []

    def draw(result: object) -> list[Line]:
        drawn.append(threading.current_thread())
        return [line("drawn")]

    monkeypatch.setattr(exec_module, "draw_lines", draw)
    output = await run_command(world, bob.id, "look", LineRateLimiter(2))
    assert output.out == b"drawn\n"
    assert threading.current_thread() not in drawn


async def vault_with_admin(alice: Someone, bob: Someone) -> str:
    """A private room that bob may enter as an admin alone."""
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await operations.run_operation(alice.world, "agents_role", {"name": "bob", "role": "admin"})
    return alice.room_id


async def test_a_role_lost_while_input_comes_is_lost(
    world: World, alice: Someone, bob: Someone
) -> None:
    vault = await vault_with_admin(alice, bob)
    command, output = await Command.begin(world, bob.id, "say --room vault --stdin")
    await operations.run_operation(world, "agents_role", {"name": "bob", "role": "member"})
    command.data(b"said by nobody who may\n")
    command.eof()
    assert await asyncio.wait_for(output.status, 20) == 1
    assert b"Permission denied" in output.err
    assert [row for row in await world.last_rows(vault, 50) if row.kind == "chat"] == []


async def test_a_closed_room_does_not_send_what_was_meant_for_it_to_another(
    world: World, alice: Someone, bob: Someone
) -> None:
    await do(alice, "/create den")
    await do(bob, "/join den")
    command, output = await Command.begin(world, bob.id, "say --stdin")
    await do(alice, "/room private")
    command.data(b"for the den alone\n")
    command.eof()
    assert await asyncio.wait_for(output.status, 20) == 1
    for room_id in (alice.room_id, "lobby"):
        assert [row for row in await world.last_rows(room_id, 50) if row.kind == "chat"] == []


async def test_a_command_ends_with_the_access_of_its_agent(world: World, bob: Someone) -> None:
    _, output = await Command.begin(world, bob.id, "say --stdin")
    await operations.run_operation(world, "agents_disable", {"name": "bob"})
    assert await asyncio.wait_for(output.status, 20) == 1
    assert b"disabled" in output.err
