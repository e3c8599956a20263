"""A server that is a program of ours: JSON-RPC messages over its stdin and stdout, a line each.

The SDK's own transport reads lines of any length, in time that grows with their square; this one
reads in time that grows with their length, and a line over LINE_BYTES costs the one call it
answers, not the connection and not the memory.
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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from sshwarma.mcp.client.log_buffer import Ring
from sshwarma.mcp.client.throttle import Flow
from sshwarma.world.errors import Unavailable

LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest message taken from a server."""

QUOTES: Final = 100_000
"""The most quotes in a message: many small parts cost the loop far more than one long text."""

JUNK: Final = 1_000
"""Lines in a row that are no messages; then a program is taken for something else."""

STDERR_RATE: Final = 4 * 1024 * 1024
"""Bytes a second that are read of what a program logs."""

DRAIN_RATE: Final = 64 * 1024 * 1024
"""Bytes a second that are thrown away of what a program still writes while it ends."""

LEAVE_SECONDS: Final = 2.0
"""A program whose stdin was closed has this long to leave by itself."""

WORDS_SECONDS: Final = 1.0
"""The last words and the status of a program that has gone are waited for this long."""

LAUNCH: Final = Path(__file__).with_name("spawn.py")
ASKED_SECONDS: Final = 4.0
"""The launcher has this long to end what it started: twice its GRACE."""

NOT_TAKEN: Final = -32_097
"""The code of an error that stands in place of an answer: it is ours, not the server's."""

PIECE: Final = 65_536
EDGE: Final = 512
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")')

Incoming = SessionMessage | Exception


@asynccontextmanager
async def program(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    memory: int,
    ring: Ring,
    ended: Callable[[str], None],
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
]:
    """A transport to a program that is started for it and ended with it. Each of its processes may
    have `memory` bytes of data. `ended` is told at once
    when the program has ended by itself, and why.

    Raises:
        Unavailable: if it cannot be started.
    """
    ring.begin()
    process = await _start(command, env, cwd, memory)
    heard, read = anyio.create_memory_object_stream[Incoming](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - for mypy
    reading = asyncio.create_task(_read(process.stdout, heard, ring))
    listening = asyncio.create_task(_listen(process.stderr, ring))

    async def watch() -> None:
        ended(await _gone(process, reading, listening, ring))
        heard.close()  # now calls fail, and why is known

    watching = asyncio.create_task(watch())
    tasks = [
        reading,
        watching,
        listening,
        asyncio.create_task(_write(process.stdin, to_send)),
    ]
    try:
        yield read, write
    finally:
        with anyio.CancelScope(shield=True):
            if reading.done():  # it went first: how, is known in a moment
                await asyncio.wait({watching}, timeout=2 * WORDS_SECONDS)
            watching.cancel()  # that it ends from now on is our doing
            read.close()
            write.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            # A program with more to say would wait for that, and asyncio for it.
            tasks.append(asyncio.create_task(_drain(process.stdout)))
            await _stop(process)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            heard.close()
            to_send.close()
            _release(process)


async def _start(command: Sequence[str], env: Mapping[str, str], cwd: Path, memory: int) -> Process:
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(None, lambda: shutil.which(command[0], path=env.get("PATH")))
    if found is None:
        raise Unavailable(f"There is no program {command[0]} here.")
    try:
        await loop.run_in_executor(None, lambda: cwd.mkdir(mode=0o700, parents=True, exist_ok=True))
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(memory)),
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


