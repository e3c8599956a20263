"""Sandboxes for tests, where bubblewrap is installed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest

from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.sandbox.profile import Profile
from sshwarma.world.resources import resource_dir

SECONDS: Final = 30

USER: Final = SandboxUser("ann")

ACCOUNTS: Final = resource_dir("embedded") / "sandbox"

needs_bubblewrap: Final = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"
)


async def run(host: SandboxHost, ws: Path | None, script: str, shell: str = "bash") -> str:
    """Run a script and return what it printed, with the limit that ended it."""
    async with host.run(
        Profile(ws), [f"/bin/{shell}", "-c", script], USER, cpu_seconds=20, merge_errors=True
    ) as sandbox:
        assert sandbox.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            printed = (await sandbox.process.stdout.read()).decode(errors="replace")
            ending = await sandbox.wait()
    return printed + (f"[{ending.excess}]" if ending.excess else "")


async def python(host: SandboxHost, ws: Path | None, script: str) -> str:
    if ws is not None:
        (ws / "script.py").write_text(script)
    return await run(host, ws, "python3 script.py")
