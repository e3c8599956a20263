"""Reference servers by others, of both eras; and servers killed repeatedly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.driver.installed import NODE, from_npm, from_pypi
from support.hub import Hubbed, children
from support.people import do


async def test_five_reference_servers_work(hubbed: Hubbed, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "note.txt").write_text("a note")
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(folder)], check=True)
    memory = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    await asyncio.gather(
        hubbed.add("everything", NODE, from_npm("server-everything")),
        hubbed.add("files", NODE, from_npm("server-filesystem"), str(folder)),
        hubbed.add("recall", NODE, from_npm("server-memory"), env=memory),
        hubbed.add("clock", *from_pypi("mcp_server_time"), "--local-timezone", "UTC"),
        hubbed.add("git", *from_pypi("mcp_server_git"), "--repository", str(folder)),
    )
    listed = (await do(hubbed.owner, "/mcp")).servers
    assert [(server.name, server.state) for server in listed] == [
        (name, "up") for name in ("clock", "everything", "files", "git", "recall")
    ]
    for server in ("everything", "files", "recall", "clock", "git"):
        assert (await do(hubbed.owner, f"/mcp show {server}")).refused == ()
    versions = {
        name: (await hubbed.server(name)).metadata["version"]
        for name in ("clock", "everything", "files", "git", "recall")
    }
    assert versions["everything"] == "2025-11-25"
    assert versions["clock"] == "2026-07-28"

    assert (await hubbed.call("everything:get-sum", a=1, b=2)).text == "The sum of 1 and 2 is 3."
    image = await hubbed.call("everything:get-tiny-image")
    assert "[image: image/png, 4,033 bytes, attachment 1]" in image.text
    assert [(one.media_type, len(one.data)) for one in image.attachments] == [("image/png", 4_033)]
    links = await hubbed.call("everything:get-resource-links", count=2)
    assert "[link " in links.text
    read = await hubbed.call("files:read_text_file", path=str(folder / "note.txt"))
    assert read.text == "a note"
    outside = await hubbed.call("files:read_text_file", path="/etc/passwd")
    assert outside.ending == "error"
    assert "denied" in outside.text.lower()
    entities = [{"name": "lamp", "entityType": "thing", "observations": ["it is lit"]}]
    assert (await hubbed.call("recall:create_entities", entities=entities)).ending == "result"
    assert "it is lit" in (await hubbed.call("recall:read_graph")).text
    now = await hubbed.call("clock:get_current_time", timezone="UTC")
    assert '"timezone": "UTC"' in now.text
    status = await hubbed.call("git:git_status", repo_path=str(folder))
    assert "note.txt" in status.text
    wrong = await hubbed.call("clock:get_current_time", timezone="Middle/Earth")
    assert wrong.ending == "error"


@pytest.mark.timeout(600)  # fifty starts of a program: a minute or two on a busy machine
@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.soak)])
async def test_kills_leak_no_tasks_or_files(hubbed: Hubbed, kills: int) -> None:
    await hubbed.poisoned()
    supervisor = hubbed.hub.pool.running["mcp_evil"]
    await hubbed.call("evil:echo")
    tasks, files = len(asyncio.all_tasks()), _open_files()
    for _ in range(kills):
        (launcher,) = _launchers()
        (program,) = _children_of(launcher)
        os.kill(program, signal.SIGKILL)
        await hubbed.until(lambda: not supervisor.is_up)
        await hubbed.until(lambda: supervisor.is_up)
    assert (await hubbed.call("evil:echo")).ending == "result"
    await hubbed.until(lambda: len(asyncio.all_tasks()) == tasks)
    await hubbed.until(lambda: _open_files() <= files)
    assert len(children()) == 1


async def test_program_ends_when_its_launcher_is_killed(hubbed: Hubbed) -> None:
    await hubbed.poisoned()
    (launcher,) = _launchers()
    (program,) = _children_of(launcher)
    os.kill(launcher, signal.SIGKILL)
    await hubbed.until(lambda: not _alive(program))
    await hubbed.until(lambda: hubbed.state("evil") == "up")


HOLDER = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), *sys.argv[2:]],
                         stdin=subprocess.PIPE, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def test_servers_and_their_children_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    """As a power cut ends the server: nothing gets to say goodbye."""
    launch = Path(__file__).parents[2] / "src" / "sshwarma" / "common" / "spawn.py"
    # A shell that ignores signals, and a child of it that reads nothing.
    script = "trap '' TERM HUP; sleep 1000 & echo $! > pids; echo $$ >> pids; sleep 1000"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(launch), str(2**30), "sh", "-c", script],
        stdout=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    assert holder.stdout
    launcher = int(holder.stdout.readline())
    pids = tmp_path / "pids"
    _until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    programs = [int(pid) for pid in pids.read_text().split()]
    assert all(map(_alive, programs))
    holder.kill()
    holder.wait()
    holder.stdout.close()
    _until(lambda: not any(map(_alive, [launcher, *programs])))


def _until(what: object, seconds: float = 30) -> None:
    waiting = subprocess.Popen(["sleep", str(seconds)])
    try:
        while not what():  # type: ignore[operator]
            assert waiting.poll() is None, "it did not come true"
            try:
                waiting.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
    finally:
        waiting.kill()
        waiting.wait()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _launchers() -> list[int]:
    return [pid for pid in _children_of(os.getpid()) if b"spawn.py" in _words(pid)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _alive(int(entry.name)):
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(status[1]) == parent:
                found.append(int(entry.name))
    return found


def _open_files() -> int:
    """Count the open files, except the database's, opened once per reader thread."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of this listing
            targets.append(link.readlink().name)
    return sum(not name.startswith("world.db") for name in targets)


IDLE_SERVER = """
import asyncio, os, sys
from sshwarma.app import App
from sshwarma.settings import load_settings

async def main():
    address = {"listen": "127.0.0.1:0"}
    await App.start(load_settings(data_dir=sys.argv[1], ssh=address, http=address))
    await asyncio.get_running_loop().shutdown_default_executor()  # what threads import, too
    print([name for name in ("mcp", "mcp_types", "pydantic_ai", "openai") if name in sys.modules])
    sys.stdout.flush()
    os._exit(0)

asyncio.run(main())
"""


def test_idle_server_imports_no_mcp_sdk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IDLE_SERVER, str(tmp_path)],
        capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert (done.stdout.strip().split("\n")[-1], done.returncode) == ("[]", 0), done.stderr
