"""What the doctor says of a database that another process locks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sshwarma.admin import doctor_locks
from sshwarma.admin.doctor_locks import check_write_lock

pytestmark = pytest.mark.process

LOCK = """
import sqlite3, sys
opened = sqlite3.connect(sys.argv[1], isolation_level=None)
opened.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
opened.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(database: Path, mode: str) -> Iterator[int]:
    """Lock a database in another process, whose id is given."""
    words = [sys.executable, "-c", LOCK, str(database), mode]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "locked\n"
        yield other.pid
        other.stdin.close()


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_process_that_keeps_the_right_to_write_is_named(
    newborn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    database = tmp_path / "world.db"
    shutil.copyfile(newborn, database)
    monkeypatch.setattr(doctor_locks, "WRITE_CHECK_TIMEOUT_SECONDS", 0.1)
    assert list(check_write_lock(database)) == []
    with locked(database, mode) as process:
        (found,) = check_write_lock(database)
    assert not found.ok
    assert re.match(rf"process {process} \(python[\d.]*\) has locked ", found.detail)
    assert list(check_write_lock(database)) == []


def test_change_of_a_moment_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([1, 1, None])
    monkeypatch.setattr(doctor_locks, "_find_writer", lambda _: next(looks))
    assert list(check_write_lock(tmp_path / "world.db")) == []


def test_world_that_does_not_exist_has_no_finding(tmp_path: Path) -> None:
    assert list(check_write_lock(tmp_path / "world.db")) == []
