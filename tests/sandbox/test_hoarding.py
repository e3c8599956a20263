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
call("vmsplice", 278, 1, 0, 0, 0)
call("io_setup", 206, 1, 0)
call("prctl", 157, 4, 0)
call("mmap", 9, None, 4096, 3, 0x21, -1, 0)
call("mmap, checked", 9, None, 4096, 3, 0x23, -1, 0)
call("clone", 56, 0x10900, 0, 0, 0, 0)
call("clone", 56, 0x411, 0, 0, 0, 0)
call("fcntl", 72, 0, 37, 0)
call("fcntl", 72, 0, 38, 0)
call("close_range", 436, 900, 900, 2)
call("close_range", 436, 900, 900, 0)
import mmap
print(len(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)))
with open("/dev/zero", "r+b", 0) as zeros:
    print(zeros.read(3) == bytes(3))
    try:
        mmap.mmap(zeros.fileno(), 4096)
    except OSError as error:
        print(error.strerror)
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

LOCKS = """
import fcntl, time
files = [open(f"f{number}", "wb") for number in range(100)]
for place in range(200):
    for file in files:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * place)
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
import os, time
for _ in range(8):
    if os.fork() == 0:
        pipes = [os.pipe() for _ in range(500)]
        time.sleep(60)
time.sleep(60)
"""


TOO_MANY_FILES = "it made too many temporary files (limit 20,000)"

EMPTY_FILES = """
import os
for number in range(10**9):
    os.mkfifo(f"{folder}/{{number}}")
"""

TERMINALS = """
import os, time
terminals = [os.open("/dev/ptmx", os.O_RDWR) for _ in range(80)]
time.sleep(60)
"""

TIMERS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0:
    count += 1
print(count, errno.errorcode[ctypes.get_errno()])
"""


async def test_calls_for_memory_of_nobody_are_refused(host: SandboxHost, ws: Path) -> None:
    assert (await python(host, ws, CALLS)).splitlines() == [
        "memfd_create ENOSYS", "shmget ENOSYS", "semget ENOSYS", "msgget ENOSYS", "mq_open ENOSYS",
        "vmsplice ENOSYS", "io_setup ENOSYS", "prctl EPERM", "mmap EPERM", "mmap, checked EPERM",
        "clone EPERM", "clone EPERM", "fcntl EINVAL", "fcntl EINVAL", "close_range EPERM",
        "close_range done", "4096", "True", "No such device",
    ]  # fmt: skip


async def test_buffers_of_sockets_and_pipes_stay_small(host: SandboxHost, ws: Path) -> None:
    assert (await python(host, ws, SOCKETS)).splitlines() == ["True", "1", "pipes stay 1"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (DEEP.format(depth=20), "its files became too large (limit 256 MiB)"),
        (DEEP.format(depth=100), "it made folders in folders (limit 64)"),
        (NAMELESS, "its files became too large (limit 256 MiB)"),
        (DESCRIPTORS, "it opened too many files (limit 4,096)"),
        (EMPTY_FILES.format(folder="/tmp"), TOO_MANY_FILES),
        (EMPTY_FILES.format(folder="/dev/shm"), TOO_MANY_FILES),
        (TERMINALS, "it opened too many terminals (limit 64)"),
        (LOCKS, "it locked too many parts of files (limit 10,000)"),
    ],
    ids=["long paths", "deep", "nameless", "descriptors", "tmp", "shm", "terminals", "locks"],
)
async def test_program_that_hides_what_it_takes_is_ended(
    host: SandboxHost, ws: Path, script: str, said: str
) -> None:
    assert await python(host, ws, script) == f"[{said}]"


async def test_timers_are_limited(host: SandboxHost, ws: Path) -> None:
    """The kernel keeps a signal for each, of those of the server's user."""
    count, error = (await python(host, ws, TIMERS)).split()
    assert int(count) <= 256 and error == "EAGAIN"


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
