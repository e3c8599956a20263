"""Runs in the folder of a room, and what people read of its files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sshwarma.sandbox.host import SandboxUser
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import RunFiles, WorkspaceRuns, describe_files
from sshwarma.workspaces.tree import Changes, Entry
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.world import World
from support.people import Someone

MANY = 300


class GatedBlobs(BlobStore):
    """Blobs that are read when a gate is open."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        self.found = 0
        """Blobs that were looked for."""

    def path_of(self, sha256: str) -> Path:
        self.found += 1
        if not self.gate.is_set():
            self.at_gate.set()
            self.gate.wait(30)
        return super().path_of(sha256)


class Shares:
    """What runs need of the sandboxes of a server, without any."""

    @asynccontextmanager
    async def take_share(self, user: SandboxUser) -> AsyncIterator[None]:
        yield


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[GatedBlobs]:
    made = GatedBlobs(tmp_path / "blobs")
    yield made
    made.gate.set()


@pytest.fixture
def files(world: World, blobs: GatedBlobs) -> Workspaces:
    return Workspaces(world, blobs)


@pytest.fixture
def runs(files: Workspaces, tmp_path: Path) -> WorkspaceRuns:
    sandbox: Any = Shares()
    return WorkspaceRuns(files, sandbox, tmp_path / "rooms")


async def allow() -> None:
    """Check nothing."""


async def list_names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def make_entry(files: Workspaces, text: str) -> Entry:
    return Entry(files.blobs.store(text.encode()), size=len(text.encode()))


async def wait_for(event: threading.Event, task: asyncio.Task[Any]) -> None:
    while not event.is_set():
        assert not task.done()
        await asyncio.sleep(0.001)


async def test_stopped_run_writes_no_more_when_the_next_begins(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, blobs: GatedBlobs
) -> None:
    old: Changes = {f"f{number}": make_entry(files, f"old {number}") for number in range(MANY)}
    await files.change(alice.caller, lambda _: old)
    blobs.found = 0
    blobs.gate.clear()
    first = asyncio.create_task(runs.run(alice.caller, list_names, allow))
    await wait_for(blobs.at_gate, first)
    first.cancel()
    new: Changes = {**dict.fromkeys(old), "only": make_entry_later(blobs)}
    changing = asyncio.create_task(files.change(alice.caller, lambda _: new))
    second = asyncio.create_task(runs.run(alice.caller, list_names, allow))
    await changing
    assert not first.done()  # its thread writes still
    blobs.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    names, kept = await second
    assert names == ["only"]
    assert kept.changes == {}
    assert blobs.found < 10, "a stopped run writes the other files, too"
    _, tree = await files.read_tree(alice.room_id)
    assert list(tree) == ["only"]


def make_entry_later(blobs: GatedBlobs) -> Entry:
    """Store a content while the gate is closed for others."""
    return Entry(BlobStore(blobs.directory).store(b"x"), size=1)


def test_names_that_are_left_out_are_shortened() -> None:
    deep = "/".join(["d" * 200] * 40)
    (note,) = describe_files(RunFiles(left_out=(deep, "pipe\x1b")))
    assert len(note) < 200
    assert "'pipe\\x1b'" in note
