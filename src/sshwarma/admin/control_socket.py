"""The operator's interface to a running server: a Unix socket in the data directory, 0600.

One request for each connection: a line of JSON `{"op": NAME, "args": {…}}`, answered by a line
`{"result": …}` or `{"error": CODE, "message": …, "hint": …}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import structlog

from sshwarma.common.limits import CONTROL_TIMEOUT_SECONDS, MAX_CONTROL_REQUEST_BYTES
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

SOCKET_NAME: Final = "control.sock"
LOCK_NAME: Final = "sshwarma.lock"

OperationHandler: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Runs an operation by name; see `operations.run_operation`."""


class DataDirInUseError(Exception):
    """Another process uses the data directory."""


def lock_data_dir(data_dir: Path) -> IO[str]:
    """Lock the data directory for this process until the returned file is closed.

    Raises:
        DataDirInUseError: if another process holds it.
    """
    file = (data_dir / LOCK_NAME).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DataDirInUseError(f"Another sshwarma is using {data_dir}. Stop it first.") from None
    return file


class ControlServer:
    """The server's end of the socket."""

    def __init__(self, data_dir: Path, operate: OperationHandler) -> None:
        self._operate = operate
        self._path = data_dir / SOCKET_NAME
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket; only this process's user can connect to it."""
        self._path.unlink(missing_ok=True)  # left by a server that was killed; we hold the lock
        with _short_socket_path(self._path) as path:
            self._server = await asyncio.start_unix_server(
                self._serve_connection, path, limit=MAX_CONTROL_REQUEST_BYTES
            )
        self._path.chmod(0o600)

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(CONTROL_TIMEOUT_SECONDS):
                answer = await self._answer_request(await reader.readline())
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (
            TimeoutError,
            ConnectionError,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ) as error:
            log.warning("a control request failed", error=repr(error))
        finally:
            writer.close()

    async def _answer_request(self, request: bytes) -> dict[str, Any]:
        asked = json.loads(request)
        try:
            return {"result": await self._operate(str(asked["op"]), dict(asked["args"]))}
        except WorldError as refused:
            return {"error": refused.code, "message": refused.message, "hint": refused.hint}


async def send_request(data_dir: Path, op: str, args: dict[str, Any]) -> Any:
    """Run an operation in the running server.

    Raises:
        ConnectionError, FileNotFoundError: if no server is running there.
        WorldError: the server's refusal.
    """
    with _short_socket_path(data_dir / SOCKET_NAME) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(json.dumps({"op": op, "args": args}).encode() + b"\n")
        async with asyncio.timeout(CONTROL_TIMEOUT_SECONDS):
            answer = json.loads(await reader.readline())
    finally:
        writer.close()
    if "error" in answer:
        raise WorldError(answer["message"], hint=answer.get("hint", ""))
    return answer["result"]


@contextlib.contextmanager
def _short_socket_path(path: Path) -> Iterator[str]:
    """Return a name for a socket within the kernel's 107 bytes, however deep its directory."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
