"""A world whose database is gone: it is named, and no new one takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.admin.lost_world import check_no_world_was_lost, find_traces_of_world
from sshwarma.admin.restore import restore_backup
from sshwarma.world.free_pages import shrink_files


def test_newest_backup_by_its_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    for name in ("world-1a-2026-01-31-120000.tar.gz", "world-1a-2026-01-30-120000.tar.gz"):
        (tmp_path / "backups" / name).touch()
    (tmp_path / "world-replaced-20260201-120000.db").touch()
    with pytest.raises(OSError, match=r"restore \S+/world-1a-2026-01-31-120000\.tar\.gz"):
        check_no_world_was_lost(tmp_path / "world.db")


@pytest.mark.parametrize("ending", ["wal", "journal"])
def test_log_without_its_database_is_of_a_lost_world(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"world.db-{ending}").touch()
    said = rf"world\.db-{ending} is of the world.* Else restore a backup\."
    with pytest.raises(OSError, match=said):
        check_no_world_was_lost(tmp_path / "world.db")


@pytest.mark.parametrize(
    "trace", ["backups/world-1a-2026-01-31-120000.tar.gz", "world-before-0012.db"]
)
def test_new_world_does_not_take_the_place_of_a_lost_one(tmp_path: Path, trace: str) -> None:
    database = tmp_path / "world.db"
    check_no_world_was_lost(database)
    (tmp_path / trace).parent.mkdir(exist_ok=True)
    (tmp_path / trace).touch()
    with pytest.raises(OSError, match=f"sshwarma restore {tmp_path / trace} --data-dir {tmp_path}"):
        check_no_world_was_lost(database)
    database.touch()
    check_no_world_was_lost(database)


def test_new_world_is_not_made_beside_files_of_a_lost_one(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "ab" / ("ab" * 32)
    blob.parent.mkdir(parents=True)
    check_no_world_was_lost(tmp_path / "world.db")
    blob.touch()
    with pytest.raises(OSError, match=r"has files of the world that was there\. Restore a backup"):
        check_no_world_was_lost(tmp_path / "world.db")


BACKUP = "backups/world-1a-2026-01-31-120000"


@pytest.mark.parametrize(
    ("best", "others"),
    [
        ("world-rescued-20260202-120000.db", [f"{BACKUP}.tar.gz", "world-before-0012.db"]),
        (f"{BACKUP}.tar.gz", ["world-rescued-20260129-120000.db", "world-rescued-mine.db"]),
        ("world-rescued-20251101-120000.db", ["world-before-0012.db", "world-rescued-mine.db"]),
        (f"{BACKUP}-2.tar.gz", [f"{BACKUP}.tar.gz"]),
        (f"{BACKUP}-10.tar.gz", [f"{BACKUP}-9.tar.gz", f"{BACKUP}.tar.gz"]),
        (f"{BACKUP}.tar.gz", ["backups/world-1a-2999-01-31-120000.tar.gz"]),
        (f"{BACKUP}.tar.gz", ["world-before-0012.db", "backups/world-old-copy.tar.gz"]),
        ("world-before-0012-2.db", ["world-before-0012.db", "world-before-0011-3.db"]),
        ("world-before-0012-10.db", ["world-before-0012-9.db"]),
        ("world-before-0012.db", ["world-replaced-20261101-120000.db"]),
        ("world-replaced-20261101-120000.db", ["world-replaced-20261031-120000.db"]),
        ("world-replaced-20261101-120000-2.db", ["world-replaced-20261101-120000.db"]),
        ("world-replaced-20261101-120000.db", ["world.db-wal"]),
        ("world-replaced-20261101-120000.db-wal", []),
    ],
)
def test_best_trace_is_the_one_made_last(tmp_path: Path, best: str, others: list[str]) -> None:
    (tmp_path / "backups").mkdir()
    for name in (best, *others):
        (tmp_path / name).touch()
    assert find_traces_of_world(tmp_path / "world.db")[0] == tmp_path / best


def test_backup_of_a_time_to_come_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    future = "world-1a-2999-01-31-120000.tar.gz"
    for name in (f"{BACKUP}.tar.gz", f"backups/{future}"):
        (tmp_path / name).touch()
    with pytest.raises(OSError, match=f"The date of {future} is in the future"):
        check_no_world_was_lost(tmp_path / "world.db")


def test_path_in_the_remedy_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    directory = tmp_path / "my world"
    directory.mkdir()
    (directory / "world-before-0012.db").touch()
    with pytest.raises(OSError, match=f"restore '{directory}/world-before-0012.db' --data-dir '"):
        check_no_world_was_lost(directory / "world.db")


def test_link_to_a_disk_that_is_missing_is_no_new_world(tmp_path: Path) -> None:
    (tmp_path / "world.db").symlink_to("/missing/world.db")
    with pytest.raises(OSError, match=r"is a link to /missing/world\.db, which does not exist"):
        check_no_world_was_lost(tmp_path / "world.db")


def test_restore_replaces_no_link(database: Path, made: Path, tmp_path: Path) -> None:
    directory = tmp_path / "linked"
    directory.mkdir(mode=0o700)
    link = directory / "world.db"
    link.symlink_to(database)
    before = database.read_bytes()
    with pytest.raises(OSError, match=f"is a link to {database}, and restore replaces no link"):
        restore_backup(made, directory, force=True)
    assert link.readlink() == database and database.read_bytes() == before


def test_no_file_is_made_where_a_database_is_gone(tmp_path: Path) -> None:
    """A server that returns space to the disk would hide that it is."""
    assert not shrink_files(tmp_path / "world.db")
    assert not list(tmp_path.iterdir())
