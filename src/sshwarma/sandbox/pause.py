"""Stopping all processes of a sandbox for a moment, to measure them.

A signal to all of a process namespace is one step for the kernel, in which no process can begin.
It can only be sent from inside, and only a process with one thread can go there: so a helper does.
What it starts inside can be stopped by the programs there, so that it gets a moment and no more.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_ENTER_SECONDS: Final = 5.0
"""Until the helper has started and entered: it takes 25 ms, and longer on a busy machine. Nothing
inside can reach it until then."""

_SIGNAL_SECONDS: Final = 1.0
"""Until a signal is sent to all, which a program inside can prevent."""

_HELPER: Final = """
import ctypes, fcntl, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
processes = int(sys.argv[1])
owner = fcntl.ioctl(processes, 0xB701)  # NS_GET_USERNS
for namespace in (owner, processes):
    if libc.setns(namespace, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
print("entered", flush=True)
def send(number):
    if (child := os.fork()) == 0:
        try:
            os.kill(-1, number)
        finally:
            os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("a program ended what should send a signal")
try:
    send(signal.SIGSTOP)
    print("stopped", flush=True)
    sys.stdin.read()
finally:
    send(signal.SIGCONT)
"""
"""It stops them, and continues them when its input ends."""


class PauseError(Exception):
    """A signal was not sent: a program inside has prevented it."""


@contextlib.contextmanager
def pause(init: int) -> Iterator[bool]:
    """Stop all processes of a sandbox but the first; give whether that worked.

    They may still run for a moment. One that had been stopped before runs again afterwards.

    Raises:
        FileNotFoundError: if the sandbox has ended.
        PauseError: if they could not be stopped or continued in time; they may be stopped
            then, and the sandbox has to be ended.
    """
    with contextlib.ExitStack() as stack:
        namespace = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, namespace)
        # The number of a process that has ended may be another's by now.
        if os.path.samestat(os.fstat(namespace), Path("/proc/self/ns/pid").stat()):
            raise FileNotFoundError(f"sandbox {init} has ended")
        helper = stack.enter_context(_start(namespace))
        stack.callback(helper.kill)  # before it is waited for
        assert helper.stdin and helper.stdout and helper.stderr  # noqa: S101 - for mypy
        output = helper.stdout.fileno()
        is_paused = (
            _read_line(output, _ENTER_SECONDS) == b"entered\n"
            and _read_line(output, _SIGNAL_SECONDS) == b"stopped\n"
        )
        if not is_paused and Path(f"/proc/{init}/root/proc").exists():
            said = _read_ready(helper.stderr.fileno()).decode(errors="replace").strip()
            log.warning("a sandbox could not be stopped to measure it", reason=said[-200:])
        yield is_paused
        if is_paused:
            helper.stdin.close()
            _wait(helper)


def _read_line(output: int, seconds: float) -> bytes:
    """Return the next line of the helper, which is short; b"" if it has ended.

    Raises:
        PauseError: if it does not come in time.
    """
    line = b""
    end = time.monotonic() + seconds
    ready = select.poll()
    ready.register(output, select.POLLIN)
    while not line.endswith(b"\n"):
        if not ready.poll(1_000 * max(end - time.monotonic(), 0)):
            raise PauseError
        if not (part := os.read(output, 1)):
            break
        line += part
    return line


def _read_ready(errors: int) -> bytes:
    """Return what can be read now.

    What the helper started inside may keep a pipe open.
    """
    os.set_blocking(errors, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(errors, 4096)
    return b""


def _wait(helper: subprocess.Popen[bytes]) -> None:
    """Wait until all were continued.

    Raises:
        PauseError: if that has failed.
    """
    try:
        status = helper.wait(_SIGNAL_SECONDS)
    except subprocess.TimeoutExpired:
        raise PauseError from None
    if status:
        raise PauseError


def _start(namespace: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-I", "-S", "-c", _HELPER, str(namespace)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        pass_fds=[namespace], env={}, cwd="/",
    )  # fmt: skip
