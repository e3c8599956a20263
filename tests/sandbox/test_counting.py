"""All processes of a sandbox are counted, whatever they start and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sshwarma.common.limits import MAX_SANDBOX_MEMORY_BYTES
from sshwarma.sandbox import pause as pause_module
from sshwarma.sandbox import run as run_module
from sshwarma.sandbox import watch
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.pause import pause
from sshwarma.sandbox.processes import Usage, measure_processes
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import SandboxProgram
from support.sandboxes import USER, needs_bubblewrap, python, run
from support.waiting import wait_until

pytestmark = [pytest.mark.process, needs_bubblewrap]

TOO_FAST = "[its processes changed too fast to be measured]"

TOO_MUCH = "[it used too much memory (limit 1024 MiB)]"

FIRST_THREAD_ENDS = """
import ctypes, threading, time
def hold():
    block = bytearray(b"x") * (1200 << 20)
    time.sleep(60)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60, 0)
"""

HOLDERS = """
import os, time
os.fork()
block = bytearray(b"x" * (700 << 20))
time.sleep(60)
"""

MANY_PROCESSES = "for i in $(seq 400); do /bin/true; x=$(echo $i); done; echo $x"

PARENTS_END = """
import os, time
is_first = os.fork() > 0
while not os.path.exists("stop"):
    if is_first:
        time.sleep(0.01)
    elif os.fork():
        os._exit(0)
    else:
        open("began", "w").close()
"""


def _read_state(process: Path) -> str:
    """Return the letter of a state; one that is ending may be gone."""
    try:
        return (process / "stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


async def test_memory_counts_where_the_first_thread_has_ended(host: SandboxHost, ws: Path) -> None:
    assert await python(host, ws, FIRST_THREAD_ENDS) == TOO_MUCH


def test_memory_counts_if_every_look_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a process counts twice for a moment, after a `vfork`."""
    much, little = Usage(memory=MAX_SANDBOX_MEMORY_BYTES + 1), Usage(memory=1)
    for looks, said in (((much, little), ""), ((much, much, little), ""), ((much,) * 3, TOO_MUCH)):
        left = iter(looks)
        monkeypatch.setattr(watch, "measure_processes", lambda *_, left=left: next(left))
        found = watch._find_process_excess(0, None)
        assert found == said.strip("[]") and next(left, None) is None


async def test_many_short_processes_are_no_fault(host: SandboxHost, ws: Path) -> None:
    assert await run(host, ws, MANY_PROCESSES) == "400\n"


async def test_processes_are_stopped_to_be_measured(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when each look finds that others have begun."""
    monkeypatch.setattr(watch, "_LOOKS", 0)
    assert await run(host, ws, MANY_PROCESSES) == "400\n"
    assert await python(host, ws, HOLDERS) == TOO_MUCH


async def test_none_begins_while_they_are_stopped(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parents end at once, so that no process leads to the last."""
    monkeypatch.setattr(run_module, "find_excess", lambda *_: "")  # which stops and continues, too
    (ws / "script.py").write_text(PARENTS_END)
    program = SandboxProgram(Profile(ws), ["/usr/bin/python3", "script.py"], cpu_seconds=20)
    async with host.run(program, USER) as it:
        await asyncio.to_thread(wait_until, (ws / "began").exists)
        init = it._init
        with pause(init) as is_paused:
            assert is_paused
            wait_until(lambda: measure_processes(init, None).is_whole)
            before = sorted(Path(f"/proc/{init}/root/proc").glob("[0-9]*"))
            assert len(before) > 1
            wait_until(lambda: {_read_state(each) for each in before[1:]} <= {"T", "Z"})
            after = sorted(Path(f"/proc/{init}/root/proc").glob("[0-9]*"))
            assert set(after) <= set(before) and "T" in map(_read_state, after)
        (ws / "stop").touch()
        assert (await it.wait()).excess == ""


async def test_what_cannot_be_measured_is_ended(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_LOOKS", 0)
    monkeypatch.setattr(pause_module, "_HELPER", "import sys; sys.exit('it is forbidden')")
    with capture_logs() as logs:
        assert await run(host, ws, "sleep 60") == TOO_FAST
    assert logs[-1]["event"] == "a sandbox could not be stopped to measure it"
    assert logs[-1]["reason"] == "it is forbidden"


async def test_program_that_cannot_be_stopped_is_ended(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def continue_all(_: int) -> Iterator[bool]:
        yield True

    monkeypatch.setattr(watch, "_LOOKS", 0)
    monkeypatch.setattr(watch, "_PAUSED_LOOKS", 0)
    monkeypatch.setattr(watch, "pause", continue_all)
    assert await run(host, ws, "sleep 60") == TOO_FAST


def test_sandbox_that_is_being_made_is_not_measured() -> None:
    """Its first process still sees the files and processes of the machine."""
    assert watch.find_excess(os.getpid(), None) == ""


async def test_limits_hold_from_the_first_look(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "WATCH_SECONDS", 0.0)
    assert await run(host, ws, "echo done") == "done\n"


def test_processes_of_the_server_are_never_stopped() -> None:
    """The number of a sandbox that has ended may be that of any process."""
    with pytest.raises(FileNotFoundError), pause(os.getpid()):
        pass
