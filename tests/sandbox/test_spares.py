"""Sandboxes that wait for a call: used once, for their own profile, and ended."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typing_extensions import override

from sshwarma.sandbox import spares as spares_module
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Sandbox, SandboxProgram
from sshwarma.sandbox.spares import SpareSandboxes
from support.sandboxes import ACCOUNTS, SECONDS, USER, needs_bubblewrap
from support.waiting import until

pytestmark = [pytest.mark.process, needs_bubblewrap]


def make_program(profile: Profile) -> SandboxProgram:
    words = ["/bin/sh", "-c", "echo ready; exec cat"]
    return SandboxProgram(profile, words, cpu_seconds=10, has_input=True)


class RecordingHost(SandboxHost):
    """A host that remembers the spare sandboxes that it started."""

    def __init__(self, *args: Path) -> None:
        super().__init__(*args)
        self.spares: list[Sandbox] = []

    @override
    async def start_spare(self, program: SandboxProgram) -> Sandbox:
        sandbox = await super().start_spare(program)
        self.spares.append(sandbox)
        return sandbox


@pytest.fixture
async def host(tmp_path: Path) -> RecordingHost:
    made = RecordingHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    assert await made.check() is None
    return made


@pytest.fixture
async def spares(host: RecordingHost) -> AsyncIterator[SpareSandboxes]:
    made = SpareSandboxes(host)
    yield made
    await made.end_all()
    assert not made
    assert all(sandbox.has_ended for sandbox in host.spares)


async def prepare(host: RecordingHost, spares: SpareSandboxes, profile: Profile) -> Sandbox:
    """Prepare a sandbox for a profile; return it when its program runs."""
    before = len(host.spares)
    spares.prepare(make_program(profile))
    await until(lambda: len(host.spares) > before)
    sandbox = host.spares[-1]
    assert await read_line(sandbox) == "ready\n"  # its directories are mounted
    return sandbox


async def read_line(sandbox: Sandbox) -> str:
    assert sandbox.process.stdout is not None
    async with asyncio.timeout(SECONDS):
        return (await sandbox.process.stdout.readline()).decode()


async def echo(
    host: RecordingHost, spares: SpareSandboxes, profile: Profile
) -> tuple[str, Sandbox]:
    """Run a program of a profile, or the one that waits; return what it answers."""
    async with host.run(make_program(profile), USER, take_spare=spares.take) as sandbox:
        if sandbox not in host.spares:
            assert await read_line(sandbox) == "ready\n"
        sandbox.stdin.write(b"hello\n")
        return await read_line(sandbox), sandbox


async def test_spare_is_used_once_and_by_its_own_profile(
    host: RecordingHost, spares: SpareSandboxes, ws: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    spare = await prepare(host, spares, Profile(ws))
    assert spares.take(Profile(other)) is None and len(spares) == 1
    said, used = await echo(host, spares, Profile(ws))
    assert said == "hello\n" and used is spare and used.has_ended and len(spares) == 0
    said, fresh = await echo(host, spares, Profile(ws))
    assert said == "hello\n" and fresh is not used


@pytest.mark.parametrize("what", ["workspace", "mount", "dead"])
async def test_spare_with_earlier_files_is_not_used(
    host: RecordingHost, spares: SpareSandboxes, ws: Path, tmp_path: Path, what: str
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    profile = Profile(ws, mounts={"/ts": code})
    spare = await prepare(host, spares, profile)
    if what == "dead":
        await spare.stop()
    else:
        replaced = ws if what == "workspace" else code
        shutil.rmtree(replaced)
        replaced.mkdir()
    assert spares.take(profile) is None
    await spares.end_all()
    assert spare.has_ended
    assert (await echo(host, spares, profile))[0] == "hello\n"


async def test_spares_end_by_themselves_and_the_oldest_first(
    host: RecordingHost, spares: SpareSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares_module, "MAX_SPARE_SANDBOXES", 2)
    folders = [tmp_path / f"{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    for folder in folders:
        await prepare(host, spares, Profile(folder))
    assert len(spares) == 2 and spares.take(Profile(folders[0])) is None
    monkeypatch.setattr(spares_module, "SPARE_SANDBOX_SECONDS", 0.05)
    spares.prepare(make_program(Profile(folders[0])))  # it may be gone before it is seen
    await until(lambda: len(host.spares) == 4 and len(spares) == 1)
