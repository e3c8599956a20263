"""What a server does by itself: backups, retention, space on disk."""

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
from sshwarma.admin.backup import WORK_PREFIX, write_backup
from sshwarma.admin.restore import restore_backup
from sshwarma.admin.upkeep import RETRY_SECONDS, Upkeep
from sshwarma.admin.vacuum import rebuild_database
from sshwarma.common.units import DAY_MS, DAY_SECONDS, HOUR_SECONDS
from sshwarma.settings import BackupSettings, ReloadableSettings, RetentionSettings
from sshwarma.world import audit, garbage, rows
from sshwarma.world.free_pages import read_free_pages
from sshwarma.world.migrate import DamagedDatabaseError
from sshwarma.world.world import World
from support.people import Someone, do

DiskUsage = namedtuple("DiskUsage", "total used free")


class Clock:
    """The time of day, which a test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class House:
    """A world with its upkeep, whose settings and clock a test changes."""

    def __init__(self, world: World, data_dir: Path) -> None:
        self.clock, self.settings = Clock(), ReloadableSettings()
        self.upkeep = Upkeep(world, data_dir, self.settings, self.clock)
        self.directory = data_dir / "backups"

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the upkeep, and for the backups that exist."""
        self.clock.now += seconds
        await self.upkeep.run_due()

    def list(self) -> list[str]:
        found = scheduled_backups.list_backups(self.directory, self.clock.now)
        return [path.name for path in found]


@pytest.fixture
def house(world: World, tmp_path: Path) -> House:
    return House(world, tmp_path)


async def test_no_backup_unless_settings_ask_for_them(house: House) -> None:
    await house.upkeep.run_due()
    assert not house.directory.exists()


async def test_backups_are_made_in_time_and_rotate(house: House) -> None:
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


async def test_backups_of_a_time_to_come_neither_count_nor_go(house: House) -> None:
    """The clock was wrong for a while; what was made before stays."""
    house.settings.backup = BackupSettings(every="1h", keep=2)
    house.directory.mkdir()
    future = [f"world-2999-01-0{day}-000000.tar.gz" for day in (1, 2, 3)]
    for name in future:
        (house.directory / name).touch()
    await house.upkeep.run_due()
    (first,) = house.list()
    await house.pass_time(60)
    assert house.list() == [first], "made within the hour"
    await house.pass_time(HOUR_SECONDS)
    assert house.list()[0] == first and len(house.list()) == 2
    assert all((house.directory / name).exists() for name in future)


async def test_times_of_copied_files_do_not_decide(house: House) -> None:
    house.settings.backup = BackupSettings(every="1d", keep=2)
    for _ in range(2):
        await house.pass_time(1.1 * DAY_SECONDS)
    oldest, newest = house.list()
    os.utime(house.directory / oldest, (2**32, 2**32))
    await house.pass_time(1.1 * DAY_SECONDS)
    assert oldest not in house.list() and newest in house.list()


async def test_damaged_world_is_not_backed_up_and_nothing_is_rotated(
    house: House, world: World, tmp_path: Path
) -> None:
    """Damaged pages are copied like others; rotation would leave only such copies."""
    house.settings.backup = BackupSettings(every="1d", keep=1)
    await house.upkeep.run_due()
    (good,) = house.list()
    damaged = tmp_path / "damaged.db"
    write_damaged_copy(world.store.path, damaged)
    later = house.clock.now + DAY_SECONDS
    with pytest.raises(DamagedDatabaseError, match="is damaged"):
        scheduled_backups.make_backup(damaged, house.directory, 1, later, lambda: None)
    assert [path.name for path in house.directory.iterdir()] == [good]


