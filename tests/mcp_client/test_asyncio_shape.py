"""A subprocess of asyncio keeps its transport where `mcp.client._asyncio` looks."""

from __future__ import annotations

import asyncio
import sys

from sshwarma.mcp.client._asyncio import close_process_transport


async def test_pipes_of_an_ended_process_are_closed_at_once() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "", stdin=asyncio.subprocess.PIPE
    )
    assert process.stdin
    await process.wait()
    transport = process._transport  # type: ignore[attr-defined]
    assert isinstance(transport, asyncio.SubprocessTransport)
    close_process_transport(process)
    assert transport.is_closing()
