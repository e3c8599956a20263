"""A server that is a program of ours: JSON-RPC messages over its stdin and stdout, a line each.

The SDK's own transport reads lines of any length, in time that grows with their square; this one
reads in time that grows with their length. A line over MAX_SERVER_MESSAGE_BYTES fails the one call
that it answers, and costs neither the connection nor the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from sshwarma.common.limits import (
    MAX_JUNK_LINES,
    MAX_SERVER_MESSAGE_BYTES,
    MAX_SERVER_MESSAGE_QUOTES,
)
from sshwarma.mcp.client._asyncio import close_process_transport
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.throttle import Throttle
from sshwarma.world.errors import Unavailable

MAX_STDERR_BYTES_PER_SECOND: Final = 4 * 1024 * 1024
"""Bytes a second that are read of what a program logs."""

MAX_DRAIN_BYTES_PER_SECOND: Final = 64 * 1024 * 1024
"""Bytes a second that are thrown away of what a program still writes while it ends."""

EXIT_TIMEOUT_SECONDS: Final = 2.0
"""A program whose stdin was closed has this long to leave by itself."""

LAST_OUTPUT_SECONDS: Final = 1.0
"""The last words and the status of a program that has gone are waited for this long."""

SPAWN_SCRIPT: Final = Path(__file__).with_name("spawn.py")
TERMINATE_TIMEOUT_SECONDS: Final = 4.0
"""The launcher has this long to end what it started: twice its GRACE."""

ANSWER_REFUSED_CODE: Final = -32_097
"""The code of an error that stands in place of an answer: it is ours, not the server's."""

READ_BYTES: Final = 65_536
EDGE_BYTES: Final = 512
_ID_PATTERN: Final = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")')

IncomingMessage = SessionMessage | Exception


@asynccontextmanager
async def program_transport(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    memory: int,
    ring: LogBuffer,
    ended: Callable[[str], None],
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[IncomingMessage], MemoryObjectSendStream[SessionMessage]]
]:
    """A transport to a program that is started for it and ended with it. Each of its processes may
    have `memory` bytes of data. `ended` is told at once
    when the program has ended by itself, and why.

    Raises:
        Unavailable: if it cannot be started.
    """
    ring.begin()
    process = await _start_program(command, env, cwd, memory)
    heard, read = anyio.create_memory_object_stream[IncomingMessage](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - for mypy
    stdout = process.stdout
    reading = asyncio.create_task(_read_stdout(stdout, heard, ring))
    listening = asyncio.create_task(_log_stderr(process.stderr, ring))

    async def watch() -> None:
        ended(await _wait_until_gone(process, reading, listening, ring))
        heard.close()  # now calls fail, and why is known

    watching = asyncio.create_task(watch())
    tasks = [
        reading,
        watching,
        listening,
        asyncio.create_task(_write_stdin(process.stdin, to_send)),
    ]

    async def leave() -> None:
        if reading.done():  # it went first: how, is known in a moment
            await asyncio.wait({watching}, timeout=2 * LAST_OUTPUT_SECONDS)
        watching.cancel()  # that it ends from now on is our doing
        read.close()
        write.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        # A program with more to say would wait for that, and asyncio for it.
        tasks.append(asyncio.create_task(_drain_stdout(stdout)))
        await _stop_program(process)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        heard.close()
        to_send.close()
        close_process_transport(process)

    try:
        yield read, write
    finally:
        await finish(leave())


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Carry out `work` to its end, however often this task is cancelled meanwhile.

    A cancel scope's shield holds off the cancellations of anyio, and not those of asyncio: one of
    these would leave streams open and a program running.

    Raises:
        CancelledError: after the end, if the task was cancelled meanwhile.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _start_program(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, memory: int
) -> Process:
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(None, lambda: shutil.which(command[0], path=env.get("PATH")))
    if found is None:
        raise Unavailable(f"There is no program {command[0]} here.")
    try:
        await loop.run_in_executor(None, lambda: cwd.mkdir(mode=0o700, parents=True, exist_ok=True))
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SPAWN_SCRIPT), str(os.getpid()), str(memory)),
            *(found, *command[1:]),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be started: {error.strerror}.") from error


