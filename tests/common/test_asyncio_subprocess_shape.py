"""Programs started by vfork behave as those of asyncio, on each event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sshwarma.common._asyncio_subprocess import (
    STREAM_LIMIT_BYTES,
    close_process_transport,
    start_by_vfork,
)
from sshwarma.common.pipes import REFUSALS
from support.descriptors import (
    LOOPS,
    Run,
    count_open_files,
    is_closed_by_loop,
    record_closes,
)
from support.waiting import until

pytestmark = pytest.mark.process


@LOOPS
def test_program_is_written_to_read_and_waited_for(run: Run) -> None:
    async def use() -> None:
        code = "import sys; data = sys.stdin.read(); print(data, file=sys.stderr); sys.exit(3)"
        process = await start_by_vfork((sys.executable, "-c", code), PIPE, PIPE, STDOUT, env={})
        printed, _ = await process.communicate(b"x" * 4 * STREAM_LIMIT_BYTES)
        assert printed == b"x" * 4 * STREAM_LIMIT_BYTES + b"\n"
        assert await process.wait() == process.returncode == 3

    run(use())


@LOOPS
def test_program_that_is_killed_ends_by_its_signal(run: Run) -> None:
    async def use() -> None:
        process = await start_by_vfork(("sleep", "99"), DEVNULL, DEVNULL, DEVNULL)
        assert process.returncode is None
        process.kill()
        assert await process.wait() == -9
        assert not Path(f"/proc/{process.pid}").exists()

    run(use())


@LOOPS
@pytest.mark.parametrize("command", ["exec <&-; echo ready; exec sleep 99", "echo ready"])
def test_input_that_nobody_reads_is_a_lost_connection(run: Run, command: str) -> None:
    async def use() -> None:
        process = await start_by_vfork(("/bin/sh", "-c", command), PIPE, PIPE, DEVNULL)
        assert process.stdin and process.stdout
        assert await process.stdout.readline() == b"ready\n"
        with pytest.raises(ConnectionError):
            while True:
                process.stdin.write(b"x" * STREAM_LIMIT_BYTES)
                await process.stdin.drain()
        process.stdin.write(b"more")
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()

    run(use())


@LOOPS
def test_nothing_stays_open(run: Run) -> None:
    async def use() -> None:
        await (await start_by_vfork(("true",), DEVNULL, PIPE, DEVNULL)).communicate()
        before = count_open_files()
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            await start_by_vfork(("/no-such-program",), PIPE, PIPE, PIPE)
        process = await start_by_vfork(("true",), PIPE, PIPE, PIPE)
        assert process.stdin
        await process.communicate()
        process.stdin.close()
        await process.stdin.wait_closed()
        assert count_open_files() == before

    run(use())


@LOOPS
def test_pipes_of_programs_are_closed_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a thread that has got the number in between loses its file."""
    closed = record_closes(monkeypatch)
    right: list[bool] = []

    async def use() -> None:
        await (await start_by_vfork(("true",), PIPE, PIPE, PIPE)).communicate()
        before = count_open_files()
        for _ in range(50):
            process = await start_by_vfork(("cat",), PIPE, PIPE, PIPE)
            transport = process._transport  # type: ignore[attr-defined]
            for number in range(3):
                right.append(is_closed_by_loop(transport.get_pipe_transport(number)))
            await process.communicate(b"")
            assert process.stdin
            await process.stdin.wait_closed()
        assert count_open_files() == before

    run(use())
    assert not closed.twice
    assert right == [True] * 150


@LOOPS
@pytest.mark.parametrize("refused", range(3))
def test_pipe_that_the_loop_refuses_is_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """uvloop refuses a number that it watches already, and asyncio what is no pipe."""
    dup = os.dup
    numbers: list[int] = []

    def replace(number: int) -> int:
        numbers.append(dup(number))
        if len(numbers) == refused + 1:
            watch(numbers[-1])
        return numbers[-1]

    def watch(number: int) -> None:
        if run is asyncio.run:
            os.dup2(folder, number)
        else:
            asyncio.get_running_loop().add_reader(number, print)

    async def use() -> None:
        await (await start_by_vfork(("true",), DEVNULL, PIPE, DEVNULL)).communicate()
        before = count_open_files()
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", replace)
            with pytest.raises(REFUSALS):
                await start_by_vfork(("cat",), PIPE, PIPE, PIPE)
        if run is not asyncio.run:
            asyncio.get_running_loop().remove_reader(numbers[refused])
        await until(lambda: count_open_files() == before)

    folder = os.open("/", os.O_RDONLY)
    try:
        run(use())
    finally:
        os.close(folder)


async def _start_by_asyncio(command: tuple[str, ...], *streams: int | None) -> Process:
    stdin, stdout, stderr = streams
    return await asyncio.create_subprocess_exec(*command, stdin=stdin, stdout=stdout, stderr=stderr)


@pytest.mark.parametrize(
    ("run", "start"),
    [
        (uvloop.run, start_by_vfork),
        (asyncio.run, start_by_vfork),
        (asyncio.run, _start_by_asyncio),
    ],
)
def test_pipes_of_an_ended_process_are_closed_at_once(run: Run, start: Any) -> None:
    async def use() -> None:
        process = await start((sys.executable, "-c", ""), PIPE, None, None)
        assert process.stdin
        await process.wait()
        transport = process._transport
        assert isinstance(transport, asyncio.SubprocessTransport)
        close_process_transport(process)
        assert transport.is_closing()

    run(use())
