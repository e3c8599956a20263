"""Disks that are full: a small file system, or a limit of a process's files."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes

SMALL_DISK = "16m"


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """Mount a small file system at a directory; yields whether that is allowed here."""
    directory.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(directory)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextlib.contextmanager
def server_on_small_disk() -> Iterator[Server]:
    """Run a server on a small file system; skip the test where none can be."""
    with homes() as home:
        place = home()
        with small_disk(place / "data") as is_mounted:
            if not is_mounted:
                pytest.skip("no file system can be mounted here")
            server = Server(place)
            yield server
            assert server.stop() == 0


@contextlib.contextmanager
def filled(directory: Path) -> Iterator[None]:
    """Take all free bytes of a directory's file system, for a while."""
    filling = directory / "filling"
    with filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    try:
        assert os.statvfs(directory).f_bavail == 0
        yield
    finally:
        filling.unlink()


@contextlib.contextmanager
def files_limited(pid: int, size: int) -> Iterator[None]:
    """Let no file of a process grow beyond `size` bytes, for a while."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def no_room_for(pid: int, directory: Path, *, is_mounted: bool) -> Iterator[None]:
    """Fill a small file system, or if none is mounted limit the process."""
    with (
        filled(directory)
        if is_mounted
        else files_limited(pid, (directory / "world.db-wal").stat().st_size)
    ):
        yield
