"""Memory of the kernel that is nobody's, and looks that programs hold up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sshwarma.sandbox import pause as pause_module
from sshwarma.sandbox import run as run_module
from sshwarma.sandbox import watch
from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import needs_bubblewrap, run

pytestmark = [pytest.mark.process, needs_bubblewrap]

TOO_FAST = "[its processes changed too fast to be measured]"

STOPPED = "os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("os.kill(-1, number)", f"{STOPPED}; os.kill(-1, number)"),
        ("os.kill(-1, number)", "os.kill(os.getpid(), signal.SIGKILL)"),
        ("sys.stdin.read()", f"sys.stdin.read(); {STOPPED}"),
    ],
    ids=["stopped before it stops", "ended", "stopped before it continues"],
)
async def test_look_ends_though_its_helper_is_stopped(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """A program inside can stop and end what the helper starts there."""
    helper = pause_module._HELPER.replace(before, after)
    assert helper != pause_module._HELPER
    monkeypatch.setattr(watch, "_LOOKS", 0)
    monkeypatch.setattr(pause_module, "_SIGNAL_SECONDS", 0.2)
    monkeypatch.setattr(pause_module, "_HELPER", helper)
    assert await run(host, ws, "sleep 60") == TOO_FAST


async def test_look_that_does_not_end_keeps_no_thread_of_others(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, end = threading.Event(), threading.Event()

    def wait(*_: object) -> str:
        began.set()
        end.wait()
        return "it was looked at for long"

    monkeypatch.setattr(run_module, "find_excess", wait)
    with ThreadPoolExecutor(1) as threads:  # as many as file operations have
        asyncio.get_running_loop().set_default_executor(threads)
        running = asyncio.create_task(run(host, ws, "sleep 60"))
        try:
            while not began.is_set():  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0.01)
            async with asyncio.timeout(10):
                await asyncio.to_thread(int)
        finally:
            end.set()
        assert await running == "[it was looked at for long]"
