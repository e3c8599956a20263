"""Launcher of a program that must not outlive the server.

It runs as a file, with a bare interpreter.

`spawn.py PARENT MEMORY PROGRAM ARGUMENTS...` waits for the program, which gets its own process
group and limits: MEMORY bytes of data, MAX_SERVER_OPEN_FILES files, no core dump, no new
privileges. When the program ends, the launcher kills the rest of its group. On SIGTERM from the
parent it terminates the group, and kills it after GRACE_SECONDS. When the parent dies, which the
kernel signals, it kills the group at once. It imports nothing of the package, so that it starts
quickly.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
MAX_SERVER_OPEN_FILES = 1024
GRACE_SECONDS = 2.0


def main() -> int:
    """Run the program and return its exit status as a shell reports it."""
    parent, memory, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    signals = {signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT}
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        return 1
    child = os.fork()
    if child == 0:
        _exec_program(command, memory, old_mask)
    with contextlib.suppress(OSError):  # parent and child both try; the second one fails
        os.setpgid(child, child)
    for end in (0, 1):
        os.close(end)  # otherwise the pipes would stay open after the program closes its ends
    return _wait_for_child(parent, child, signals)


def _exec_program(command: list[str], memory: int, mask: Iterable[int]) -> None:
    try:
        os.setpgid(0, 0)
        _die_with_parent(signal.SIGKILL)
        _set_limits(memory)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _set_limits(memory: int) -> None:
    """Set the limits of each process.

    Memory is limited as data (RLIMIT_DATA), because runtimes reserve far more address space than
    they use.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: MAX_SERVER_OPEN_FILES}
    for limit, value in {**limits, resource.RLIMIT_DATA: memory}.items():
        with contextlib.suppress(ValueError, OSError):  # the current limit is already lower
            resource.setrlimit(limit, (value, value))


def _wait_for_child(parent: int, child: int, watched: set[signal.Signals]) -> int:
    kill_at = None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            _signal_group(child, signal.SIGKILL)
            return _shell_status(status)
        if os.getppid() != parent:
            _signal_group(child, signal.SIGKILL)
            return 1
        if kill_at is None:
            signal_number: int | None = signal.sigwait(watched)
        else:
            info = signal.sigtimedwait(watched, max(0.0, kill_at - time.monotonic()))
            signal_number = info.si_signo if info else None
        if signal_number is None:
            _signal_group(child, signal.SIGKILL)
            kill_at = time.monotonic() + GRACE_SECONDS
        elif signal_number != signal.SIGCHLD and kill_at is None:
            kill_at = time.monotonic() + GRACE_SECONDS
            _signal_group(child, signal.SIGTERM)


def _signal_group(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


def _shell_status(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _die_with_parent(how: signal.Signals) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(how), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
