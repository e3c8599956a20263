"""What belongs to root is out of reach, also for programs of a root server.

To the kernel they are processes of root, though without capabilities.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from sshwarma.sandbox import profile
from sshwarma.sandbox.bubblewrap import SandboxObstacle
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Ending, SandboxProgram
from support.sandboxes import ACCOUNTS, SECONDS, USER, needs_bubblewrap, python

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the files belong to root")

pytestmark = pytest.mark.process

KERNEL = """
import os, stat
def walk(top):
    for folder, folders, names in os.walk(top):
        if folder == "/proc":
            folders[:] = [name for name in folders if not name.isdigit()]
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode) or path.startswith(("/dev/pts", "/dev/shm")):
                continue
            try:
                os.chmod(path, stat.S_IMODE(mode))
                print("changes", path)
            except OSError:
                pass
            if folder.startswith("/proc"):
                if os.access(path, os.W_OK) and not stat.S_ISCHR(mode):
                    print("writes", path)
                if folder == "/proc" and not mode & stat.S_IROTH and os.access(path, os.R_OK):
                    print("reads", path)
walk("/proc"); walk("/dev")
print(len(open("/proc/sys/kernel/random/uuid").read()))
print(sorted(os.listdir("/proc/self/fd")))
"""


@needs_bubblewrap
async def test_settings_and_secrets_of_the_kernel_are_out_of_reach(
    host: SandboxHost, ws: Path
) -> None:
    """They belong to root, who is the owner of the programs of a root server as well."""
    assert await python(host, ws, KERNEL) == "37\n['0', '1', '2', '3']\n"


@needs_bubblewrap
@needs_root
@pytest.mark.parametrize(
    ("left_out", "value", "found"),
    [
        ("_kernel_files", tuple, "writes /proc/sys/kernel/core_pattern"),
        ("DEVICES", (), "changes the mode of /dev/null"),
    ],
)
async def test_check_finds_what_a_root_server_would_expose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str, value: object, found: str
) -> None:
    monkeypatch.setattr(profile, left_out, value)
    obstacle = await SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices").check()
    assert obstacle is not None and found in obstacle.reason


@needs_bubblewrap
@needs_root
async def test_root_without_devices_of_nobody_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "mknod", refuse)
    obstacle = await SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices").check()
    assert obstacle == SandboxObstacle(
        "the server runs as root, and cannot make device files that do not belong to root:"
        " Operation not permitted",
        "run the server as another user",
    )


@needs_bubblewrap
async def test_program_that_writes_to_its_input_breaks_nothing(
    host: SandboxHost, caplog: pytest.LogCaptureFixture
) -> None:
    script = "echo x >&0 || echo refused; read line; echo got $line"
    words = ["/bin/sh", "-c", script]
    program = SandboxProgram(Profile(None), words, cpu_seconds=5, has_input=True, merge_errors=True)
    async with host.run(program, USER) as sandbox:
        assert sandbox.stdin is not None and sandbox.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            await sandbox.process.stdout.readuntil(b"refused\n")
            sandbox.stdin.write(b"line\n")
            assert await sandbox.process.stdout.read() == b"got line\n"
            assert await sandbox.wait() == Ending(0)
    assert not caplog.records
