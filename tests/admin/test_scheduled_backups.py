"""Backups that a server makes by itself: when, how many, and what a failure does."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tarfile
import time
from collections import namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sshwarma.admin import scheduled_backups
from sshwarma.admin.backup import write_backup
from sshwarma.admin.data_dir_owner import ForeignDataDirError
from sshwarma.admin.database_copy import measure_size
from sshwarma.admin.restore import restore_backup
from sshwarma.admin.upkeep import RETRY_SECONDS, Upkeep
from sshwarma.admin.work_directory import WORK_PREFIX, make_work_directory
from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS
from sshwarma.settings import BackupSettings, RetentionSettings
from sshwarma.workspaces import manifests
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.tree import Entry
from sshwarma.world import rows
from sshwarma.world.world import World
from support.people import Someone, do, settle
from support.upkeep import Upkept

DiskUsage = namedtuple("DiskUsage", "total used free")


async def test_no_backup_unless_settings_ask_for_them(house: Upkept) -> None:
    await house.upkeep.run_due()
    assert not house.directory.exists()


async def test_backups_are_made_in_time_and_rotate(house: Upkept) -> None:
    house.settings.backup = BackupSettings(every="1d", keep=3)
    with capture_logs() as logs:
        await house.upkeep.run_due()
    (first,) = house.list()
    assert [entry["event"] for entry in logs] == ["backup"]
    assert logs[0]["file"].endswith(first) and logs[0]["bytes"] > 0
    assert house.directory.stat().st_mode & 0o777 == 0o700
    await house.pass_time(0.9 * DAY_SECONDS)
    assert house.list() == [first], "not due yet"
    for _ in range(4):
        await house.pass_time(1.1 * DAY_SECONDS)
    assert len(house.list()) == 3
    assert first not in house.list()


async def test_backup_of_the_server_can_be_restored(
    house: Upkept, alice: Someone, tmp_path: Path
) -> None:
    await do(alice, "/put plan = to keep this")
    house.settings.backup = BackupSettings(every="12h", directory=tmp_path / "elsewhere")
    await house.upkeep.run_due()
    (made,) = (tmp_path / "elsewhere").iterdir()
    restore_backup(made, tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "world.db")) as database:
        found = database.execute("SELECT content FROM things WHERE name = 'plan'").fetchall()
    assert found == [("to keep this",)]


async def test_rotation_deletes_only_what_the_server_made(house: Upkept) -> None:
    house.directory.mkdir()
    foreign = [house.directory / name for name in ("world-1-2026.tar.gz", "notes", "world.tar.gz")]
    for path in foreign:
        path.write_text("mine")
    house.settings.backup = BackupSettings(every="1h", keep=1)
    for _ in range(3):
        await house.pass_time(2 * HOUR_SECONDS)
    assert len(house.list()) == 1
    assert all(path.exists() for path in foreign)


async def test_failed_backup_is_logged_counted_and_tried_again(
    house: Upkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings.backup = BackupSettings(every="1d")
    usage = DiskUsage(10**9, 10**9, 4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with capture_logs() as logs:
        await house.upkeep.run_due()
        await house.upkeep.run_due()
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("the backup failed", "error")
    ]
    assert "MiB are free" in logs[0]["reason"]
    assert house.upkeep.failed_backups == 1
    assert house.list() == []
    monkeypatch.undo()
    await house.pass_time(RETRY_SECONDS - 1)
    assert house.list() == []
    await house.pass_time(2)
    assert len(house.list()) == 1


def overwrite_rows(database: Path) -> None:
    """Damage pages of rows in the file, as a bad disk does."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = database.read_bytes()
    at = content.index(b"x" * 3_000) // 4096 * 4096
    with database.open("r+b") as file:
        file.seek(at)
        file.write(b"w" * 4096)


