"""Confinement of workers on foreign data: memory, CPU, files, processes, rights.

Each limit is a second line behind the sandbox of Lua, or behind the decoders of images. Limits the
system does not support are skipped: macOS has no address space limit, and only Linux has prctl. For
root, the limit on processes has no effect.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NO_NEW_PRIVS: Final = 38

MAX_WORKER_OPEN_FILES: Final = 3
"""File descriptors: stdin, stdout and stderr; no other file can be opened."""
NICE_LEVEL: Final = 5
"""Niceness: below the server, when both want the CPU."""
CPU_GRACE_SECONDS: Final = 2
"""Seconds of CPU time beyond a run's own, for a server too busy to stop it."""

_libc = ctypes.CDLL(None)


def confine_process(memory: int) -> None:
    """Drop rights irrevocably: only the three standard streams stay open.

    `memory` is bytes of address space over the present use.
    """
    if sys.platform == "linux":
        _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        _set_limit(resource.RLIMIT_AS, _address_space_bytes() + memory)
    with contextlib.suppress(OSError):
        os.nice(NICE_LEVEL)
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, 0)
    _set_limit(resource.RLIMIT_NOFILE, MAX_WORKER_OPEN_FILES)
    _set_limit(resource.RLIMIT_NPROC, 0)


def extend_cpu_limit(seconds: float) -> None:
    """Allow `seconds` more of CPU time, then the process is killed (SIGXCPU)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = math.ceil(usage.ru_utime + usage.ru_stime + seconds) + CPU_GRACE_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, hard))


def release_free_memory() -> None:
    """Return free memory to the system, where the C library can do that (glibc)."""
    if sys.platform == "linux" and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def _set_limit(resource_id: int, value: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource_id, (value, value))


def _address_space_bytes() -> int:
    """Bytes of address space this process has now."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        pages = int(file.read().split()[0])
    return pages * resource.getpagesize()
