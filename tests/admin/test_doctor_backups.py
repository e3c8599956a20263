"""What the doctor says of backups that the server makes."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.backup_names import make_backup_name
from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.doctor_backups import check_made_backups
from sshwarma.admin.scheduled_backups import measure_needed_room
from sshwarma.common.units import HOUR_SECONDS, MIB
from sshwarma.settings import load_settings
from support.full_disk import small_disk


@pytest.fixture
def data(newborn: Path, tmp_path: Path) -> Path:
    """A data directory with a world."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    shutil.copyfile(newborn, path / "world.db")
    return path


def check(data: Path, **backup: Any) -> CheckResult:
    (found,) = check_made_backups(load_settings(data_dir=data, backup=backup))
    return found


def test_directory_of_backups_is_checked(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory, problem, remedy in (
        (tmp_path / "new", None, ""),
        (tmp_path / "new" / "deep", f"{tmp_path}/new does not exist", "install -d -m 0700"),
        (tmp_path / "file", f"{tmp_path}/file is not a directory", "name a directory"),
        (tmp_path / "file" / "x", f"{tmp_path}/file is not a directory", "name a directory"),
    ):
        found = check(data, every="1d", directory=directory)
        assert found.ok == (problem is None), found
        assert problem in (None, found.detail) and remedy in found.remedy
    found = check(data, every="1d", directory=data / "copies")
    assert found.detail.startswith(f"every 1d to {data / 'copies'}, none of this world yet")
    assert check(data, every="1d").ok


@pytest.mark.process  # it mounts
def test_too_little_room_for_the_next_backup_fails(data: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as is_mounted:
        if not is_mounted:
            pytest.skip("no right to mount")
        found = check(data, every="1h", directory=tmp_path / "small")
    needed = measure_needed_room(data / "world.db") // MIB + 1
    assert not found.ok
    assert found.detail.startswith(f"the next one needs {needed} MiB, and ")
    assert found.detail.endswith(f" MiB are free in {tmp_path}/small")


def test_backup_of_two_intervals_ago_is_a_warning(data: Path) -> None:
    now = int(time.time())
    with closing(sqlite3.connect(data / "world.db")) as database, database:
        database.execute("UPDATE things SET created_at = ? WHERE id = 'world'", (now * 1000,))
    assert check(data, every="1h").mark == "ok", "the world is too new for one"
    begin = (now - 30 * HOUR_SECONDS) * 1000
    with closing(sqlite3.connect(data / "world.db")) as database, database:
        database.execute("UPDATE things SET created_at = ? WHERE id = 'world'", (begin,))
    found = check(data, every="1h")
    assert (found.mark, found.detail.endswith("none of this world yet")) == ("warn", True)
    (data / "backups").mkdir()
    for hours, is_complete, mark, told in (
        (5, True, "warn", "the newest 5 h old"),
        (1, True, "ok", "the newest 1 h old"),
        (0, False, "warn", "the newest 0 min old, and without some contents of files"),
    ):
        at = time.time() - hours * HOUR_SECONDS - 1
        name = make_backup_name(f"{begin:x}", at, is_complete=is_complete)
        (data / "backups" / name).touch()
        found = check(data, every="1h")
        assert (found.mark, found.detail.endswith(told)) == (mark, True), found
