"""Processes that a server has started."""

from __future__ import annotations

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
