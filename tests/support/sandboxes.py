"""Sandboxes for tests, where bubblewrap is installed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import SandboxProgram
from sshwarma.world.resources import resource_dir

SECONDS: Final = 30

USER: Final = SandboxUser("ann")

ACCOUNTS: Final = resource_dir("embedded") / "sandbox"

_FILTER_SECONDS: Final = 5.0

_ADD_FILTER: Final = """
import ctypes, struct, sys
code = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7fff0000))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(1, ctypes.addressof(code))
prctl = ctypes.CDLL(None).prctl
sys.exit(prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(program), 0, 0))
"""

_stuck: list[subprocess.Popen[bytes]] = []
"""Processes that a stuck kernel does not end: nobody waits for them."""


@cache
def takes_filters() -> bool:
    """Return whether the kernel takes a filter; one that is stuck never answers."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", _ADD_FILTER])
    try:
        return process.wait(_FILTER_SECONDS) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        _stuck.append(process)
        return False


needs_filters: Final = pytest.mark.skipif(
    not takes_filters(), reason="needs a kernel that takes filters of system calls"
)

needs_bubblewrap: Final = pytest.mark.skipif(
    shutil.which("bwrap") is None or not takes_filters(),
    reason="needs bubblewrap (apt-get install bubblewrap) and a kernel that takes filters",
)


async def run(host: SandboxHost, ws: Path | None, script: str, shell: str = "bash") -> str:
    """Run a script and return what it printed, with the limit that ended it."""
    words = [f"/bin/{shell}", "-c", script]
    program = SandboxProgram(Profile(ws), words, cpu_seconds=20, merge_errors=True)
    async with host.run(program, USER) as sandbox:
        assert sandbox.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            printed = (await sandbox.process.stdout.read()).decode(errors="replace")
            ending = await sandbox.wait()
    return printed + (f"[{ending.excess}]" if ending.excess else "")


async def python(host: SandboxHost, ws: Path | None, script: str) -> str:
    if ws is not None:
        (ws / "script.py").write_text(script)
    return await run(host, ws, "python3 script.py")
