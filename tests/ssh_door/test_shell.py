"""A person's shell: a client that is gone at once, and a paste beyond the limits."""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from typing import Any

import pytest

from sshwarma.common.limits import MAX_TYPED_AHEAD_LINES
from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door import line_progress
from sshwarma.ssh.door import shell as shell_module
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.early_input import MAX_EARLY_INPUT_BYTES, EarlyInput
from sshwarma.ssh.door.shell import ShellHandler
from sshwarma.ssh.transport.interfaces import Peer
from sshwarma.terminal.clock import FrameClock
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents
from sshwarma.world.caller import Caller
from sshwarma.world.world import World
from support.people import world
from support.services import services_in
from support.waiting import until

__all__ = ["world"]

RATE = 40


class OwnScreen:
    """A channel with a terminal, and the link that it is on."""

    term = "xterm"
    size = (80, 24)
    env: tuple[tuple[str, str], ...] = ()
    peer = Peer("127.0.0.1", 1, "carol", "SHA256:x", "", "")

    def __init__(self) -> None:
        self.written = b""

    @property
    def text(self) -> str:
        """What was written, without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.written.decode())

    def write(self, data: bytes) -> None:
        self.written += data

    def exit(self, status: int) -> None:
        """Nobody reads it."""


async def carols_shell(world: World, screen: Any) -> tuple[SshContext, ShellHandler]:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    clock = FrameClock(asyncio.get_running_loop())
    gate: Any = None
    settings = ReloadableSettings()
    rate = LineRateLimiter(RATE)
    house = SshContext(world, services_in(world), gate, settings, clock, rate)
    return house, ShellHandler(house, carol.id, screen, screen)


async def test_client_that_is_gone_before_the_first_screen_leaves_no_coroutine(
    world: World,
) -> None:
    house, shell = await carols_shell(world, OwnScreen())
    shell.eof()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        await asyncio.wait({shell._task})
        gc.collect()
    assert not warned
    await house.flush()


async def test_paste_of_a_thousand_lines_has_one_notice_of_those_not_taken(
    world: World,
) -> None:
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    await until(lambda: "lobby" in screen.text)
    count = 1_000
    for number in range(count):
        shell.terminal.feed(b"line %d\r" % number)
    await until(lambda: "not taken" in screen.text)
    text = screen.text
    assert text.count("Too many waiting lines") == 1
    assert text.count("not sent:") == 1 and f"not sent: line {MAX_TYPED_AHEAD_LINES}" in text
    assert f"{count - RATE - 1} more lines were not taken." in text
    said = [row for row in await world.last_rows("lobby", 100) if row.content[:5] == "line "]
    assert len(said) == RATE

    shell.terminal.feed(b"another\r")
    await until(lambda: screen.text.count("not sent:") == 2)
    assert "At most 40 lines in 10 seconds" in screen.text
    shell.closed(None)
    await house.flush()


async def test_line_that_runs_is_looked_at_and_stopped_by_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(caller: Caller, typed: str) -> Any:
        if typed == "/shell sleep":
            with world.open_requests.begin(caller.agent.id, room_id="lobby", work="a command"):
                await asyncio.Event().wait()
        return await run_line(caller, typed)

    monkeypatch.setattr(shell_module, "run_line", run)
    monkeypatch.setattr(line_progress, "_WAITING_SECONDS", 0.0)
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    await until(lambda: "lobby" in screen.text)
    shell.terminal.feed(b"/shell sleep\r")
    await until(lambda: "/stop ends it" in screen.text)
    (request,) = world.open_requests.list_work("lobby")
    shell.terminal.feed(b"/look\r")
    await until(lambda: f"/stop {request.number}" in screen.text)
    shell.terminal.feed(b"/stop 99\r")
    await until(lambda: "number 99 runs here" in screen.text)
    shell.terminal.feed(b"/stop %d\r" % request.number)
    await until(lambda: "Stopped a command." in screen.text)
    assert "waits for the command" not in screen.text
    shell.closed(None)
    await house.flush()


async def test_stop_of_a_paste_waits_for_the_line_before_it_unless_that_takes_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    may_end = asyncio.Event()

    async def run(caller: Caller, typed: str) -> Any:
        ran.append(typed)
        if not typed.startswith("/stop"):
            await may_end.wait()
        return await run_line(caller, typed)

    monkeypatch.setattr(shell_module, "run_line", run)
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    await until(lambda: "lobby" in screen.text)
    shell.terminal.feed(b"@tale again\r/stop @tale\rlater\r")
    await until(lambda: ran)
    await asyncio.sleep(0)
    assert ran == ["@tale again"]
    may_end.set()
    await until(lambda: "later" in ran)
    assert ran == ["@tale again", "/stop @tale", "later"]

    may_end.clear()
    monkeypatch.setattr(line_progress, "_WAITING_SECONDS", 0.0)
    shell.terminal.feed(b"/run slow\rlater\r/stop 1\r")
    await until(lambda: "/stop 1" in ran)
    assert ran[3:] == ["/run slow", "/stop 1"]
    may_end.set()
    await until(lambda: len(ran) == 6)
    shell.closed(None)
    await house.flush()


async def test_look_of_a_paste_waits_for_the_line_before_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    may_end = asyncio.Event()

    async def run(caller: Caller, typed: str) -> Any:
        ran.append(typed)
        await may_end.wait()
        return await run_line(caller, "/look")

    monkeypatch.setattr(shell_module, "run_line", run)
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    await until(lambda: "lobby" in screen.text)
    shell.terminal.feed(b"/create attic\r/look\r")
    await until(lambda: ran)
    assert ran == ["/create attic"]
    may_end.set()
    await until(lambda: ran == ["/create attic", "/look"])
    shell.closed(None)
    await house.flush()


async def test_lines_before_ctrl_d_run_first_and_lines_after_it_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = asyncio.Event()

    async def run(caller: Caller, typed: str) -> Any:
        await may_end.wait()
        return await run_line(caller, typed)

    monkeypatch.setattr(shell_module, "run_line", run)
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    await until(lambda: "lobby" in screen.text)
    shell.terminal.feed(b"first\r")
    await until(lambda: shell._lines.is_running)
    shell.terminal.feed(b"second\r/answer nobody\r\x04third\r")
    shell.eof()
    await until(lambda: "not sent: third" in screen.text)
    assert "You leave when the command that runs has ended" in screen.text
    may_end.set()
    await until(lambda: "Goodbye." in screen.text)
    said = [row.content for row in await world.last_rows("lobby", 100) if row.kind == "chat"]
    assert said == ["first", "second"]
    assert screen.text.count("Goodbye.") == 1
    assert screen.text.index("question") < screen.text.index("Goodbye."), "of /answer"
    await house.flush()


async def test_refused_lines_are_counted_before_the_end(world: World) -> None:
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    shell.data(b"".join(b"line %d\n" % number for number in range(1_000)))
    shell.eof()
    await until(lambda: "Goodbye." in screen.text)
    assert f"{1_000 - RATE - 1} more lines were not taken." in screen.text
    said = [row for row in await world.last_rows("lobby", 100) if row.content[:5] == "line "]
    assert len(said) == RATE
    await house.flush()


async def test_early_input_is_held_back_at_its_limit_and_none_is_dropped() -> None:
    calls: list[str] = []

    class Held:
        def pause_reading(self) -> None:
            calls.append("pause")

        def resume_reading(self) -> None:
            calls.append("resume")

    async def load() -> list[str]:
        return ["before"]

    channel: Any = Held()
    history: list[str] = []
    fed = bytearray()
    early = EarlyInput(channel, history, load, fed.extend)
    sent = b"x" * (MAX_EARLY_INPUT_BYTES + 100)
    early.take(sent[:-10])
    early.take(sent[-10:])
    early.end(lambda: calls.append("end"))
    assert (bytes(fed), calls) == (b"", ["pause"])
    early.on_drawn()
    await until(lambda: len(calls) == 3)
    assert (bytes(fed), history, calls) == (sent, ["before"], ["pause", "resume", "end"])
    early.take(b"y")
    assert fed.endswith(b"xy")
