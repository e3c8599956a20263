"""Control socket: the operator's interface to a running server; the server's end.

A Unix socket in the data directory, mode 0600. One request for each connection: a line of JSON
`{"op": NAME, "args": {…}}`, answered by a line `{"result": …}` or `{"error": CODE, "message": …,
"hint": …}`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from sshwarma.admin.control_client import SOCKET_NAME, read_peer, short_socket_path
from sshwarma.admin.data_dir_owner import name_process_user
from sshwarma.common.files import NamedFile
from sshwarma.common.limits import CONTROL_TIMEOUT_SECONDS, MAX_CONTROL_REQUEST_BYTES
from sshwarma.common.os_errors import describe_os_error
from sshwarma.world.audit import operator
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.reader import PERSON

log = structlog.get_logger(__name__)

OperationHandler: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Runs an operation by name; see `operations.run_operation`."""


class ControlServer:
    """The server's end of the socket."""

    def __init__(self, data_dir: Path, operate: OperationHandler) -> None:
        self._operate = operate
        self._path = data_dir / SOCKET_NAME
        self._server: asyncio.Server | None = None
        self._file: NamedFile | None = None

    async def start(self) -> None:
        """Listen on the socket; only this process's user can connect to it."""
        self._path.unlink(missing_ok=True)  # left by a server that was killed; we hold the lock
        with short_socket_path(self._path) as path:
            self._server = await asyncio.start_unix_server(
                self._serve_connection, path, limit=MAX_CONTROL_REQUEST_BYTES
            )
        self._path.chmod(0o600)
        self._file = NamedFile(self._path)

    @property
    def is_listening(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._server is not None

    async def replace_file(self) -> bool:
        """Listen again if the socket was deleted or replaced; return whether it was.

        Requests that run are answered.

        Raises:
            OSError: if it cannot be made.
        """
        if self._server is None or self._file is None or not self._file.is_lost:
            return False
        self._server.close()
        await self.start()
        return True

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
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
    return name_process_user(*read_peer(writer))


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
