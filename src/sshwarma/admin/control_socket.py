"""Control socket: the operator's interface to a running server.

A Unix socket in the data directory, mode 0600. One request for each connection: a line of JSON
`{"op": NAME, "args": {…}}`, answered by a line `{"result": …}` or `{"error": CODE, "message": …,
"hint": …}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from sshwarma.admin.data_dir_owner import name_process_user, name_user
from sshwarma.common.limits import (
    CONTROL_TIMEOUT_SECONDS,
    MAX_CONTROL_ANSWER_BYTES,
    MAX_CONTROL_REQUEST_BYTES,
)
from sshwarma.common.os_errors import describe_os_error
from sshwarma.world.audit import operator
from sshwarma.world.errors import Invalid, Unavailable, WorldError
from sshwarma.world.reader import PERSON

log = structlog.get_logger(__name__)

SOCKET_NAME: Final = "control.sock"

CREDENTIALS: Final = struct.Struct("3i")
"""SO_PEERCRED: process, user and group."""

OperationHandler: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Runs an operation by name; see `operations.run_operation`."""


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
                answer = await self._answer_request(reader, _name_peer(writer))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, ConnectionError) as error:
            log.warning("a control request was not answered", error=repr(error))
        finally:
            writer.close()

    async def _answer_request(self, reader: asyncio.StreamReader, user: str) -> dict[str, Any]:
        try:
            operator.set(user)
            operation, args = _parse_request(await _read_line(reader))
            return {"result": await self._operate(operation, args)}
        except WorldError as error:
            return {"error": error.code, "message": error.message, "hint": error.hint_for(PERSON)}
        except TimeoutError:
            raise
        except OSError as error:  # such as a full disk
            log.error("a control request failed", reason=describe_os_error(error))
            return {"error": "unavailable", "message": describe_os_error(error), "hint": ""}
        except Exception:
            log.exception("a control request failed")
            return {
                "error": "internal",
                "message": "The server could not do this. Its log has the reason.",
                "hint": "",
            }


def _name_peer(writer: asyncio.StreamWriter) -> str:
    """Return the user of the process at the other end."""
    return name_process_user(*_read_peer(writer))


def _read_peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Return process and user at the other end, as the kernel knows them."""
    link = writer.get_extra_info("socket")
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(credentials)
    return pid, uid


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return one line.

    Raises:
        Invalid: if it is longer than MAX_CONTROL_REQUEST_BYTES.
    """
    try:
        return await reader.readline()
    except ValueError:
        raise Invalid(f"The request has over {MAX_CONTROL_REQUEST_BYTES} bytes.") from None


def _parse_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return the operation's name and its arguments.

    Raises:
        Invalid: if the line is not such a request.
    """
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise Invalid("The request is not JSON.") from None
    match request:
        case {"op": str(operation), "args": dict(args)}:
            return operation, args
    raise Invalid('The request must be {"op": NAME, "args": {…}}.')


async def send_request(
    data_dir: Path, op: str, args: dict[str, Any], seconds: float | None = None
) -> Any:
    """Run an operation in the running server.

    Waits for `seconds`, or CONTROL_TIMEOUT_SECONDS.

    Raises:
        ConnectionError, FileNotFoundError: if no server is running there.
        WorldError: the server's refusal; Unavailable if it does not answer.
    """
    seconds = CONTROL_TIMEOUT_SECONDS if seconds is None else seconds
    request = json.dumps({"op": op, "args": args}).encode() + b"\n"
    try:
        async with asyncio.timeout(seconds):
            line = await _exchange(data_dir / SOCKET_NAME, request)
    except TimeoutError:
        raise Unavailable(
            f"The server did not answer within {seconds:g} s.",
            hint="It is stopped or too busy: see its log, continue it with kill -CONT, or restart"
            " it.",
        ) from None
    if not line.endswith(b"\n"):
        raise Unavailable("The server ended before it answered.")
    answer = json.loads(line)
    if "error" in answer:
        raise WorldError(answer["message"], hint=answer.get("hint", ""))
    return answer["result"]


def _check_server_owner(writer: asyncio.StreamWriter, data_dir: Path) -> None:
    """Check that the server is the owner's of the data directory.

    Raises:
        Unavailable: if another user listens there, who would get the request.
    """
    _, server = _read_peer(writer)
    owner = data_dir.stat().st_uid
    if server != owner:
        raise Unavailable(
            f"The socket in {data_dir} is one of {name_user(server)}, and the directory belongs to"
            f" {name_user(owner)}. Nothing was sent.",
            hint=f"Stop that process, or remove {data_dir / SOCKET_NAME}.",
        )


async def _exchange(path: Path, request: bytes) -> bytes:
    """Send a request and return the line that answers it; connecting may wait, too."""
    with _short_socket_path(path) as name:
        reader, writer = await asyncio.open_unix_connection(name, limit=MAX_CONTROL_ANSWER_BYTES)
    try:
        _check_server_owner(writer, path.parent)
        writer.write(request)
        try:
            return await reader.readline()
        except ValueError:
            raise Unavailable(
                f"The answer has over {MAX_CONTROL_ANSWER_BYTES} bytes.", hint="Ask for less."
            ) from None
    finally:
        writer.close()


@contextlib.contextmanager
def _short_socket_path(path: Path) -> Iterator[str]:
    """Return a name of a socket within the kernel's 107 bytes, for any directory."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
