"""A kernel that takes no filter any more keeps no server from starting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sshwarma.sandbox import host as host_module
from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import ACCOUNTS

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "trap '' TERM; sleep 99",
            "bubblewrap did not answer in 0 s: the kernel may take no filter",
        ),
        ("echo bubblewrap 0.3.0", "bubblewrap is bubblewrap 0.3.0"),
        ('[ "$1" = --version ] && echo bubblewrap 0.3.0', "bubblewrap is bubblewrap 0.3.0"),
        ("exit 1", "bubblewrap tells no version"),
    ],
)
async def test_program_that_does_not_answer_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    script = tmp_path / "bwrap"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o700)
    monkeypatch.setattr(host_module, "find_bubblewrap", lambda: script)
    monkeypatch.setattr(host_module, "PROBE_SECONDS", 0.4)
    host = SandboxHost(ACCOUNTS, tmp_path / "hidden", tmp_path / "devices")
    async with asyncio.timeout(20):
        obstacle = await host.check()
    assert obstacle is not None and obstacle.reason.startswith(reason)
