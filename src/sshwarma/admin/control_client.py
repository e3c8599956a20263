"""The client's end of the control socket: what a command asks of a server.

It imports little, because each command pays for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from sshwarma.common.limits import CONTROL_TIMEOUT_SECONDS, MAX_CONTROL_ANSWER_BYTES
from sshwarma.common.user_names import name_user
from sshwarma.world.errors import Unavailable, refusal_of_code

SOCKET_NAME: Final = "control.sock"

CREDENTIALS: Final = struct.Struct("3i")
"""SO_PEERCRED: process, user and group."""


class _ServerAnswer(dict[str, Any]):
    """An object of an answer; other versions make it with other keys."""

    def __missing__(self, key: str) -> NoReturn:
        raise Unavailable(
            f"The running server is of another version than this command: its answer has no {key}."
            " It may have done what was asked.",
            hint="Restart it to run this version, or run its own sshwarma.",
        )


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
            " it. When it goes on, it may still do this.",
        ) from None
    if not line.endswith(b"\n"):
        raise Unavailable(
            "The server closed the connection before it answered.",
            hint="It ended, or is of another version than this command: see its log.",
        )
    answer = json.loads(line, object_hook=_ServerAnswer)
    if "error" in answer:
        raise refusal_of_code(answer["error"], answer["message"], answer.get("hint", ""))
    return answer["result"]


def _check_server_owner(writer: asyncio.StreamWriter, data_dir: Path) -> None:
    """Check that the server is the owner's of the data directory.

    Raises:
        Unavailable: if another user listens there, who would get the request.
    """
    _, server = read_peer(writer)
    owner = data_dir.stat().st_uid
    if server != owner:
        raise Unavailable(
            f"The socket in {data_dir} is one of {name_user(server)}, and the directory belongs to"
            f" {name_user(owner)}. Nothing was sent.",
            hint=f"Stop that process, or remove {data_dir / SOCKET_NAME}.",
        )


async def _exchange(path: Path, request: bytes) -> bytes:
    """Send a request and return the line that answers it; connecting may wait, too."""
    with short_socket_path(path) as name:
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
def short_socket_path(path: Path) -> Iterator[str]:
    """Return a name of a socket within the kernel's 107 bytes, for any directory."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def read_peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Return process and user at the other end, as the kernel knows them."""
    link = writer.get_extra_info("socket")
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(credentials)
    return pid, uid
