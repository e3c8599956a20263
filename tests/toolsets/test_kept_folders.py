"""Folders of toolsets that are made and deleted while their users are stopped."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sshwarma.toolsets import kept_folders
from sshwarma.toolsets.kept_folders import KeptFolders
from sshwarma.toolsets.toolset_folders import Installation, ToolsetFolders
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.delete_tree import delete_tree, set_aside
from sshwarma.world.errors import Unavailable
from sshwarma.world.world import World

KEY = ("kit", "hash")


class Gate:
    """Where a thread waits until a test lets it go on."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.reached = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        self.is_open.wait(30)

    async def wait_until_reached(self, task: asyncio.Task[Any]) -> None:
        while not self.reached.is_set():
            assert not task.done()
            await asyncio.sleep(0.001)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.is_open.set()


class GatedBlobs(BlobStore):
    """Blobs that are read when the gate is open."""

    gate: Gate

    def read(self, sha256: str) -> bytes:
        self.gate.wait()
        return super().read(sha256)


async def stop_at_gate(task: asyncio.Task[None], gate: Gate) -> None:
    """Cancel a task whose thread is at the gate, then let it go on."""
    await gate.wait_until_reached(task)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    gate.is_open.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_stopped_use_leaves_no_part_of_a_folder(
    world: World, tmp_path: Path, gate: Gate
) -> None:
    blobs = GatedBlobs(tmp_path / "blobs")
    blobs.gate = gate
    folders = ToolsetFolders(world, blobs, tmp_path)
    installed = Installation("kit", "hash", {"a.py": blobs.store(b"a"), "b.py": "0" * 64}, "")

    async def use() -> None:
        async with folders.use(installed):
            pass

    await stop_at_gate(asyncio.create_task(use()), gate)
    assert list((tmp_path / "toolsets" / "kit").iterdir()) == []


async def test_stopped_deletion_deletes_no_folder_that_is_used_meanwhile(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_later(path: Path) -> None:
        gate.wait()
        delete_tree(path)

    async def fill(folder: Path) -> None:
        (folder / "a.py").write_text("a")

    async def keep_none() -> set[tuple[str, str]]:
        return set()

    folders = KeptFolders(tmp_path)
    async with folders.use(KEY, fill):
        pass
    seen: list[list[str]] = []

    async def use() -> None:
        async with folders.use(KEY, fill) as folder:
            await stopping
            seen.append([file.name for file in folder.iterdir()])

    monkeypatch.setattr(kept_folders, "delete_tree", delete_later)
    deleting = asyncio.create_task(folders.delete_others(keep_none))
    stopping = asyncio.create_task(stop_at_gate(deleting, gate))
    await gate.wait_until_reached(deleting)
    await use()
    assert seen == [["a.py"]]


async def fill_with_code(folder: Path) -> None:
    (folder / "a.py").write_text("a")


async def keep_none() -> set[tuple[str, str]]:
    return set()


async def test_scratch_folder_stays_while_others_are_deleted(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_aside_later(path: Path, *more: Path) -> Path | None:
        gate.wait()
        return set_aside(path, *more)

    folders = KeptFolders(tmp_path)
    (tmp_path / "old" / "hash").mkdir(parents=True)
    monkeypatch.setattr(kept_folders, "set_aside", set_aside_later)
    deleting = asyncio.create_task(folders.delete_others(keep_none))
    await gate.wait_until_reached(deleting)

    async def use() -> bool:
        async with folders.scratch() as scratch:
            await deleting
            return scratch.is_dir()

    using = asyncio.create_task(use())
    for _ in range(10):
        await asyncio.sleep(0)
    gate.is_open.set()
    assert await using
    assert list(tmp_path.glob("*/*")) == []


async def test_nobody_waits_for_a_deletion_and_what_one_left_is_deleted(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_later(path: Path) -> None:
        gate.wait()
        delete_tree(path)

    (tmp_path / ".deleted-1").mkdir()
    (tmp_path / "old" / "hash").mkdir(parents=True)
    folders = KeptFolders(tmp_path)
    monkeypatch.setattr(kept_folders, "delete_tree", delete_later)
    deleting = asyncio.create_task(folders.delete_others(keep_none))
    await gate.wait_until_reached(deleting)
    monkeypatch.setattr(kept_folders, "delete_tree", delete_tree)
    async with asyncio.timeout(30), folders.use(KEY, fill_with_code) as folder:
        assert [file.name for file in folder.iterdir()] == ["a.py"]
        assert not deleting.done()
        gate.is_open.set()
        await deleting
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["kit"]


@pytest.mark.parametrize("part", ["use", "scratch"])
async def test_full_disk_is_a_refusal(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, **_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    folders = KeptFolders(tmp_path)
    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(Unavailable, match="The disk is full"):
        async with folders.scratch() if part == "scratch" else folders.use(KEY, fill_with_code):
            pass
