"""Stdio transport: a server as our subprocess, with one JSON-RPC message a line.

The SDK's own transport reads lines of any length in quadratic time. This one takes linear time, and
a line over MAX_SERVER_MESSAGE_BYTES fails the call it answers, not the connection, and is not held
in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from sshwarma.common.finish import finish
from sshwarma.common.json_guard import JsonTooLarge
from sshwarma.common.limits import MAX_JUNK_LINES, MAX_SERVER_MESSAGE_BYTES
from sshwarma.common.messages import with_limit
from sshwarma.common.processes import (
    TERMINATE_TIMEOUT_SECONDS,
    close_pipes,
    launcher_command,
    start_program,
)
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import KIB, MIB
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sdk.deep_messages import EDGE_BYTES, DeepMessageReader, refuse_message
from sshwarma.mcp.client.shebang import find_missing_interpreter
from sshwarma.mcp.client.throttle import Throttle
from sshwarma.sandbox.run import Sandbox
from sshwarma.world.errors import Unavailable

MAX_STDERR_BYTES_PER_SECOND: Final = 4 * MIB
"""Read rate of a program's stderr."""

MAX_DRAIN_BYTES_PER_SECOND: Final = 64 * MIB
"""Read rate of the output that is discarded while a program ends."""

EXIT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds for a program to exit after its stdin was closed."""

LAST_OUTPUT_SECONDS: Final = 1.0
"""Seconds to wait for the last output and the status of a program that exited."""

READ_BYTES: Final = 64 * KIB

_READER: Final = DeepMessageReader()

IncomingMessage = SessionMessage | Exception


@asynccontextmanager
async def program_transport(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    memory: int,
    log_buffer: LogBuffer,
    ended: Callable[[str], None],
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[IncomingMessage], MemoryObjectSendStream[SessionMessage]]
]:
    """Start a program as an MCP transport; leaving the context ends the program.

    Args:
        command: Program and arguments.
        env: Whole environment of the program.
        cwd: Working directory.
        memory: Bytes of data that each process may have.
        log_buffer: Receives stderr and notes.
        ended: Called with the reason when the program ends by itself.

    Raises:
        Unavailable: if the program cannot be started.
    """
    log_buffer.start_section()
    process = await _start_program(command, env, cwd, memory)
    assert process.stdin  # noqa: S101 - for mypy
    program = _RunningProgram(process, process.stdin, log_buffer, ended)
    try:
        yield program.received, program.outgoing
    finally:
        await finish(program.stop())


@asynccontextmanager
async def sandbox_transport(
    opening: AbstractAsyncContextManager[Sandbox],
    log_buffer: LogBuffer,
    ended: Callable[[str], None],
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[IncomingMessage], MemoryObjectSendStream[SessionMessage]]
]:
    """Start a program in a sandbox as an MCP transport, as `program_transport` does.

    Args:
        opening: starts the sandbox, and ends it.
        log_buffer: Receives stderr and notes.
        ended: Called with the reason when the program ends by itself.

    Raises:
        Unavailable: if there can be no sandbox.
    """
    log_buffer.start_section()
    async with opening as sandbox:
        program = _RunningProgram(
            sandbox.process,
            sandbox.stdin,
            log_buffer,
            lambda reason: ended(
                f"{sandbox.excess}, so it was ended" if sandbox.excess else reason
            ),
        )
        try:
            yield program.received, program.outgoing
        finally:
            await finish(program.stop())


class _RunningProgram:
    """A started program and the tasks that connect its pipes with the SDK's streams.

    Attributes:
        received: Messages from the program.
        outgoing: Messages to the program.
    """

    def __init__(
        self,
        process: Process,
        stdin: asyncio.StreamWriter,
        log_buffer: LogBuffer,
        ended: Callable[[str], None],
    ) -> None:
        assert process.stdout and process.stderr  # noqa: S101 - for mypy
        self._process = process
        self._stdin = stdin
        self._stdout = process.stdout
        self._log_buffer = log_buffer
        self._on_ended = ended
        self._from_program, self.received = anyio.create_memory_object_stream[IncomingMessage](0)
        self.outgoing, self._to_program = anyio.create_memory_object_stream[SessionMessage](0)
        self._reading = asyncio.create_task(
            _read_stdout(self._stdout, self._from_program, log_buffer)
        )
        self._logging = asyncio.create_task(_log_stderr(process.stderr, log_buffer))
        self._watching = asyncio.create_task(self._watch())
        self._writing = asyncio.create_task(_write_stdin(stdin, self._to_program))

    async def _watch(self) -> None:
        self._on_ended(
            await _wait_until_gone(self._process, self._reading, self._logging, self._log_buffer)
        )
        self._from_program.close()  # calls fail only now, when the reason is known

    async def stop(self) -> None:
        """End the program and its tasks; close the streams."""
        if self._reading.done():  # the program ended first: wait for the reason
            await asyncio.wait({self._watching}, timeout=2 * LAST_OUTPUT_SECONDS)
        self._watching.cancel()  # from here on, we end it ourselves
        self.received.close()
        self.outgoing.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        # Drain its stdout: a program that blocks on writing would not exit.
        drain_task = asyncio.create_task(_drain_stdout(self._stdout))
        await _stop_program(self._process, self._stdin)
        tasks = [self._reading, self._watching, self._logging, self._writing, drain_task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._from_program.close()
        self._to_program.close()
        close_pipes(self._process)


async def _start_program(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, memory: int
) -> Process:
    loop = asyncio.get_running_loop()
    program = await loop.run_in_executor(
        None, lambda: shutil.which(command[0], path=env.get("PATH"))
    )
    if program is None:
        raise Unavailable(f"Program {command[0]} not found.")
    missing = await loop.run_in_executor(
        None, find_missing_interpreter, Path(program), env.get("PATH")
    )
    if missing is not None:
        raise Unavailable(f"{command[0]} needs {missing}, which is not found. Install {missing}.")
    if not await loop.run_in_executor(None, cwd.is_dir):
        raise Unavailable(f"The directory {cwd} does not exist.")
    try:
        return await start_program(
            *launcher_command(memory),
            *(program, *command[1:]),
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
    process: Process,
    reading: asyncio.Task[str],
    listening: asyncio.Task[None],
    log_buffer: LogBuffer,
) -> str:
    """Wait until the program exits or closes its stdout, and return the reason."""
    exit_task = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({exit_task, reading}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({exit_task, reading, listening}, timeout=LAST_OUTPUT_SECONDS)
    finally:
        exit_task.cancel()
    if reading.done() and not reading.cancelled() and (reason := reading.result()):
        return reason
    line = log_buffer.failure_line
    return f"it {_describe_exit(process.returncode)}{f': {shorten_text(line)}' if line else ''}"


def _describe_exit(status: int | None) -> str:
    """Describe an exit status, which the launcher reports as a shell does."""
    if status is None:
        return "closed its stdout"
    if status > 128 and status - 128 in signal.valid_signals():
        return f"was killed by {signal.strsignal(status - 128) or 'a signal'} ({status - 128})"
    return f"exited with status {status}"


async def _read_stdout(
    stdout: asyncio.StreamReader,
    received: MemoryObjectSendStream[IncomingMessage],
    log_buffer: LogBuffer,
) -> str:
    throttle = Throttle()
    return await forward_messages(_read_lines(stdout, throttle), received, log_buffer, throttle)


async def forward_messages(
    lines: AsyncIterator[bytes | tuple[bytes, bytes]],
    received: MemoryObjectSendStream[IncomingMessage],
    log_buffer: LogBuffer,
    throttle: Throttle,
) -> str:
    """Forward messages one at a time, without reading ahead.

    Returns an empty string when the lines end, or the reason why reading stopped.
    """
    junk = 0
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for line in lines:
            await throttle.acquire(1)
            message = parse_message(line, log_buffer)
            if message is not None:
                junk = 0
                await received.send(message)
            elif isinstance(line, tuple) or line.strip():
                junk += 1
            if junk >= MAX_JUNK_LINES:
                sample = line if isinstance(line, bytes) else line[0]
                return f"its output is not MCP: {sample[:80].decode('utf-8', 'replace')}"
    return ""


async def _read_lines(
    stdout: asyncio.StreamReader, throttle: Throttle
) -> AsyncIterator[bytes | tuple[bytes, bytes]]:
    """Yield lines; of a line over MAX_SERVER_MESSAGE_BYTES, its first and last bytes."""
    line = bytearray()
    head = b""
    while chunk := await stdout.read(READ_BYTES):
        await throttle.acquire(0, len(chunk))
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line += chunk[start:end]
            yield (head, bytes(line[-EDGE_BYTES:])) if head else bytes(line)
            line, head, start = bytearray(), b"", end + 1
        line += chunk[start:]
        if len(line) > MAX_SERVER_MESSAGE_BYTES:
            head = head or bytes(line[:EDGE_BYTES])
            del line[:-EDGE_BYTES]


def parse_message(
    line: bytes | tuple[bytes, bytes], log_buffer: LogBuffer
) -> SessionMessage | None:
    """Parse the message of a line; note an invalid one and return None."""
    if isinstance(line, tuple):
        limit = f"{MAX_SERVER_MESSAGE_BYTES // MIB} MiB"
        return _make_refusal(
            line, with_limit("A message of the server is too large", limit), log_buffer
        )
    if not line.strip():
        return None
    try:
        return SessionMessage(_READER.validate_json(line))
    except JsonTooLarge as error:
        edges = line[:EDGE_BYTES], line[-EDGE_BYTES:]
        return _make_refusal(edges, f"A message of the server {error}", log_buffer)
    except ValueError:
        log_buffer.append(f"not a message: {line[:200].decode('utf-8', 'replace')}")
        return None


def _make_refusal(
    edges: tuple[bytes, bytes], problem: str, log_buffer: LogBuffer
) -> SessionMessage | None:
    """Build the error response to a rejected message, if its edges show the id."""
    log_buffer.append(f"{problem}: {edges[0][:200].decode('utf-8', 'replace')}")
    refusal = refuse_message(edges, problem)
    return None if refusal is None else SessionMessage(refusal)


async def _write_stdin(
    stdin: asyncio.StreamWriter, to_send: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async for message in to_send:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        stdin.write(text.encode() + b"\n")
        try:
            await stdin.drain()
        except ConnectionError:
            return  # the watcher reports the end of the program


async def _log_stderr(stderr: asyncio.StreamReader, log_buffer: LogBuffer) -> None:
    while chunk := await stderr.read(READ_BYTES):
        log_buffer.feed(chunk)
        await asyncio.sleep(len(chunk) / MAX_STDERR_BYTES_PER_SECOND)


async def _drain_stdout(stdout: asyncio.StreamReader) -> None:
    while chunk := await stdout.read(READ_BYTES):  # noqa: ASYNC110 - the loop waits on the read
        await asyncio.sleep(len(chunk) / MAX_DRAIN_BYTES_PER_SECOND)


async def _stop_program(process: Process, stdin: asyncio.StreamWriter) -> None:
    """Close the program's stdin and wait; then let the launcher end its group."""
    stdin.close()
    exit_task = asyncio.create_task(process.wait())
    await asyncio.wait({exit_task}, timeout=EXIT_TIMEOUT_SECONDS)
    for ask in (process.terminate, process.kill):
        if not exit_task.done():
            with contextlib.suppress(ProcessLookupError):
                ask()
            await asyncio.wait({exit_task}, timeout=TERMINATE_TIMEOUT_SECONDS)
    exit_task.cancel()