async def _gone(
    process: Process, reading: asyncio.Task[str], listening: asyncio.Task[None], ring: Ring
) -> str:
    """How the program went, once it has gone or has closed its side; or why it is heard no more."""
    leaving = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({leaving, reading}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({leaving, reading, listening}, timeout=WORDS_SECONDS)
    finally:
        leaving.cancel()
    if reading.done() and not reading.cancelled() and (why := reading.result()):
        return why
    return f"it {_how(process.returncode)}{f': {ring.said[:200]}' if ring.said else ''}"


def _how(status: int | None) -> str:
    """How a program went, by the status that its launcher passes on as a shell would."""
    if status is None:
        return "closed its stdout"
    if status > 128 and status - 128 in signal.valid_signals():
        return f"was ended by {signal.strsignal(status - 128) or 'a signal'} ({status - 128})"
    return f"ended with status {status}"


async def _read(
    stdout: asyncio.StreamReader, heard: MemoryObjectSendStream[Incoming], ring: Ring
) -> str:
    flow = Flow()
    return await pass_on(_lines(stdout, flow), heard, ring, flow)


async def pass_on(
    lines: AsyncIterator[bytes | tuple[bytes, bytes]],
    heard: MemoryObjectSendStream[Incoming],
    ring: Ring,
    flow: Flow,
) -> str:
    """Pass messages on, one by one: what waits to be heard is not read ahead. Returns when the
    lines end, or why no more of them are read."""
    junk = 0
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for line in lines:
            await flow.take(1)
            message = parsed(line, ring)
            if message is not None:
                junk = 0
                await heard.send(message)
            elif isinstance(line, tuple) or line.strip():
                junk += 1
            if junk >= JUNK:
                shown = line if isinstance(line, bytes) else line[0]
                return (
                    f"it writes what is no message of MCP: {shown[:80].decode('utf-8', 'replace')}"
                )
    return ""


async def _lines(
    stdout: asyncio.StreamReader, flow: Flow
) -> AsyncIterator[bytes | tuple[bytes, bytes]]:
    """Lines; of one that is too long its first and last bytes."""
    line = bytearray()
    head = b""
    while piece := await stdout.read(PIECE):
        await flow.take(0, len(piece))
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            line += piece[start:end]
            yield (head, bytes(line[-EDGE:])) if head else bytes(line)
            line, head, start = bytearray(), b"", end + 1
        line += piece[start:]
        if len(line) > LINE_BYTES:
            head = head or bytes(line[:EDGE])
            del line[:-EDGE]


def parsed(line: bytes | tuple[bytes, bytes], ring: Ring) -> SessionMessage | None:
    """The message in a line; nothing if it is none, which is noted."""
    if isinstance(line, tuple):
        return _refused(line, f"a message over {LINE_BYTES // (1024 * 1024)} MiB", ring)
    if not line.strip():
        return None
    if quotes(line) > QUOTES:
        return _refused((line[:EDGE], line[-EDGE:]), "a message of too many parts", ring)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        ring.note(f"not a message: {line[:200].decode('utf-8', 'replace')}")
        return None


def quotes(data: bytes) -> int:
    """How many quotes begin or end a string; those inside of one are escaped."""
    return data.count(b'"') - data.count(b'\\"')


def _refused(edges: tuple[bytes, bytes], limit: str, ring: Ring) -> SessionMessage | None:
    """An answer in place of one that is not taken, if its start or end says whose it is."""
    ring.note(f"{limit}: {edges[0][:200].decode('utf-8', 'replace')}")
    found = _ID.search(edges[0]) or _ID.search(edges[1])
    if found is None or b'"method"' in edges[0]:
        return None
    error = ErrorData(code=NOT_TAKEN, message=f"It answered with {limit}, which is not taken.")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]), error=error))


async def _write(
    stdin: asyncio.StreamWriter, to_send: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async for sent in to_send:
        text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
        stdin.write(text.encode() + b"\n")
        try:
            await stdin.drain()
        except ConnectionError:
            return  # that it goes is seen elsewhere


async def _listen(stderr: asyncio.StreamReader, ring: Ring) -> None:
    while piece := await stderr.read(PIECE):
        ring.feed(piece)
        await asyncio.sleep(len(piece) / STDERR_RATE)


async def _drain(stdout: asyncio.StreamReader) -> None:
    while piece := await stdout.read(PIECE):  # noqa: ASYNC110 - what it waits for is the read
        await asyncio.sleep(len(piece) / DRAIN_RATE)


async def _stop(process: Process) -> None:
    """Close its stdin and wait; then have the launcher end it and its group."""
    assert process.stdin  # noqa: S101 - for mypy
    process.stdin.close()
    leaving = asyncio.create_task(process.wait())
    await asyncio.wait({leaving}, timeout=LEAVE_SECONDS)
    for ask in (process.terminate, process.kill):
        if not leaving.done():
            with contextlib.suppress(ProcessLookupError):
                ask()
            await asyncio.wait({leaving}, timeout=ASKED_SECONDS)
    leaving.cancel()


def _release(process: Process) -> None:
    """Close what the subprocess holds now, not when it is collected."""
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
