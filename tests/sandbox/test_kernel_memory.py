"""Memory of the kernel that is nobody's, and looks that are held up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sshwarma.common.units import MIB
from sshwarma.sandbox import pause as pause_module
from sshwarma.sandbox import run as run_module
from sshwarma.sandbox import watch
from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import needs_bubblewrap, python, run

pytestmark = [pytest.mark.process, needs_bubblewrap]

TOO_FAST = "[its processes changed too fast to be measured]"

STOPPED = "os.kill(os.getpid(), signal.SIGSTOP)"


CALLS = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
for number in (40, 275, 276, 444, 445, 446):
    print(libc.syscall(number, -1, -1, 0, 0), errno.errorcode[ctypes.get_errno()])
for level, option in ((1, 60), (6, 1), (1, 9)):
    with socket.socket() as one:
        try:
            print(one.setsockopt(level, option, 1))
        except OSError as error:
            print(errno.errorcode[error.errno])
"""

COPIES = """
import shutil, socket, subprocess
with open("a", "wb") as file:
    file.write(b"abc" * 100_000)
shutil.copyfile("a", "b")
subprocess.run(["cp", "a", "c"], check=True)
subprocess.run("cat a | cat > d", shell=True, check=True)
print(*(open(name, "rb").read() == b"abc" * 100_000 for name in "bcd"))
one, other = socket.socketpair()
with open("/etc/hosts", "rb") as file:
    print(one.sendfile(file) == len(other.recv(65536)) > 0)
"""

COPY_AS_JAVA = """
import errno, os
data = b"abc" * 100_000
with open("from", "wb") as file:
    file.write(data)
source, target = os.open("from", os.O_RDONLY), os.open("to", os.O_CREAT | os.O_WRONLY)
pipe = os.pipe()
for copy in (lambda: os.sendfile(target, source, 0, len(data)),
             lambda: os.splice(source, pipe[1], len(data))):
    try:
        copy()
    except OSError as error:
        if error.errno != errno.EINVAL:  # as FileChannel.transferTo and uv_fs_sendfile do
            raise
os.write(target, os.read(source, len(data)))
print(open("to", "rb").read() == data)
"""

WATCHES = """
import os, select, time
polls = [select.epoll() for _ in range(30)]
event = os.eventfd(0)
for number in range(700, 800):
    os.dup2(event, number)
    for poll in polls:
        poll.register(number)
time.sleep(60)
"""

PAGE_TABLES = """
import ctypes, mmap, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for number in range(8_000):  # a page every GiB: each has two pages of tables
    place = libc.mmap((1 << 41) + (number << 30), 4096, 3, 0x100022, -1, 0)
    ctypes.c_char.from_address(place).value
time.sleep(60)
"""

UNACCEPTED = """
import socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0listener")
listener.listen(200)
for _ in range(60):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\\0listener")
time.sleep(60)
"""

CLOSED = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0), backlog=100)
for _ in range(80):
    with socket.create_connection(listener.getsockname()) as one:
        one.send(b"x")
time.sleep(60)
"""


async def test_calls_that_keep_memory_of_the_kernel_are_refused(
    host: SandboxHost, ws: Path
) -> None:
    expected = ["-1 EINVAL"] * 3 + ["-1 ENOSYS"] * 3 + ["EPERM", "None", "None"]
    assert (await python(host, ws, CALLS)).splitlines() == expected


async def test_programs_that_fall_back_for_one_error_copy_files(
    host: SandboxHost, ws: Path
) -> None:
    assert await python(host, ws, COPY_AS_JAVA) == "True\n"


async def test_copies_are_made_without_the_refused_calls(host: SandboxHost, ws: Path) -> None:
    assert await python(host, ws, COPIES) == "True True True\nTrue\n"


@pytest.mark.parametrize(
    ("script", "limit", "value", "said"),
    [
        (WATCHES, "MAX_SANDBOX_FILE_WATCHES", 2_000, "it watched too many files (limit 2,000)"),
        (PAGE_TABLES, "MAX_SANDBOX_MEMORY_BYTES", 50 * MIB,
         "it used too much memory (limit 50 MiB)"),
        (UNACCEPTED, "MAX_SANDBOX_SOCKETS", 100, "it opened too many sockets (limit 100)"),
        (CLOSED, "MAX_SANDBOX_TCP_SOCKETS", 64, "it opened too many sockets of TCP (limit 64)"),
    ],
    ids=["epoll", "page tables", "unix", "tcp"],
)  # fmt: skip
async def test_program_that_fills_the_kernel_is_ended(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch,
    script: str, limit: str, value: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(watch, limit, value)
    assert await python(host, ws, script) == f"[{said}]"


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
