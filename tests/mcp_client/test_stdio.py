"""A program leaves nothing behind when its owner is cancelled while it ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from pathlib import Path

import pytest

from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sdk import stdio
from support.hub import children

# It closes its stdout and does not end when it is asked to.
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.close(1); "
    "time.sleep(60)"
)


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelling_while_a_program_exits_leaks_no_process_or_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(stdio, "EXIT_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(stdio, "TERMINATE_TIMEOUT_SECONDS", 0.3)
    ended = asyncio.Event()
    leaving = asyncio.Event()

    async def use() -> None:
        command = (sys.executable, "-c", STUBBORN)
        opened = stdio.program_transport(
            command, {}, tmp_path, 1 << 30, LogBuffer(), lambda why: ended.set()
        )
        async with opened:
            await asyncio.wait_for(ended.wait(), 30)
            leaving.set()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        user = asyncio.create_task(use())
        await leaving.wait()
        for _ in range(times):
            await asyncio.sleep(0.05)
            user.cancel()
        with pytest.raises(asyncio.CancelledError):
            await user
        assert children() == []
        del user
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
