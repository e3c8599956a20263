"""Folders of an ended server: set aside at a start, deleted beside what follows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sshwarma.settings import Settings
from sshwarma.workspaces import delete_tree as module
from sshwarma.workspaces.delete_tree import delete_leftovers, deleting_leftovers, set_aside
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.world.world import World
from support.waiting import until


def fill(folder: Path, count: int = 3) -> Path:
    for number in range(count):
        (folder / f"room{number}" / "deep").mkdir(parents=True)
        (folder / f"room{number}" / "deep" / "file").touch()
    return folder


@pytest.mark.process
async def test_start_does_not_wait_for_old_folders(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    fill(data_dir / "workspaces")
    killed = fill(data_dir / ".deleted-0123")
    go, real = threading.Event(), module.delete_tree

    def delete(path: Path, stop: threading.Event | None = None) -> None:
        assert go.wait(30)
        real(path, stop)

    monkeypatch.setattr(module, "delete_tree", delete)
    async with WorkspaceRuns.open(world, Settings(data_dir=data_dir)):
        assert not (data_dir / "workspaces").exists() and killed.exists()
        go.set()
        await until(lambda: not list(data_dir.glob(".deleted-*")))


async def test_stop_leaves_the_rest_for_the_next_start(tmp_path: Path) -> None:
    assert set_aside(fill(tmp_path / "old")) is not None
    stop = threading.Event()
    stop.set()
    delete_leftovers(tmp_path, stop)
    assert len(list(tmp_path.glob(".deleted-*/*/*/file"))) == 3
    async with deleting_leftovers(tmp_path):
        await until(lambda: not list(tmp_path.iterdir()))


def test_nothing_is_set_aside_where_nothing_is(tmp_path: Path) -> None:
    assert set_aside(tmp_path / "old") is None
