"""Sandboxes that wait for a call: used once, for their own profile, and ended."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from sshwarma.sandbox import spares as spares_module
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Sandbox
from sshwarma.sandbox.spares import SpareSandboxes
from support.sandboxes import SECONDS, USER, needs_bubblewrap
from support.waiting import wait_until

pytestmark = [pytest.mark.process, needs_bubblewrap]

CAT = ["/bin/cat"]


@pytest.fixture
async def spares(host: SandboxHost) -> AsyncIterator[SpareSandboxes]:
    made = SpareSandboxes(host)
    yield made
    await made.end_all()
    assert not made


async def prepare(spares: SpareSandboxes, *profiles: Profile) -> None:
    """Prepare a sandbox for each profile, and wait until they wait."""
    for profile in profiles:
        spares.prepare(profile, CAT, cpu_seconds=10)
        await asyncio.to_thread(wait_until, lambda: not spares._making)
    for spare in spares._waiting.values():  # its directories are mounted when it runs
        await asyncio.to_thread(wait_until, partial(is_running, spare.sandbox._init))


def is_running(init: int) -> bool:
    """Return whether the first process of a sandbox has started the program."""
    children = Path(f"/proc/{init}/task/{init}/children").read_text().split()
    return any(Path(f"/proc/{pid}/comm").read_text() == "cat\n" for pid in children)


async def echo(host: SandboxHost, spares: SpareSandboxes, profile: Profile) -> tuple[str, Sandbox]:
    """Run a program of a profile, or the one that waits; return what it answers."""
    async with host.run(
        profile, CAT, USER, cpu_seconds=10, stdin=True, take_spare=lambda: spares.take(profile)
    ) as sandbox:
        sandbox.stdin.write(b"hello\n")
        assert sandbox.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return (await sandbox.process.stdout.readline()).decode(), sandbox


async def test_spare_is_used_once_and_by_its_own_profile(
    host: SandboxHost, spares: SpareSandboxes, ws: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await prepare(spares, Profile(ws))
    assert spares.take(Profile(other)) is None and len(spares) == 1
    said, used = await echo(host, spares, Profile(ws))
    assert said == "hello\n" and used.has_ended and len(spares) == 0
    said, fresh = await echo(host, spares, Profile(ws))
    assert said == "hello\n" and fresh is not used


@pytest.mark.parametrize("what", ["workspace", "mount", "dead"])
async def test_spare_with_files_of_before_is_not_used(
    host: SandboxHost, spares: SpareSandboxes, ws: Path, tmp_path: Path, what: str
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    profile = Profile(ws, mounts={"/ts": code})
    await prepare(spares, profile)
    (spare,) = spares._waiting.values()
    if what == "dead":
        await spare.sandbox.stop()
    else:
        replaced = ws if what == "workspace" else code
        shutil.rmtree(replaced)
        replaced.mkdir()
    assert spares.take(profile) is None
    await spares.end_all()
    assert spare.sandbox.has_ended
    assert (await echo(host, spares, profile))[0] == "hello\n"


async def test_spares_end_by_themselves_and_the_oldest_first(
    host: SandboxHost, spares: SpareSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares_module, "MAX_SPARE_SANDBOXES", 2)
    folders = [tmp_path / f"{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    await prepare(spares, *map(Profile, folders))
    assert len(spares) == 2 and spares.take(Profile(folders[0])) is None
    monkeypatch.setattr(spares_module, "SPARE_SANDBOX_SECONDS", 0.05)
    spares.prepare(Profile(folders[0]), CAT, cpu_seconds=10)  # it may be gone before it is seen
    await asyncio.to_thread(wait_until, lambda: len(spares) == 1)
