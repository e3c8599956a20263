"""What programs in a sandbox can reach and use; nothing of them outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from sshwarma.common import limits
from sshwarma.sandbox import host as host_module
from sshwarma.sandbox import run as run_module
from sshwarma.sandbox import watch
from sshwarma.sandbox.bubblewrap import SandboxObstacle, check_version, explain_failure
from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Ending, SandboxError, SandboxProgram
from sshwarma.sandbox.seccomp import UnknownMachineError, make_filter
from support.sandboxes import ACCOUNTS, SECONDS, USER, needs_bubblewrap, python, run

pytestmark = pytest.mark.process


@needs_bubblewrap
async def test_program_works_as_usual(host: SandboxHost, ws: Path) -> None:
    done = await run(
        host, ws,
        "whoami; hostname; pwd; echo $HOME; echo hi > a; cat a; (echo x; exit 7);"
        " getent ahostsv4 localhost | head -1 | cut -d' ' -f1;"
        " python3 -c 'import sqlite3, threading, asyncio, subprocess; print(1)'",
    )  # fmt: skip
    assert done.split() == [
        "tool", "sandbox", "/ws", "/tmp", "hi", "x", "127.0.0.1", "1",
    ]  # fmt: skip
    assert (ws / "a").read_text() == "hi\n"


@needs_bubblewrap
async def test_machine_is_not_there(
    host: SandboxHost, ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSHWARMA_TEST_KEY", "sesame")
    (tmp_path / "secret").write_text("sesame")
    (ws / "link").symlink_to(tmp_path / "secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = await run(
            host, ws,
            f"cat {tmp_path}/secret link /proc/*/environ /proc/1/cmdline 2>&1 | tr '\\0' ' ';"
            f" (echo > /dev/tcp/127.0.0.1/{port}) 2>&1; ls /root /home /var /run /sys 2>&1;"
            " for p in / /usr /etc /dev /dev/shm/../x; do (echo x > $p/written) 2>&1; done",
        )  # fmt: skip
    assert "sesame" not in done
    assert str(tmp_path) not in done.replace(f"cat {tmp_path}/secret", "").replace(
        f"cat: {tmp_path}/secret", ""
    )
    assert "Connection refused" in done
    assert done.count("Read-only file system") == 4


CALLS = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = libc.syscall(*args)
    print(name, errno.errorcode[ctypes.get_errno()] if result < 0 else "done")
call("keyctl", 250, 0, -3, 0)
call("userfaultfd", 323, 0)
call("io_uring", 425, 1, 0)
call("ptrace", 101, 16, 1, 0, 0)
call("unshare", 272, 0x10000000)
call("clone", 56, 0x10000000, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("mount", 165, b"none", b"/ws", b"tmpfs", 0, 0)
call("bpf", 321, 0, 0, 0)
call("x32", 0x40000000 + 39)
for family in (socket.AF_VSOCK, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_STREAM)
        print(family.name, "open")
    except OSError as error:
        print(family.name, errno.errorcode[error.errno])
print(os.getpid() > 1, os.system("true"))
"""


@needs_bubblewrap
async def test_calls_that_lead_out_are_refused(host: SandboxHost, ws: Path) -> None:
    assert (await python(host, ws, CALLS)).splitlines() == [
        "keyctl EPERM", "userfaultfd EPERM", "io_uring EPERM", "ptrace EPERM", "unshare EPERM",
        "clone EPERM", "clone3 ENOSYS", "mount EPERM", "bpf EPERM", "x32 ENOSYS",
        "AF_VSOCK EAFNOSUPPORT", "AF_NETLINK EAFNOSUPPORT", "AF_PACKET EAFNOSUPPORT", "True 0",
    ]  # fmt: skip


@needs_bubblewrap
@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("x = bytearray(4 << 30)", "MemoryError"),
        ("open('big', 'wb').truncate(300 << 20)", "File too large"),
        ("open('/tmp/big', 'wb').write(bytes(80 << 20))", "No space left"),
        ("open('/dev/shm/big', 'wb').write(bytes(20 << 20))", "No space left"),
        ("files = [open('script.py') for _ in range(2000)]", "Too many open files"),
    ],
)  # fmt: skip
async def test_limits_of_the_kernel_hold(
    host: SandboxHost, ws: Path, script: str, shown: str
) -> None:
    assert shown in await python(host, ws, script)


