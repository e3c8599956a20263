"""The process of one clone, fetch or push, which reads what strangers send.

`host` starts it. It uses dulwich and little of this program, drops its rights, and ends with the
server or with its connection. No git program runs, and nothing is read from the network.

In: a line of JSON (see `main`), a line for each version that the repository lacks, an empty line,
and then what the client sends. Out: frames (`frames`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import resource
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dulwich.errors import ChecksumMismatch, GitProtocolError, HangupException

from sshwarma.common.confine import (
    NICE_LEVEL,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
)
from sshwarma.common.units import KIB
from sshwarma.git.frames import DATA, HEAD, STATE
from sshwarma.git.packs import DamagedContentError
from sshwarma.git.receive import ReceiveRequest, receive_push
from sshwarma.git.service_names import FETCH
from sshwarma.git.upload import SideBandProtocol, serve_upload
from sshwarma.git.view import DamagedViewError, View

MAX_WORKER_OPEN_FILES: Final = 512
"""Packs and their indexes, which stay open."""

CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
"""Flags of unshare(2): a user namespace, and a network namespace, which has no network."""

READ_BYTES: Final = 64 * KIB
"""Bytes of input that are read at once."""

FLUSH_BYTES: Final = 32 * KIB
"""Bytes of output that are sent at once."""


class FramePipe:
    """Standard input and output: data of the client, and states for the server."""

    def __init__(self) -> None:
        self._input = io.BufferedReader(io.FileIO(0, "rb", closefd=False), READ_BYTES)
        self._output = sys.stdout.buffer
        self._waiting = bytearray()

    def read_request(self) -> dict[str, Any]:
        """Return what the server asks for."""
        request: dict[str, Any] = json.loads(self._input.readline())
        return request

    def read_versions(self) -> Iterator[dict[str, Any]]:
        """Yield what the server says of each version."""
        while (line := self._input.readline()) not in (b"\n", b""):
            yield json.loads(line)

    def read(self, size: int) -> bytes:
        """Return that many bytes of the client; fewer at the end."""
        self.flush()
        return self._input.read(size)

    def read_some(self, size: int) -> bytes:
        """Return what has come of the client, at most that many bytes; none at the end."""
        self.flush()
        return self._input.read1(size)

    def write(self, data: bytes) -> None:
        """Send data to the client."""
        self._waiting += data
        if len(self._waiting) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._send(DATA, data)

    def report(self, state: str, **details: Any) -> None:
        """Tell the server something."""
        self.flush()
        self._send(STATE, json.dumps({"state": state, **details}, ensure_ascii=False).encode())

    def _send(self, kind: bytes, body: bytes) -> None:
        self._output.write(HEAD.pack(kind, len(body)))
        self._output.write(body)
        self._output.flush()


def main() -> None:
    """Serve one client.

    The request has `service`, `repository`, `blobs`, `work`, `base` (the version that the
    repository has), `merges` (whether nobody else uses it), and the limits `memory` in bytes,
    `cpu_seconds`, `file_bytes`, `push_bytes`, `push_objects`, `unpacked_bytes`, `files`,
    `workspace_file_bytes` and `workspace_bytes`.
    """
    pipe = FramePipe()
    request = pipe.read_request()
    _confine(request)
    try:
        _serve(pipe, request)
    except BrokenPipeError:
        os._exit(1)  # the server has gone
    except (GitProtocolError, HangupException) as error:
        pipe.report("broken", reason=str(error))
    except DamagedViewError as error:
        pipe.report("damaged", reason=str(error))
    except DamagedContentError as error:
        pipe.report("content", sha256=str(error))
    except MemoryError:
        pipe.report("memory")
    except OSError as error:
        reason = "disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
        pipe.report("failed", reason=reason)
    except Exception as error:  # noqa: BLE001 - dulwich raises anything for damaged objects
        pipe.report("damaged", reason=f"{type(error).__name__}: {error}")
    pipe.flush()
    os._exit(0)  # at once: dulwich's objects have nothing to do at their end


def _serve(pipe: FramePipe, request: dict[str, Any]) -> None:
    repository, work = Path(request["repository"]), Path(request["work"])
    view = View(repository, Path(request["blobs"]), work)
    if request["merges"]:
        view.merge_small_packs()
    head = view.update(request["base"], pipe.read_versions())
    pipe.report("ready", head=None if head is None else head.decode())
    protocol = SideBandProtocol(pipe.read, pipe.write)
    if request["service"] == FETCH:
        try:
            serve_upload(view.store, head, protocol)
        except (KeyError, FileNotFoundError, ChecksumMismatch, zlib.error) as error:
            raise DamagedViewError(f"an object is missing: {error}") from error
        except (AssertionError, TypeError, ValueError) as error:
            raise GitProtocolError(str(error)) from error  # a client that sends anything
        return
    push = ReceiveRequest(repository, work, head, request)
    accepted = receive_push(push, view.store, protocol, pipe.read_some)
    if accepted is not None:
        pipe.report("push", **accepted)


def _confine(request: dict[str, Any]) -> None:
    """Drop rights, and set limits. Memory is limited as data: packs are mapped.

    The network is taken away first, and only where the system allows that.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.unshare(CLONE_NEWNET) != 0:  # not root: some systems allow it in a user namespace
            libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.nice(NICE_LEVEL)
    os.umask(0o077)
    for limit, value in {
        resource.RLIMIT_DATA: request["memory"],
        resource.RLIMIT_CPU: request["cpu_seconds"],
        resource.RLIMIT_FSIZE: request["file_bytes"],
        resource.RLIMIT_NOFILE: MAX_WORKER_OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
    }.items():
        with contextlib.suppress(ValueError, OSError):  # the present limit is lower
            resource.setrlimit(limit, (value, value))
