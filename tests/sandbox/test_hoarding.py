"""Memory, disk and threads that are nobody's: ways round the limits of a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sshwarma.sandbox import watch
from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import needs_bubblewrap, python

pytestmark = [pytest.mark.process, needs_bubblewrap]

CALLS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = libc.syscall(*args)
    print(name, errno.errorcode[ctypes.get_errno()] if result < 0 else "done")
call("memfd_create", 319, b"m", 0)
call("shmget", 29, 0, 1 << 20, 0o1600)
call("semget", 64, 0, 1, 0o1600)
call("msgget", 68, 0, 0o1600)
call("mq_open", 240, b"q", 0o102, 0o600, 0)
call("prctl", 157, 4, 0)
"""

SOCKETS = """
import fcntl, socket
pair = socket.socketpair()
before = pair[0].getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
    pair[0].setsockopt(socket.SOL_SOCKET, option, 1 << 20)
print(pair[0].getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before)
pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
print(pair[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
import os
reader, writer = os.pipe()
try:
    fcntl.fcntl(writer, 1031, 1 << 20)
except PermissionError:
    print("pipes stay", fcntl.fcntl(writer, fcntl.F_GETFD))
"""

DEEP = """
import os, time
folder = os.open(".", os.O_RDONLY)
for _ in range({depth}):
    os.mkdir("d" * 250, dir_fd=folder)
    folder = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
for number in range(3):
    file = os.open(f"f{{number}}", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)
    os.ftruncate(file, 150 << 20)
time.sleep(60)
"""

NAMELESS = """
import os, time
files = []
for number in range(3):
    files.append(open("f", "wb"))
    os.unlink("f")
    for _ in range(100):
        files[-1].write(bytes(1 << 20))
time.sleep(60)
"""

SHUT = """
import os, time
os.makedirs("p/h")
os.chmod({folder!r}, 0o300)
time.sleep(60)
"""

THREADS = """
import threading, time
threading.stack_size(32768)
for _ in range(2000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""

DESCRIPTORS = """
import os, socket, time
for _ in range(8):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(500)]
        time.sleep(60)
time.sleep(60)
"""


async def test_calls_for_memory_of_nobody_are_refused(host: SandboxHost, ws: Path) -> None:
    *refused, dumpable = (await python(host, ws, CALLS)).splitlines()
    assert dumpable == "prctl EPERM"
    assert refused == [
        f"{name} ENOSYS" for name in ("memfd_create", "shmget", "semget", "msgget", "mq_open")
    ]


async def test_buffers_of_sockets_and_pipes_stay_small(host: SandboxHost, ws: Path) -> None:
    assert (await python(host, ws, SOCKETS)).splitlines() == ["True", "1", "pipes stay 1"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (DEEP.format(depth=20), "its files became too large (limit 256 MiB)"),
        (DEEP.format(depth=100), "it made folders in folders (limit 64)"),
        (NAMELESS, "its files became too large (limit 256 MiB)"),
        (DESCRIPTORS, "it opened too many files (limit 4,096)"),
    ],
    ids=["long paths", "deep", "nameless", "descriptors"],
)
async def test_program_that_hides_what_it_takes_is_ended(
    host: SandboxHost, ws: Path, script: str, said: str
) -> None:
    assert await python(host, ws, script) == f"[{said}]"


async def test_nearly_full_disk_ends_programs(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program only maps of a file without a name is seen nowhere else."""
    monkeypatch.setattr(watch, "MIN_SANDBOX_FREE_BYTES", 1 << 62)
    assert await python(host, ws, "import time; time.sleep(60)") == (
        "[the disk of the server is nearly full]"
    )


async def test_threads_are_limited(host: SandboxHost, ws: Path) -> None:
    """By the kernel, unless this user is root."""
    done = await python(host, ws, THREADS)
    is_ended = done == "[it started too many processes and threads (limit 256)]"
    assert is_ended or "can't start new thread" in done


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all folders")
@pytest.mark.parametrize("folder", ["p", "/ws"])
async def test_folder_that_cannot_be_read_ends_the_program(
    host: SandboxHost, ws: Path, folder: str
) -> None:
    assert (
        await python(host, ws, SHUT.format(folder=folder))
        == "[it made a folder that cannot be read]"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="counts for root alone")
async def test_root_keeps_its_watchers(host: SandboxHost, ws: Path) -> None:
    """The kernel counts them for each user."""
    script = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0))"
    assert await python(host, ws, script) == "-1\n"