async def _wait_until_gone(
    process: Process, reading: asyncio.Task[str], listening: asyncio.Task[None], ring: LogBuffer
) -> str:
    """How the program went, once it has gone or has closed its side; or why it is heard no more."""
    leaving = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({leaving, reading}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({leaving, reading, listening}, timeout=LAST_OUTPUT_SECONDS)
    finally:
        leaving.cancel()
    if reading.done() and not reading.cancelled() and (why := reading.result()):
        return why
    return f"it {_describe_exit(process.returncode)}{f': {ring.said[:200]}' if ring.said else ''}"


def _describe_exit(status: int | None) -> str:
    """How a program went, by the status that its launcher passes on as a shell would."""
    if status is None:
        return "closed its stdout"
    if status > 128 and status - 128 in signal.valid_signals():
        return f"was ended by {signal.strsignal(status - 128) or 'a signal'} ({status - 128})"
    return f"ended with status {status}"


async def _read_stdout(
    stdout: asyncio.StreamReader, heard: MemoryObjectSendStream[IncomingMessage], ring: LogBuffer
) -> str:
    flow = Throttle()
    return await forward_messages(_read_lines(stdout, flow), heard, ring, flow)


async def forward_messages(
    lines: AsyncIterator[bytes | tuple[bytes, bytes]],
    heard: MemoryObjectSendStream[IncomingMessage],
    ring: LogBuffer,
    flow: Throttle,
) -> str:
    """Pass messages on, one by one: what waits to be heard is not read ahead. Returns when the
    lines end, or why no more of them are read."""
    junk = 0
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for line in lines:
            await flow.take(1)
            message = parse_message(line, ring)
            if message is not None:
                junk = 0
                await heard.send(message)
            elif isinstance(line, tuple) or line.strip():
                junk += 1
            if junk >= MAX_JUNK_LINES:
                shown = line if isinstance(line, bytes) else line[0]
                return (
                    f"it writes what is no message of MCP: {shown[:80].decode('utf-8', 'replace')}"
                )
    return ""


async def _read_lines(
    stdout: asyncio.StreamReader, flow: Throttle
) -> AsyncIterator[bytes | tuple[bytes, bytes]]:
    """Lines; of one that is too long its first and last bytes."""
    line = bytearray()
    head = b""
    while piece := await stdout.read(READ_BYTES):
        await flow.take(0, len(piece))
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            line += piece[start:end]
            yield (head, bytes(line[-EDGE_BYTES:])) if head else bytes(line)
            line, head, start = bytearray(), b"", end + 1
        line += piece[start:]
        if len(line) > MAX_SERVER_MESSAGE_BYTES:
            head = head or bytes(line[:EDGE_BYTES])
            del line[:-EDGE_BYTES]


def parse_message(line: bytes | tuple[bytes, bytes], ring: LogBuffer) -> SessionMessage | None:
    """The message in a line; nothing if it is none, which is noted."""
    if isinstance(line, tuple):
        return _make_refusal(
            line, f"a message over {MAX_SERVER_MESSAGE_BYTES // (1024 * 1024)} MiB", ring
        )
    if not line.strip():
        return None
    if count_quotes(line) > MAX_SERVER_MESSAGE_QUOTES:
        return _make_refusal(
            (line[:EDGE_BYTES], line[-EDGE_BYTES:]), "a message of too many parts", ring
        )
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        ring.note(f"not a message: {line[:200].decode('utf-8', 'replace')}")
        return None


def count_quotes(data: bytes) -> int:
    """How many quotes begin or end a string; those inside of one are escaped."""
    return data.count(b'"') - data.count(b'\\"')


def _make_refusal(edges: tuple[bytes, bytes], limit: str, ring: LogBuffer) -> SessionMessage | None:
    """An answer in place of one that is not taken, if its start or end says whose it is."""
    ring.note(f"{limit}: {edges[0][:200].decode('utf-8', 'replace')}")
    found = _ID_PATTERN.search(edges[0]) or _ID_PATTERN.search(edges[1])
    if found is None or b'"method"' in edges[0]:
        return None
    error = ErrorData(
        code=ANSWER_REFUSED_CODE, message=f"It answered with {limit}, which is not taken."
    )
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]), error=error))


async def _write_stdin(
    stdin: asyncio.StreamWriter, to_send: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async for sent in to_send:
        text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
        stdin.write(text.encode() + b"\n")
        try:
            await stdin.drain()
        except ConnectionError:
            return  # that it goes is seen elsewhere


async def _log_stderr(stderr: asyncio.StreamReader, ring: LogBuffer) -> None:
    while piece := await stderr.read(READ_BYTES):
        ring.feed(piece)
        await asyncio.sleep(len(piece) / MAX_STDERR_BYTES_PER_SECOND)


async def _drain_stdout(stdout: asyncio.StreamReader) -> None:
    while piece := await stdout.read(READ_BYTES):  # noqa: ASYNC110 - what it waits for is the read
        await asyncio.sleep(len(piece) / MAX_DRAIN_BYTES_PER_SECOND)


async def _stop_program(process: Process) -> None:
    """Close its stdin and wait; then have the launcher end it and its group."""
    assert process.stdin  # noqa: S101 - for mypy
    process.stdin.close()
    leaving = asyncio.create_task(process.wait())
    await asyncio.wait({leaving}, timeout=EXIT_TIMEOUT_SECONDS)
    for ask in (process.terminate, process.kill):
        if not leaving.done():
            with contextlib.suppress(ProcessLookupError):
                ask()
            await asyncio.wait({leaving}, timeout=TERMINATE_TIMEOUT_SECONDS)
    leaving.cancel()