async def test_damaged_database_is_not_backed_up_and_no_backup_is_deleted(
    house: Upkept, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings.backup = BackupSettings(every="1h", keep=1)
    await house.upkeep.run_due()
    good = house.list()
    await world.change(
        lambda tx: [rows.append_row(tx, "lobby", "chat", "x" * 9_000, author_id=None)
                    for _ in range(100)]
    )  # fmt: skip
    overwrite_rows(world.store.path)
    with capture_logs() as logs:
        await house.pass_time(2 * HOUR_SECONDS)
        await house.upkeep.run_due()
    assert house.list() == good
    (failure,) = (entry for entry in logs if entry["event"] == "the backup failed")
    assert "is damaged" in failure["reason"] and "Restore a backup" in failure["reason"]
    assert house.upkeep.failed_backups == 1


@pytest.mark.parametrize(
    "error",
    [ForeignDataDirError("a file of root.", "Give it back."), ValueError("a mistake of ours")],
)
async def test_failure_of_any_kind_waits_an_hour_and_lets_retention_go_on(
    house: Upkept, alice: Someone, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    await do(alice, "/put old = 1")
    monkeypatch.setattr(scheduled_backups, "write_backup", fail)
    house.settings.backup = BackupSettings(every="1h")
    house.settings.retention = RetentionSettings(audit_days=30)
    with capture_logs() as logs:
        await house.pass_time(31 * DAY_SECONDS)
        await house.upkeep.run_due()
    events = [entry["event"] for entry in logs]
    assert events.count("the backup failed") == 1 and house.upkeep.failed_backups == 1
    assert "old rows of the audit were deleted" in events
    monkeypatch.undo()
    house.upkeep.wake()  # as a reload does
    await house.upkeep.run_due()
    assert len(house.list()) == 1


async def test_backups_of_a_clock_that_was_wrong_neither_hide_nor_displace_others(
    house: Upkept,
) -> None:
    house.settings.backup = BackupSettings(every="1h", keep=3)
    for _ in range(3):
        await house.pass_time(2 * HOUR_SECONDS)
    real = house.list()
    future = [f"world-{house.world_id}-2127-01-0{day}-000000.tar.gz" for day in (1, 2)]
    for name in future:
        (house.directory / name).write_text("of a wrong clock")
    await house.pass_time(60)
    assert house.list() == [*future, *real], "the last real one is recent"
    await house.pass_time(2 * HOUR_SECONDS)
    left = house.list()
    assert len(left) == 3 and left[:2] == real[1:], "first those of the wrong clock are deleted"
    house.settings.backup = BackupSettings(every="1h", keep=1)
    for name in future:
        (house.directory / name).write_text("of a wrong clock")
    await house.pass_time(2 * HOUR_SECONDS)
    (newest,) = house.list()
    assert newest > left[-1] and newest not in future


async def test_age_of_a_backup_is_in_its_name(house: Upkept) -> None:
    """Copying a directory of backups gives all files a new time."""
    house.settings.backup = BackupSettings(every="1h", keep=2)
    made = []
    for _ in range(2):
        await house.pass_time(2 * HOUR_SECONDS)
        made += [name for name in house.list() if name not in made]
    os.utime(house.directory / made[0], (house.clock.now, house.clock.now))
    os.utime(house.directory / made[1], (1, 1))
    await house.pass_time(2 * HOUR_SECONDS)
    assert house.list()[0] == made[1]


async def test_worlds_in_one_directory_keep_each_others_backups(
    house: Upkept, world: World, tmp_path: Path
) -> None:
    """As of two hosts on one share, and of a world that took the place of a lost one."""
    shared = tmp_path / "shared"
    shared.mkdir()
    house.settings.backup = BackupSettings(every="1h", keep=1, directory=shared)
    foreign = [f"world-19abcdef012-2020-01-0{day}-000000.tar.gz" for day in (1, 2)]
    for name in foreign:
        (shared / name).touch()
    (shared / ".sshwarma-world").symlink_to(world.store.path)
    before = world.store.path.read_bytes()[:100]
    await house.upkeep.run_due()
    await house.pass_time(2 * HOUR_SECONDS)
    names = {path.name for path in shared.iterdir()}
    assert len(names) == 4 and set(foreign) < names
    assert world.store.path.read_bytes()[:100] == before


async def test_metrics_forget_a_backup_when_backups_are_turned_off(house: Upkept) -> None:
    house.settings.backup = BackupSettings(every="1w")
    await house.upkeep.run_due()
    assert house.upkeep.newest_backup is not None
    assert house.upkeep.backup_interval == 7 * DAY_SECONDS
    house.settings.backup = BackupSettings()
    await house.upkeep.run_due()
    after = house.upkeep
    assert after.newest_backup is None and after.backup_interval is None


@pytest.mark.parametrize(("spare", "made"), [(-1, 0), (0, 1)])
async def test_backup_leaves_room_for_two_copies_and_the_changes_of_people(
    house: Upkept, world: World, monkeypatch: pytest.MonkeyPatch, spare: int, made: int
) -> None:
    needed = 2 * measure_size(world.store.path) + scheduled_backups.RESERVED_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(10**9, 0, needed + spare))
    house.settings.backup = BackupSettings(every="1d")
    await house.upkeep.run_due()
    assert len(house.list()) == made


async def test_directory_that_cannot_be_made_is_a_failure_with_its_name(
    house: Upkept, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    house.settings.backup = BackupSettings(every="1d", directory=tmp_path / "file" / "backups")
    with capture_logs() as logs:
        await house.upkeep.run_due()
    reason = logs[0]["reason"]
    assert str(tmp_path / "file") in reason and "Errno" not in reason


async def test_leftovers_of_a_killed_backup_are_deleted(
    house: Upkept, world: World, tmp_path: Path
) -> None:
    house.directory.mkdir()
    old = house.directory / f"{WORK_PREFIX}old"
    in_data_dir = world.store.path.parent / f"{WORK_PREFIX}stdout"
    for path in (old, in_data_dir):
        path.mkdir()
        (path / "world.db").write_text("half")
    link = house.directory / f"{WORK_PREFIX}link"
    link.symlink_to(tmp_path)
    house.settings.backup = BackupSettings(every="1d")
    with make_work_directory(house.directory) as in_use:
        await house.upkeep.run_due()
        assert (old.exists(), in_data_dir.exists(), in_use.exists()) == (False, False, True)
    assert len(house.list()) == 1 and tmp_path.exists()


async def test_stopped_server_ends_its_backup_and_leaves_nothing(
    house: Upkept, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying, going = asyncio.Event(), asyncio.get_running_loop()

    def write_slowly(database: Path, to: Path, check: Any) -> None:
        going.call_soon_threadsafe(copying.set)
        while True:  # as a world of many GB
            check()
            time.sleep(0.001)

    monkeypatch.setattr(scheduled_backups, "write_backup", write_slowly)
    house.settings.backup = BackupSettings(every="1d")
    working = asyncio.create_task(house.upkeep.watch())
    await copying.wait()
    working.cancel()
    await asyncio.wait([working])
    assert working.cancelled()
    assert list(house.directory.iterdir()) == []


@pytest.mark.parametrize("when", ["copy", "archive"])
def test_backup_ends_when_its_check_raises(world_file: Path, tmp_path: Path, when: str) -> None:
    calls, limit = 0, {"copy": 1, "archive": 2}[when]

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == limit:
            raise InterruptedError("stop")

    target = tmp_path / "to"
    target.mkdir()
    with pytest.raises(InterruptedError):
        write_backup(world_file, target / "b.tar.gz", check)
    assert list(target.iterdir()) == []


async def test_backup_holds_one_moment_while_others_write(
    house: Upkept, world: World, tmp_path: Path
) -> None:
    """A copy in steps must not start again with each change: it would not end."""
    await world.change(
        lambda tx: [rows.append_row(tx, "lobby", "chat", "x" * 9_000, author_id=None)
                    for _ in range(4_000)]
    )  # fmt: skip
    going = True

    async def talk() -> None:
        while going:
            await world.change(
                lambda tx: rows.append_row(tx, "lobby", "chat", "hi", author_id=None)
            )

    talking = asyncio.create_task(talk())
    house.settings.backup = BackupSettings(every="1d")
    await house.upkeep.run_due()
    going = False
    await talking
    (name,) = house.list()
    with tarfile.open(house.directory / name) as tar:
        assert tar.getnames() == ["manifest.json", "world.db"]


async def test_backups_go_on_without_lost_contents_and_displace_no_complete_one(
    house: Upkept, world: World
) -> None:
    store = BlobStore(world.store.path.parent / "blobs")
    changes = {"plan.md": Entry(store.store(b"plan"), size=4)}
    await settle(
        world,
        lambda tx: manifests.append_manifest(tx, "lobby", {}, changes, source="user_upload"),
    )
    house.settings.backup = BackupSettings(every="1h", keep=2)
    for _ in range(2):
        await house.pass_time(2 * HOUR_SECONDS)
    complete = house.list()
    (blob,) = store.directory.glob("??/*")
    blob.unlink()
    with capture_logs() as logs:
        for _ in range(4):
            await house.pass_time(2 * HOUR_SECONDS)
    warnings = [one for one in logs if one["event"] == "the backup lacks contents of files"]
    assert len(warnings) == 4 and warnings[0]["contents"] == 1
    assert warnings[0]["files"].startswith("plan.md in lobby, version ")
    assert house.list()[:2] == complete
    assert [name.endswith("-incomplete.tar.gz") for name in house.list()[2:]] == [True, True]
    assert (house.upkeep.failed_backups, house.upkeep.is_newest_complete) == (0, False)
    again = Upkeep(world, house.directory.parent, house.settings, house.clock)
    await again.run_due()
    assert not again.is_newest_complete, "known after a restart, too"
    store.store(b"plan")
    for _ in range(2):
        await house.pass_time(2 * HOUR_SECONDS)
    assert len(house.list()) == 2 and house.upkeep.is_newest_complete
    assert not any("incomplete" in name for name in house.list())
