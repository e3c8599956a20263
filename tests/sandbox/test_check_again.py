"""A host that checks sandboxes again after somebody has removed an obstacle."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from sshwarma.sandbox import host as host_module
from sshwarma.sandbox.bubblewrap import SandboxObstacle
from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import ACCOUNTS, needs_bubblewrap
from support.waiting import until

MISSING = SandboxObstacle("bubblewrap is not installed", "install it")


@pytest.mark.process
@needs_bubblewrap
async def test_sandboxes_work_when_bubblewrap_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    checks = 0

    def find_nothing() -> SandboxObstacle:
        nonlocal checks
        checks += 1
        return MISSING

    monkeypatch.setattr(host_module, "CHECK_AGAIN_SECONDS", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(host_module, "find_bubblewrap", find_nothing)
        assert await host.check() == MISSING
        watching = asyncio.create_task(host.watch())
        await until(lambda: checks == 3)
        assert host.obstacle == MISSING
    with structlog.testing.capture_logs() as logged:
        await until(lambda: host.obstacle is None)
        await until(lambda: logged)
    watching.cancel()
    await asyncio.wait({watching})
    assert [entry["event"] for entry in logged] == ["sandbox works"]


async def test_stuck_kernel_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    asked = 0

    async def read_version(*_: object) -> str:
        nonlocal asked
        asked += 1
        raise host_module._StuckError

    monkeypatch.setattr(host_module, "find_bubblewrap", lambda: Path("/usr/bin/bwrap"))
    monkeypatch.setattr(host_module, "_read_version", read_version)
    monkeypatch.setattr(host_module, "CHECK_AGAIN_SECONDS", 0.0)
    obstacle = await host.check()
    assert obstacle is not None and "did not answer" in obstacle.reason
    watching = asyncio.create_task(host.watch())
    for _ in range(20):
        await asyncio.sleep(0)
    watching.cancel()
    await asyncio.wait({watching})
    assert asked == 1
