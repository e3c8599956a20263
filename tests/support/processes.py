"""Processes that a server has started."""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.driver import Server


def programs_of(server: Server) -> list[int]:
    """The programs that the server's launchers have started."""
    launchers = children_of(server.process.pid, b"spawn.py")
    return [pid for launcher in launchers for pid in children_of(launcher, b"")]


def children_of(parent: int, word: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(status[1]) == parent and word in line:
                found.append(int(entry.name))
    return found


def used_cpu_seconds() -> float:
    """CPU time of this process and of its children that run, such as workers."""
    files = [Path(f"/proc/{pid}/stat") for pid in children_of(os.getpid(), b"")]
    times = (stat.read_text().rpartition(")")[2].split()[11:13] for stat in files)
    ticks = sum(int(count) for one in times for count in one)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
