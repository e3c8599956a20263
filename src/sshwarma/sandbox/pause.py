"""Stopping all processes of a sandbox for a moment, to measure them.

A signal to all of a process namespace is one step for the kernel, in which no process can begin.
It can only be sent from inside, and only a process with one thread can go there: so a helper does.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_HELPER: Final = """
import ctypes, fcntl, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
processes = int(sys.argv[1])
owner = fcntl.ioctl(processes, 0xB701)  # NS_GET_USERNS
for namespace in (owner, processes):
    if libc.setns(namespace, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
def send(number):
    if (child := os.fork()) == 0:
        try:
            os.kill(-1, number)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
try:
    send(signal.SIGSTOP)
    print("stopped", flush=True)
    sys.stdin.read()
finally:
    send(signal.SIGCONT)
"""
"""It stops them, and continues them when its input ends."""


@contextlib.contextmanager
def pause(init: int) -> Iterator[bool]:
    """Stop all processes of a sandbox but the first; give whether that worked.

    They may still run for a moment. One that had been stopped before runs again afterwards.

    Raises:
        FileNotFoundError: if the sandbox has ended.
    """
    with contextlib.ExitStack() as stack:
        namespace = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, namespace)
        # The number of a process that has ended may be another's by now.
        if os.path.samestat(os.fstat(namespace), Path("/proc/self/ns/pid").stat()):
            raise FileNotFoundError(f"sandbox {init} has ended")
        helper = stack.enter_context(_start(namespace))
        assert helper.stdin and helper.stdout and helper.stderr  # noqa: S101 - for mypy
        is_paused = helper.stdout.readline() == b"stopped\n"
        if not is_paused and Path(f"/proc/{init}/root/proc").exists():
            said = helper.stderr.read().decode(errors="replace").strip()
            log.warning("a sandbox could not be stopped to measure it", reason=said[-200:])
        yield is_paused


def _start(namespace: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-I", "-S", "-c", _HELPER, str(namespace)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        pass_fds=[namespace], env={}, cwd="/",
    )  # fmt: skip