@needs_bubblewrap
@pytest.mark.parametrize("count", ["299", "10**9"])
async def test_processes_are_limited(host: SandboxHost, ws: Path, count: str) -> None:
    """By the kernel, unless this user is root, whom it does not limit so."""
    script = f"""
import os, time
for _ in range({count}):
    os.fork() or time.sleep(60)
time.sleep(60)
"""
    done = await python(host, ws, script)
    is_ended = done == "[it started too many processes and threads (limit 256)]"
    assert is_ended or "Resource temporarily unavailable" in done


@needs_bubblewrap
async def test_sum_of_memory_is_limited(host: SandboxHost, ws: Path) -> None:
    script = """
import os, time
os.fork(); os.fork()
block = bytearray(b"x" * (400 << 20))
time.sleep(60)
"""
    assert await python(host, ws, script) == "[it used too much memory (limit 1024 MiB)]"


@needs_bubblewrap
@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("for i in range(30_000):\n    open(f'f{i}', 'w').close()\ntime.sleep(60)",
         "[it made too many files (limit 10,000)]"),
        ("for i in range(3):\n    open(f'f{i}', 'wb').truncate(100 << 20)\ntime.sleep(60)",
         "[its files became too large (limit 256 MiB)]"),
    ],
)  # fmt: skip
async def test_files_are_limited_while_it_runs(
    host: SandboxHost, ws: Path, script: str, shown: str
) -> None:
    assert await python(host, ws, f"import time\n{script}") == shown


def list_processes(namespace: str) -> list[str]:
    """Return the names of processes of a namespace that have not ended."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "ns" / "pid").readlink()) != namespace:
                continue
            name, _, rest = (process / "stat").read_text().rpartition(") ")
        except OSError:  # it has ended, or is another user's
            continue
        if not rest.startswith("Z"):
            found.append(name)
    return found


@needs_bubblewrap
async def test_nothing_outlives_the_sandbox(host: SandboxHost, ws: Path) -> None:
    script = (
        "for i in 1 2 3 4; do (setsid sh -c 'while :; do date >> late$0; done' $i &); done;"
        " readlink /proc/self/ns/pid"
    )
    for _ in range(5):
        namespace = (await run(host, ws, script)).strip()
        assert namespace.startswith("pid:[")
        assert list_processes(namespace) == []


@needs_bubblewrap
async def test_program_that_cannot_be_watched_is_ended(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("no more")

    monkeypatch.setattr(run_module, "find_excess", fail)
    assert await run(host, ws, "sleep 60") == "[it could not be watched]"


@needs_bubblewrap
async def test_context_that_is_left_ends_everything(host: SandboxHost, ws: Path) -> None:
    words = ["/bin/sh", "-c", "readlink /proc/self/ns/pid; while :; do date >> f; done"]
    async with host.run(SandboxProgram(Profile(ws), words, cpu_seconds=60), USER) as sandbox:
        assert sandbox.process.stdout is not None
        namespace = (await sandbox.process.stdout.readline()).decode().strip()
        assert list_processes(namespace)
    assert list_processes(namespace) == []


@needs_bubblewrap
async def test_flood_that_nobody_reads_does_not_block_the_end(host: SandboxHost, ws: Path) -> None:
    program = SandboxProgram(Profile(ws), ["/bin/sh", "-c", "yes"], cpu_seconds=60)
    async with asyncio.timeout(SECONDS):
        async with host.run(program, USER) as sandbox:
            assert sandbox.process.stdout is not None
            await sandbox.process.stdout.readline()


@needs_bubblewrap
async def test_more_sandboxes_than_allowed_wait(
    host: SandboxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = []

    told: list[str] = []

    async def one(user: str) -> None:
        use = SandboxUser(user, told.append)
        program = SandboxProgram(Profile(None), ["/bin/sleep", "0.05"], cpu_seconds=9)
        async with host.take_share(use), host.run(program, use) as sandbox:
            running.append(host.running)
            assert await sandbox.wait() == Ending(0)

    most, share = limits.MAX_SANDBOXES, limits.MAX_SANDBOXES_PER_PERSON
    await asyncio.gather(*(one(f"user{number}") for number in range(2 * most)))
    assert max(running) == most
    assert set(told) == {f"Waiting: {most} programs run on this server already."}
    running.clear()
    told.clear()
    await asyncio.gather(*(one("ann") for _ in range(2 * share)))
    assert max(running) == share
    assert set(told) == {f"Waiting: {share} programs of yours run already."}


@needs_bubblewrap
async def test_program_runs_in_a_slot_that_was_taken_before(host: SandboxHost) -> None:
    program = SandboxProgram(Profile(None), ["/bin/true"], cpu_seconds=9)
    async with contextlib.AsyncExitStack() as slots:
        for _ in range(limits.MAX_SANDBOXES):
            assert not host.is_busy_for(USER)
            await slots.enter_async_context(host.take_slot(USER))
        assert host.is_busy_for(USER)
        async with host.run(program, USER, has_slot=True) as sandbox:
            assert await sandbox.wait() == Ending(0)
    async with contextlib.AsyncExitStack() as shares:
        for _ in range(limits.MAX_SANDBOXES_PER_PERSON):
            await shares.enter_async_context(host.take_share(USER))
        assert host.is_busy_for(USER) and not host.is_busy_for(SandboxUser("bob"))


@needs_bubblewrap
async def test_program_that_does_not_exist_is_its_status(host: SandboxHost) -> None:
    program = SandboxProgram(Profile(None), ["/bin/nothing"], cpu_seconds=9)
    async with host.run(program, USER) as sandbox:
        assert (await sandbox.wait()).status == 1
        assert sandbox.process.stderr is not None
        assert b"No such file" in await sandbox.process.stderr.read()


async def test_without_bubblewrap_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = SandboxObstacle("bubblewrap is not installed", "install the package bubblewrap")
    monkeypatch.setattr(host_module, "find_bubblewrap", lambda: missing)
    host = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    assert await host.check() == missing
    with pytest.raises(SandboxError) as raised:
        async with host.run(SandboxProgram(Profile(None), ["/bin/true"], cpu_seconds=1), USER):
            raise AssertionError
    assert raised.value.obstacle == missing


def use_fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Take a script of bash for bubblewrap."""
    fake = folder / "bwrap"
    version = "if [ $1 = --version ]; then echo bubblewrap 0.11.0; exit; fi"
    fake.write_text(f"#!/bin/bash\n{version}\n{script}")
    fake.chmod(0o755)
    monkeypatch.setattr(host_module, "find_bubblewrap", lambda: fake)


