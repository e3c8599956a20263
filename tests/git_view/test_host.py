"""The processes of git: places, time limits, repositories made again."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.git import host, session
from sshwarma.git.host import GitHost
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.errors import TimedOut, Unavailable
from sshwarma.world.world import World
from support.git_access import ALLOWED
from support.people import Someone, do
from support.raw_git import line

pytestmark = pytest.mark.process

FETCH = "git-upload-pack"


class Client:
    """A client that says what a test sets, and reads everything."""

    def __init__(self, *said: bytes) -> None:
        self.said = list(said)
        self.read_bytes = bytearray()
        self.answered = asyncio.Event()
        self.ended = asyncio.Event()

    async def read(self) -> bytes:
        if self.said:
            return self.said.pop(0)
        await self.ended.wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.read_bytes += data
        self.answered.set()


@pytest.fixture
def files(world: World, tmp_path: Path) -> Workspaces:
    return Workspaces(world, BlobStore(tmp_path / "blobs"))


@pytest.fixture
async def background(world: World) -> AsyncIterator[BackgroundTasks]:
    made = BackgroundTasks()
    yield made
    await made.join()


@pytest.fixture
async def served(world: World, files: Workspaces, background: BackgroundTasks) -> GitHost:
    made = GitHost(world, files, background.spawn)
    await background.join()
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "git"


async def put(files: Workspaces, someone: Someone, path: str) -> None:
    """Make a version with another file."""
    entry = await files.store(path.encode())
    await files.change(someone.caller, lambda _: {path: entry})


@asynccontextmanager
async def holding(served: GitHost, *people: Someone) -> AsyncIterator[None]:
    """Sessions of people that have been answered, and say nothing."""
    clients = [Client() for _ in people]
    tasks = [
        asyncio.create_task(served.serve(someone.caller, FETCH, client, ALLOWED))
        for someone, client in zip(people, clients, strict=True)
    ]
    for client in clients:
        await client.answered.wait()
    yield
    for client in clients:
        client.ended.set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def fetch(served: GitHost, someone: Someone) -> bytes:
    """What a client reads that wants nothing."""
    client = Client(b"0000")
    client.ended.set()
    await served.serve(someone.caller, FETCH, client, ALLOWED)
    return bytes(client.read_bytes)


async def test_agent_has_two_sessions_and_others_wait(
    served: GitHost,
    files: Workspaces,
    alice: Someone,
    bob: Someone,
    guest: Someone,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await put(files, bob, "a")
    monkeypatch.setattr(host, "GIT_WAIT_SECONDS", 0.2)
    async with holding(served, bob, bob):
        with pytest.raises(Unavailable, match="You have 2 clones, fetches or pushes in progress"):
            await fetch(served, bob)
        async with holding(served, alice, alice):
            with pytest.raises(Unavailable, match="4 clones, fetches and pushes of others"):
                await fetch(served, guest)
        assert b"refs/heads/main" in await fetch(served, guest)
    assert b"refs/heads/main" in await fetch(served, bob)


async def test_silent_client_is_ended(
    served: GitHost, files: Workspaces, cache: Path, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(files, bob, "a")
    monkeypatch.setattr(session, "GIT_IDLE_SECONDS", 0.2)
    with pytest.raises(TimedOut, match="nothing was sent or read"):
        await served.serve(bob.caller, FETCH, Client(), ALLOWED)
    assert not list((cache / "work").iterdir())


async def test_process_that_works_is_not_ended_as_silent(
    served: GitHost, files: Workspaces, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [0, 1, 2, 2]
    await put(files, bob, "a")
    monkeypatch.setattr(session, "GIT_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(session, "read_cpu_ticks", lambda _: used.pop(0))
    with pytest.raises(TimedOut, match="nothing was sent or read"):
        await served.serve(bob.caller, FETCH, Client(), ALLOWED)
    assert not used


async def test_damaged_repository_is_made_again_for_the_same_client(
    served: GitHost, files: Workspaces, cache: Path, bob: Someone
) -> None:
    await put(files, bob, "a")
    before = await fetch(served, bob)
    for file in cache.glob("*/objects/pack/*"):
        file.unlink()
    await put(files, bob, "b")
    assert await fetch(served, bob) != before
    assert len(list(cache.glob("*/objects/pack/*.pack"))) == 1


async def test_object_that_is_lost_is_there_for_the_next_client(
    served: GitHost, files: Workspaces, cache: Path, bob: Someone
) -> None:
    """Of an older version: that is found only when a client asks for it."""
    await put(files, bob, "a")
    await fetch(served, bob)
    first = list(cache.glob("*/objects/pack/*"))
    await put(files, bob, "b")
    head = (await fetch(served, bob))[4:44]
    for file in first:
        file.unlink()
    wants = line(b"want " + head + b" side-band-64k thin-pack ofs-delta\n") + b"0000"
    with pytest.raises(Unavailable, match="The repository was damaged"):
        client = Client(wants + line(b"done\n"))
        client.ended.set()
        await served.serve(bob.caller, FETCH, client, ALLOWED)
    again = Client(wants + line(b"done\n"))
    again.ended.set()
    await served.serve(bob.caller, FETCH, again, ALLOWED)
    assert b"PACK" in again.read_bytes


async def test_start_deletes_what_a_server_left(
    world: World, files: Workspaces, cache: Path, background: BackgroundTasks
) -> None:
    work = cache / "work" / "x"
    work.mkdir(parents=True)
    (work / "received.pack").write_bytes(b"x")
    GitHost(world, files, background.spawn)
    assert not work.exists()
    await background.join()
    assert not list(cache.iterdir())


@pytest.mark.parametrize("limit", ["MAX_GIT_REPOSITORIES", "MAX_GIT_CACHE_BYTES"])
async def test_repositories_used_longest_ago_are_deleted(
    served: GitHost, files: Workspaces, cache: Path, bob: Someone, limit: str,
    background: BackgroundTasks, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(host, limit, 1)
    await put(files, bob, "a")
    await fetch(served, bob)
    await do(bob, "/create den")
    await do(bob, "/join den")
    await put(files, bob, "a")
    await background.join()
    await fetch(served, bob)
    await background.join()
    names = [path.name for path in cache.iterdir() if path.name != "work"]
    assert names == [bob.room_id]


async def test_repositories_that_others_delete_do_no_harm(
    served: GitHost, files: Workspaces, cache: Path, bob: Someone
) -> None:
    await put(files, bob, "a")
    await fetch(served, bob)
    (cache / "gone").symlink_to(cache / "nowhere")
    (cache / ".deleted-1").mkdir()
    await fetch(served, bob)
    assert (cache / ".deleted-1").exists()


async def test_clone_has_ended_well_where_old_repositories_cannot_be_listed(
    served: GitHost, files: Workspaces, bob: Someone, background: BackgroundTasks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail(path: Path) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    await put(files, bob, "a")
    monkeypatch.setattr(host, "measure_tree", fail)
    with structlog.testing.capture_logs() as logged:
        await fetch(served, bob)
        await background.join()
    assert [entry["event"] for entry in logged] == ["old repositories were not deleted"]


async def test_push_to_a_full_disk_is_refused_before_it_is_sent(
    served: GitHost, files: Workspaces, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(files, bob, "a")
    monkeypatch.setattr(host, "MIN_GIT_FREE_BYTES", 1 << 60)
    await fetch(served, bob)
    client = Client(b"")
    client.ended.set()
    with pytest.raises(Unavailable, match="MiB free, and a push needs"):
        await served.serve(bob.caller, "git-receive-pack", client, ALLOWED)
