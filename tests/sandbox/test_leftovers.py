"""A server killed while it starts a sandbox: nothing runs without it, or stays."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from sshwarma.common.processes import start_program
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.leftovers import name_mark
from support.sandboxes import SECONDS, needs_bubblewrap, run
from support.waiting import until

pytestmark = [pytest.mark.process, needs_bubblewrap]

SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from sshwarma.sandbox import start
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import SandboxProgram
from support.sandboxes import ACCOUNTS, USER

moment, top = sys.argv[1], Path(sys.argv[2])

def end(process):
    print(process, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def start_and_stop(*command, _start=start.start_program, **options):
    process = await _start(*command, **options)
    os.kill(process.pid, signal.SIGSTOP)
    end(process.pid)

def wait_and_end(init, seconds):
    while "pipe_read" not in Path(f"/proc/{init}/wchan").read_text():
        pass
    end(init)

async def main():
    host = SandboxHost(ACCOUNTS, top, top / "devices")
    assert await host.check() is None
    if moment == "early":
        start.start_program = start_and_stop
    else:
        start._set_limits = wait_and_end
    command = ["/bin/sh", "-c", "touch /ws/ran; exec sleep 600"]
    program = SandboxProgram(Profile(top / "ws"), command, cpu_seconds=9)
    async with host.run(program, USER):
        pass

asyncio.run(main())
"""
"""A server that kills itself: `early`, or `late` when the child of bubblewrap waits."""


async def kill_server(moment: str, top: Path) -> int:
    """Kill a server while it starts a sandbox; return the process that it printed."""
    server = await start_program(
        *(sys.executable, "-c", SERVER, moment, str(top)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert server.stdout is not None
    async with asyncio.timeout(SECONDS):
        left = int(await server.stdout.readline())
        assert await server.wait() == -signal.SIGKILL
    return left


def has_marked(top: Path) -> bool:
    name = name_mark(top / "devices")
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if name in str(file.readlink()):
                return True
        except OSError:
            continue
    return False


async def test_killed_server_leaves_no_program_without_limits(host: SandboxHost, ws: Path) -> None:
    init = await kill_server("late", ws.parent)
    waits = Path(f"/proc/{init}/wchan")
    await until(lambda: (ws / "ran").exists() or "pipe_read" in waits.read_text())
    assert not (ws / "ran").exists()
    await host.end_leftovers()
    assert not has_marked(ws.parent)
    assert not (ws / "ran").exists()


async def test_child_of_bubblewrap_that_has_ended_is_ended(host: SandboxHost, ws: Path) -> None:
    """It gets no word from bubblewrap, which could not report to the server any more."""
    os.kill(await kill_server("early", ws.parent), signal.SIGCONT)
    await host.end_leftovers()
    assert not has_marked(ws.parent)


async def test_sandboxes_of_another_server_stay(
    host: SandboxHost, ws: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = SandboxHost(ws, ws, tmp_path_factory.mktemp("other") / "devices")
    running = asyncio.create_task(
        run(host, ws, "touch begun; until test -e go; do sleep 0.01; done")
    )
    await until((ws / "begun").exists)
    await other.end_leftovers()
    (ws / "go").touch()
    assert await running == ""


async def test_mark_is_not_seen_by_programs_and_cannot_be_written(
    host: SandboxHost, ws: Path
) -> None:
    script = (
        "ls -l /proc/self/fd | grep -c memfd; for f in /proc/1/fd/*; do case $(readlink $f) in"
        " */memfd:*) (echo x > $f) 2>/dev/null || echo refused;; esac; done"
    )
    assert await run(host, ws, script) == "0\nrefused\n"