def write_damaged_copy(database: Path, to: Path) -> None:
    """Copy a database, and overwrite a page of its table of things."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'things'"
        root = copy.execute(query).fetchone()[0]
        size = copy.execute("PRAGMA page_size").fetchone()[0]
        copy.execute("PRAGMA journal_mode = DELETE")
    with to.open("r+b") as file:
        file.seek((root - 1) * size + 8)
        file.write(b"\x77" * 200)


async def test_backup_that_fails_by_any_error_counts_and_cleaning_goes_on(
    house: House, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings.backup = BackupSettings(every="1d")
    house.settings.retention = RetentionSettings(audit_days=1)
    await world.change(
        lambda tx: audit.record_change(tx, door="cli", verb="keys", request="add somebody")
    )
    house.clock.now += 2 * DAY_SECONDS

    def fail(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(scheduled_backups, "make_backup", fail)
    await house.upkeep.run_due()
    await house.upkeep.run_due()
    assert house.upkeep.failed_backups == 1, "tried again after an hour"
    left = await world.store.read(lambda conn: audit.read_audit(conn, audit.AuditFilter(), 10))
    assert [entry.request for entry in left] == []


async def test_backup_of_the_server_can_be_restored(
    house: House, alice: Someone, tmp_path: Path
) -> None:
    await do(alice, "/put plan = to keep this")
    house.settings.backup = BackupSettings(every="12h", directory=tmp_path / "elsewhere")
    await house.upkeep.run_due()
    (made,) = (tmp_path / "elsewhere").iterdir()
    restore_backup(made, tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "world.db")) as database:
        found = database.execute("SELECT content FROM things WHERE name = 'plan'").fetchall()
    assert found == [("to keep this",)]


async def test_rotation_deletes_only_what_the_server_made(house: House) -> None:
    house.directory.mkdir()
    foreign = [house.directory / name for name in ("world-2026.tar.gz", "notes", "world.tar.gz")]
    for path in foreign:
        path.write_text("mine")
    house.settings.backup = BackupSettings(every="1h", keep=1)
    for _ in range(3):
        await house.pass_time(2 * HOUR_SECONDS)
    assert len(house.list()) == 1
    assert all(path.exists() for path in foreign)


async def test_failed_backup_is_logged_counted_and_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
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


async def test_directory_that_cannot_be_made_is_a_failure_with_its_name(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    house.settings.backup = BackupSettings(every="1d", directory=tmp_path / "file" / "backups")
    with capture_logs() as logs:
        await house.upkeep.run_due()
    assert str(tmp_path / "file") in logs[0]["reason"]


async def test_leftovers_of_a_killed_backup_are_deleted_a_day_later(
    house: House, tmp_path: Path
) -> None:
    house.directory.mkdir()
    old, young = (house.directory / f"{WORK_PREFIX}{name}" for name in ("old", "young"))
    in_data_dir = tmp_path / f"{WORK_PREFIX}stdout"
    for path in (old, young, in_data_dir):
        path.mkdir()
        (path / "world.db").write_text("half")
    long_ago = time.time() - 2 * DAY_SECONDS
    for path in (old, in_data_dir):
        os.utime(path, (long_ago, long_ago))
    house.settings.backup = BackupSettings(every="1d")
    await house.upkeep.run_due()
    assert (old.exists(), in_data_dir.exists(), young.exists()) == (False, False, True)


async def test_stopped_server_ends_its_backup_and_leaves_nothing(
    house: House, world: World, monkeypatch: pytest.MonkeyPatch
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


async def test_audit_is_deleted_after_its_days(house: House, alice: Someone) -> None:
    await do(alice, "/put old = 1")
    world = alice.world
    everything = audit.AuditFilter()
    before = await world.store.read(lambda conn: audit.read_audit(conn, everything, 100))
    assert before
    house.settings.retention = RetentionSettings(audit_days=30)
    await house.upkeep.run_due()
    assert await world.store.read(lambda c: audit.read_audit(c, everything, 100)) == before
    with capture_logs() as logs:
        await house.pass_time(31 * DAY_SECONDS)
    assert await world.store.read(lambda c: audit.read_audit(c, everything, 100)) == []
    assert {"event": "old rows of the audit were deleted", "count": len(before)}.items() <= logs[
        0
    ].items()


async def test_many_rows_of_the_audit_are_deleted_in_steps(house: House, alice: Someone) -> None:
    def fill(tx: Any) -> None:
        for number in range(1_200):
            audit.record_change(tx, door="ssh", verb="login", request=str(number))

    await alice.world.change(fill)
    house.settings.retention = RetentionSettings(audit_days=1)
    await house.pass_time(2 * DAY_SECONDS)
    left = await alice.world.store.read(
        lambda conn: audit.read_audit(conn, audit.AuditFilter(), 100)
    )
    assert left == []


async def test_deleted_things_are_purged_after_their_days(
    house: House, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do(alice, "/namespace new draft")
    await do(alice, "/namespace remove draft")
    world = alice.world
    house.settings.retention = RetentionSettings(deleted_days=30)

    async def count() -> int:
        found = await world.store.read(lambda conn: garbage.find_deleted_things(conn, 0))
        return sum(thing.name == "draft" for thing in found.things)

    assert await count() == 1
    await house.upkeep.run_due()
    assert await count() == 1
    monkeypatch.setattr(garbage, "now_ms", lambda: int(time.time() * 1000) + 31 * DAY_MS)
    await house.pass_time(31 * DAY_SECONDS)
    assert await count() == 0


async def fill_and_empty(world: World) -> None:
    """Store 8 MB of rows, and delete them."""

    def fill(tx: Any) -> None:
        for _ in range(2_000):
            rows.append_row(tx, "lobby", "chat", "x" * 4_000, author_id=None)

    await world.change(fill)
    await world.change(lambda tx: tx.conn.exec_driver_sql("DELETE FROM rows").rowcount)


async def test_unused_space_returns_to_the_disk(house: House, world: World) -> None:
    await fill_and_empty(world)
    free = await world.store.read(read_free_pages)
    assert free.can_shrink and free.size > 7_000_000
    house.settings.retention = RetentionSettings(vacuum=False)
    await house.upkeep.run_due()
    assert await world.store.read(read_free_pages) == free
    house.settings.retention = RetentionSettings()
    await house.pass_time(HOUR_SECONDS)
    assert (await world.store.read(read_free_pages)).size < 4_000_000
    assert await house.upkeep.return_free_pages() > 0
    assert (await world.store.read(read_free_pages)).count == 0
    path = world.store.path
    await world.close()
    assert path.stat().st_size < 2_000_000


def test_older_database_is_rebuilt_once(world_file: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    database = Path(shutil.move(world_file, data_dir / "world.db"))
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA auto_vacuum = NONE")
        opened.execute("VACUUM")
        opened.execute("CREATE TABLE big (x)")
        opened.execute("INSERT INTO big VALUES (zeroblob(5000000))")
        opened.execute("DROP TABLE big")
    assert rebuild_database(database) > 4_500_000
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_backup_holds_one_moment_while_others_write(
    house: House, world: World, tmp_path: Path
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
