"""uv within its limits: what it writes, how long it runs, and what is left of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from sshwarma.common.processes import end_launched
from sshwarma.toolsets import uv
from sshwarma.world.errors import Invalid, Unavailable
from support.waiting import wait_until

pytestmark = pytest.mark.process

FLOOD = """#!/bin/sh
echo $$ > {scratch}/pid
while :; do head -c 100000 /dev/zero > {scratch}/$(date +%N); done
"""

SEEDS = """#!/bin/sh
i=0; while [ $i -lt 300 ]; do : > {scratch}/$i; i=$((i+1)); done; echo done
"""

SLEEP = "#!/bin/sh\necho $$ > {scratch}/pid\nexec sleep 60\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path, script: str) -> None:
    """Let a script be uv."""
    program = tmp_path / "uv"
    program.write_text(script.format(scratch=scratch))
    program.chmod(0o755)
    monkeypatch.setattr(uv, "_find_uv", lambda: str(program))


def is_gone(scratch: Path) -> bool:
    try:
        os.kill(int((scratch / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


async def test_flood_of_packages_is_ended_while_it_comes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path
) -> None:
    use(monkeypatch, tmp_path, scratch, FLOOD)
    monkeypatch.setattr(uv, "MAX_TOOLSET_PACKAGES_BYTES", 1 << 20)
    with pytest.raises(Invalid, match="The packages are too large"):
        await uv.run_uv(("pip",), "", scratch)
    await asyncio.to_thread(wait_until, lambda: is_gone(scratch))


async def test_many_small_files_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path
) -> None:
    use(monkeypatch, tmp_path, scratch, SEEDS)
    monkeypatch.setattr(uv, "MAX_TOOLSET_PACKAGES_FILES", 100)
    with pytest.raises(Invalid, match="too many files"):
        await uv.run_uv(("pip",), "", scratch)
    monkeypatch.setattr(uv, "MAX_TOOLSET_PACKAGES_FILES", 1000)
    assert await uv.run_uv(("pip",), "", scratch) == "done\n"


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_uv_ends_with_its_time_and_its_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path, how: str
) -> None:
    use(monkeypatch, tmp_path, scratch, SLEEP)
    if how == "timeout":
        monkeypatch.setattr(uv, "TOOLSET_PACKAGES_SECONDS", 1.0)
        with pytest.raises(Unavailable, match="were not installed in 1 s"):
            await uv.run_uv(("pip",), "", scratch)
    else:
        running = asyncio.create_task(uv.run_uv(("pip",), "", scratch))
        await asyncio.to_thread(wait_until, lambda: (scratch / "pid").exists())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await asyncio.to_thread(wait_until, lambda: is_gone(scratch))


async def test_uv_that_is_stopped_twice_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path
) -> None:
    ends, may_end = asyncio.Event(), asyncio.Event()

    async def end_later(*arguments: Any) -> None:
        ends.set()
        await may_end.wait()
        await end_launched(*arguments)

    use(monkeypatch, tmp_path, scratch, SLEEP)
    monkeypatch.setattr(uv, "end_launched", end_later)
    running = asyncio.create_task(uv.run_uv(("pip",), "", scratch))
    await asyncio.to_thread(wait_until, (scratch / "pid").exists)
    running.cancel()
    await asyncio.wait_for(ends.wait(), 30)
    running.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_gone(scratch)