async def test_sandbox_that_does_not_hold_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(
        tmp_path,
        monkeypatch,
        "echo '{ \"child-pid\": '$$' }' >&$2; read x <&$4\n"
        'while [ $1 != -- ]; do shift; done; shift; exec "$@"\n',
    )
    obstacle = await SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices").check()
    assert obstacle is not None
    assert "the check of a sandbox printed what it must not" in obstacle.reason
    assert f"sees {tmp_path}" in obstacle.reason


async def test_bubblewrap_that_leaves_a_child_behind_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may not map users does: a start of the server waited without end."""
    use_fake(
        tmp_path,
        monkeypatch,
        "echo 'bwrap: setting up uid map: Permission denied' >&2\n"
        '(for n in /proc/self/fd/*; do n=${n##*/}; [ $n -gt 2 ] && eval "exec $n>&-"; done;'
        " exec sleep 3600) &\nexit 1\n",
    )
    async with asyncio.timeout(SECONDS):
        obstacle = await SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices").check()
    assert obstacle == explain_failure("setting up uid map")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("bwrap: No permissions to create new namespace, likely because", "no user namespaces"),
        ("bwrap: Failed to make / slave: Permission denied", "AppArmor"),
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: Creating new namespace failed: No space left on device", "no more namespaces"),
        ("bwrap: something else", "bubblewrap failed: something else"),
        ("", "bubblewrap failed: it said nothing"),
    ],
)
def test_failure_is_explained_with_what_to_do(said: str, reason: str) -> None:
    obstacle = explain_failure(said)
    assert reason in obstacle.reason and obstacle.remedy


@pytest.mark.parametrize("printed", ["bubblewrap 0.7.9", "bubblewrap", "", "bwrap 1"])
def test_old_version_is_an_obstacle(printed: str) -> None:
    obstacle = check_version(printed)
    assert obstacle is not None and obstacle.remedy == "install 0.8.0 or newer"
    assert check_version("bubblewrap 0.8.0\n") is None
    assert check_version("bubblewrap 1.0.0") is None


def test_filter_is_whole_for_each_machine() -> None:
    for machine in ("x86_64", "aarch64"):
        program = make_filter(machine)
        assert len(program) % 8 == 0 and len(program) // 8 < 4096
    with pytest.raises(UnknownMachineError, match="no filter of system calls is known for riscv"):
        make_filter("riscv64")


async def test_processes_that_end_meanwhile_are_no_error() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true")
    await process.wait()
    assert watch.find_excess(process.pid, None) == ""
    assert watch.find_folder_excess(Path("/nowhere")) == ""
