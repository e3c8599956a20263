"""Groups that limit the processes of a server that runs as root."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sshwarma.common.limits import MAX_SANDBOX_PROCESSES
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.process_groups import ProcessGroups, find_process_groups
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import SandboxProgram
from support.sandboxes import USER, needs_bubblewrap

BOMB = """
import os, time
for _ in range(20):
    try:
        os.fork()
    except BlockingIOError:
        break
time.sleep(60)
"""
"""Each process starts others, and so do those: a million, if nothing stops them."""


def mount(kind: str, at: Path, options: str = "rw", root: str = "/") -> str:
    return f"30 23 0:26 {root} {at} rw,nosuid shared:4 - {kind} {kind} {options}\n"


def test_first_version_is_used_below_the_own_group(tmp_path: Path) -> None:
    (tmp_path / "pids" / "own").mkdir(parents=True)
    mounts, groups = tmp_path / "mounts", tmp_path / "groups"
    mounts.write_text(mount("cgroup", tmp_path / "pids", "rw,pids") + mount("tmpfs", tmp_path))
    groups.write_text("8:pids:/own\n4:memory:/other\n0::/\n")
    assert find_process_groups("x", mounts, groups) == ProcessGroups(tmp_path / "pids/own", "x")
    mounts.write_text(mount("cgroup", tmp_path / "pids", "rw,memory"))
    assert find_process_groups("x", mounts, groups) is None


@pytest.mark.parametrize(
    ("own", "root", "enabled", "found"),
    [
        ("/system.slice/it.service", "/", "cpu pids", "system.slice"),
        ("/system.slice/it.service", "/", "cpu", "system.slice"),  # it is enabled
        ("/", "/", "pids", ""),
        ("/docker/c1/in", "/docker/c1", "pids", ""),
    ],
)
def test_second_version_is_used_beside_the_own_group(
    tmp_path: Path, own: str, root: str, enabled: str, found: str
) -> None:
    parent = tmp_path / found
    parent.mkdir(exist_ok=True)
    (parent / "cgroup.subtree_control").write_text(enabled)
    mounts, groups = tmp_path / "mounts", tmp_path / "groups"
    mounts.write_text(mount("cgroup2", tmp_path, root=root))
    groups.write_text(f"0::{own}\n")
    assert find_process_groups("x", mounts, groups) == ProcessGroups(parent, "x")
    assert "pids" in (parent / "cgroup.subtree_control").read_text()


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert find_process_groups("x", tmp_path / "none", tmp_path / "none") is None
    mounts, groups = tmp_path / "mounts", tmp_path / "groups"
    mounts.write_text(mount("cgroup2", tmp_path))
    groups.write_text("0::/own\n")
    assert find_process_groups("x", mounts, groups) is None, "no cgroup.subtree_control"


def test_groups_of_a_server_that_was_killed_are_removed(tmp_path: Path) -> None:
    groups = ProcessGroups(tmp_path, "x")
    for name in ("x-1-0", "x-1-1", "y-1-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "x-1-1" / "still-runs").mkdir()
    groups.remove_leftovers()
    assert {group.name for group in tmp_path.iterdir()} == {"x-1-1", "y-1-0"}


@pytest.mark.process
@needs_bubblewrap
async def test_processes_that_start_processes_are_limited_by_the_kernel(
    host: SandboxHost, ws: Path
) -> None:
    (ws / "script.py").write_text(BOMB)
    program = SandboxProgram(Profile(ws), ["python3", "script.py"], cpu_seconds=20)
    async with host.run(program, USER) as sandbox:
        group = sandbox._group
        if group is None:
            pytest.skip("needs root, and control groups that it may write")
        most = 0
        async with asyncio.timeout(30):
            while most < MAX_SANDBOX_PROCESSES // 2:
                most = max(most, int((group / "pids.current").read_text()))
                await asyncio.sleep(0)
            for _ in range(200):  # it grows by thousands in that time, if it can
                most = max(most, int((group / "pids.current").read_text()))
                await asyncio.sleep(0.001)
    assert most <= MAX_SANDBOX_PROCESSES
    assert not group.exists()
