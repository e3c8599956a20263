"""Blocks of a file beyond its end: they count, and go back after a call."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from sshwarma.common.units import KIB, MIB
from sshwarma.sandbox import watch
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.run_folder import Folder
from sshwarma.workspaces.tree import FILE_MODE, Entry

KEEP_SIZE = 1


def add_blocks(path: Path, size: int) -> None:
    """Do what `fallocate -n` does; skip the test where the file system cannot."""
    with path.open("ab") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.fallocate(file.fileno(), KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))
    if failed:
        pytest.skip("the file system has no blocks beyond the end of a file")


def count_bytes(folder: Path) -> int:
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*") if path.is_file())


def test_blocks_beyond_the_end_count_for_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_WORKSPACE_BYTES", 4 * MIB)
    for number in range(20):
        (tmp_path / f"small{number}").write_bytes(b"x")
    (tmp_path / "full").write_bytes(b"x" * (4 * MIB - 20))
    assert watch.find_folder_excess(tmp_path) == ""
    (tmp_path / "full").unlink()
    add_blocks(tmp_path / "big", 8 * MIB)
    assert (tmp_path / "big").stat().st_size == 0
    assert watch.find_folder_excess(tmp_path).startswith("its files became too large")


@pytest.mark.parametrize("name", ["new", "a/known"])
def test_blocks_beyond_the_end_are_gone_after_a_call(tmp_path: Path, name: str) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    folder = Folder(tmp_path / "rooms" / "r", blobs)
    tree = {"a/known": Entry(blobs.store(b"a"), FILE_MODE, 1)}
    folder.materialize(tree)
    add_blocks(folder.path / name, 8 * MIB)
    tree.setdefault(name, Entry(blobs.store(b"")))
    assert count_bytes(folder.path) >= 8 * MIB
    assert folder.snapshot().tree.keys() == tree.keys()
    assert count_bytes(folder.path) < 64 * KIB
    folder.materialize(tree)
    assert folder.snapshot().tree == tree, "the files are there again"
    assert count_bytes(folder.path) < 64 * KIB
