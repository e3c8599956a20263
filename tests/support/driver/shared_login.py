"""Runs commands over a shared ssh login, by OpenSSH's multiplexing protocol.

`ssh -o ControlPath=...` is a process for each command, which asks the client that is logged in to
do the work. This asks that client itself, in a tenth of the time; what goes to the server is the
same. See PROTOCOL.mux of OpenSSH.
"""

from __future__ import annotations

import array
import contextlib
import os
import selectors
import socket
import struct
import time
from pathlib import Path

HELLO, VERSION = 0x00000001, 4
NEW_SESSION = 0x10000002
EXIT_MESSAGE, SESSION_OPENED = 0x80000004, 0x80000006
NO_ESCAPE_CHARACTER = 0xFFFFFFFF
NO_EXIT_STATUS = 255  # what ssh gives then
CHUNK_BYTES = 65536


class LoginNotShared(Exception):
    """No client shares that login, or it could not open the session."""


def run_shared(
    control: Path, command: bytes, stdin: bytes, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a command over a control socket's login; return status, output and errors.

    Raises:
        LoginNotShared: if nothing was run.
        TimeoutError: if it does not end in time.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as ends, socket.socket(socket.AF_UNIX) as link:
        link.settimeout(seconds)
        try:
            link.connect(str(control))
            _send(link, struct.pack(">II", HELLO, VERSION))
            _receive(link)
            theirs, ours = [], []
            for number in range(3):
                reads, writes = os.pipe()
                theirs.append(reads if number == 0 else writes)
                ours.append(writes if number == 0 else reads)
            open_ends = {*theirs, *ours}
            ends.callback(lambda: [os.close(fd) for fd in open_ends])
            _send(link, _session_request(command))
            for fd in theirs:
                link.sendmsg(
                    [b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
                )
            kind = struct.unpack_from(">I", _receive(link))[0]
        except OSError as error:
            raise LoginNotShared(str(error)) from None
        if kind != SESSION_OPENED:
            raise LoginNotShared(f"the client answered {kind:#x}")
        for fd in theirs:
            os.close(fd)
            open_ends.discard(fd)
        output = _exchange(ours, stdin, deadline, open_ends)
        return _read_status(link), output[ours[1]], output[ours[2]]


def _session_request(command: bytes) -> bytes:
    no_tty_x11_agent_subsystem = (0, 0, 0, 0)
    return (
        struct.pack(">II", NEW_SESSION, 0)
        + _string(b"")
        + struct.pack(">5I", *no_tty_x11_agent_subsystem, NO_ESCAPE_CHARACTER)
        + _string(b"")
        + _string(command)
    )


def _exchange(
    ours: list[int], stdin: bytes, deadline: float, open_ends: set[int]
) -> dict[int, bytes]:
    """Write the input and read both outputs, until the other side closed all three."""
    output = {ours[1]: b"", ours[2]: b""}
    left = memoryview(stdin)
    os.set_blocking(ours[0], False)
    with selectors.DefaultSelector() as selector:
        selector.register(ours[0], selectors.EVENT_WRITE)
        for fd in output:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError("the command did not end")
            for key, _ in ready:
                fd, over = key.fd, False
                if fd == ours[0]:
                    try:
                        left = left[os.write(fd, left) :] if left else left
                    except BrokenPipeError:
                        left = left[:0]
                    over = not left
                else:
                    data = os.read(fd, CHUNK_BYTES)
                    output[fd] += data
                    over = not data
                if over:
                    selector.unregister(fd)
                    os.close(fd)
                    open_ends.discard(fd)
    return output


def _read_status(link: socket.socket) -> int:
    status = NO_EXIT_STATUS
    with contextlib.suppress(ConnectionError):
        while True:
            answer = _receive(link)
            if struct.unpack_from(">I", answer)[0] == EXIT_MESSAGE:
                status = struct.unpack_from(">III", answer)[2]
    return status


def _string(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _send(link: socket.socket, packet: bytes) -> None:
    link.sendall(_string(packet))


def _receive(link: socket.socket) -> bytes:
    (length,) = struct.unpack(">I", _receive_exactly(link, 4))
    return _receive_exactly(link, length)


def _receive_exactly(link: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = link.recv(length - len(data))
        if not part:
            raise ConnectionError("the client closed the connection")
        data += part
    return data
