"""The end of a pipe is closed once, by its event loop or by its owner."""

from __future__ import annotations

import asyncio
import os

import pytest

from sshwarma.common.pipes import PipeEnd, connect_writer
from support.descriptors import (
    LOOPS,
    Run,
    count_open_files,
    is_closed_by_loop,
    record_closes,
)


async def _use_pipe() -> None:
    """Write to a pipe and close it; with the first, uvloop opens a file."""
    reader, number = os.pipe()
    writer = await connect_writer(number)
    is_right = is_closed_by_loop(writer.transport)
    writer.write(b"text")
    writer.close()
    await writer.wait_closed()
    assert os.read(reader, 10) == b"text"
    assert os.read(reader, 10) == b""
    os.close(reader)
    assert is_right


@LOOPS
def test_stream_writes_to_a_pipe_and_closes_it_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = record_closes(monkeypatch)

    async def use() -> None:
        await _use_pipe()
        before = count_open_files()
        for _ in range(50):
            await _use_pipe()
        assert count_open_files() == before

    run(use())
    assert not closed.twice
    assert len(closed.numbers) >= 50


@LOOPS
def test_pipe_is_closed_when_its_stream_is_cancelled(run: Run) -> None:
    async def use() -> None:
        await _use_pipe()
        before = count_open_files()
        reader, number = os.pipe()
        task = asyncio.create_task(connect_writer(number))
        await asyncio.sleep(0)  # it waits for the loop now
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        del task
        await asyncio.sleep(0)  # asyncio closes it in its next turn
        os.close(reader)
        assert count_open_files() == before

    run(use())


@LOOPS
def test_number_that_the_loop_cannot_use_is_closed(run: Run) -> None:
    """uvloop refuses one that it watches already, and asyncio what is no pipe."""

    async def use() -> None:
        await _use_pipe()
        loop = asyncio.get_running_loop()
        before = count_open_files()
        if isinstance(loop, asyncio.BaseEventLoop):
            number = os.open("/", os.O_RDONLY)
            with pytest.raises(ValueError, match="only for pipes"):
                await connect_writer(number)
        else:
            reader, number = os.pipe()
            loop.add_reader(number, print)
            with pytest.raises(FileExistsError):
                await connect_writer(number)
            loop.remove_reader(number)
            os.close(reader)
        assert count_open_files() == before

    run(use())


@LOOPS
def test_end_that_no_loop_has_taken_is_closed_when_it_is_deleted(run: Run) -> None:
    async def use() -> None:
        before = count_open_files()
        reader, number = os.pipe()
        end = PipeEnd(number)
        del end
        os.close(reader)
        assert count_open_files() == before

    run(use())
