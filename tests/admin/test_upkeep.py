"""What a server does by itself: retention, space on disk."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sshwarma.admin import upkeep
from sshwarma.admin.vacuum import rebuild_database
from sshwarma.common.units import DAY_MS, DAY_SECONDS, HOUR_SECONDS
from sshwarma.settings import RetentionSettings
from sshwarma.world import audit, free_pages, garbage, rows, things
from sshwarma.world.free_pages import read_free_pages
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do
from support.upkeep import Upkept


async def test_audit_is_deleted_after_its_days(house: Upkept, alice: Someone) -> None:
    await do(alice, "/put old = 1")
    world = alice.world
    everything = audit.AuditFilter()
    before = await world.store.read(lambda conn: audit.read_audit(conn, everything, 100))
    assert before
    house.settings.retention = RetentionSettings(audit_days=30)
    await house.pass_time(29.9 * DAY_SECONDS)
    assert await world.store.read(lambda c: audit.read_audit(c, everything, 100)) == before
    with capture_logs() as logs:
        await house.pass_time(0.2 * DAY_SECONDS)
    [row] = await world.store.read(lambda c: audit.read_audit(c, everything, 100))
    assert (row.door, row.verb, row.agent_id) == ("server", "retention", None)
    assert row.request == f"delete {len(before)} rows of the audit, audit_days = 30"
    assert {"event": "old rows of the audit were deleted", "count": len(before)}.items() <= logs[
        0
    ].items()


async def test_retention_of_new_settings_does_not_wait(house: Upkept, alice: Someone) -> None:
    await do(alice, "/put old = 1")
    await house.pass_time(31 * DAY_SECONDS)
    house.settings.retention = RetentionSettings(audit_days=30)
    everything = audit.AuditFilter()
    for is_woken, verb in ((False, "put"), (True, "retention")):
        if is_woken:
            house.upkeep.wake()  # as a reload does
        await house.pass_time(1)
        rows = await alice.world.store.read(lambda c: audit.read_audit(c, everything, 100))
        assert rows[-1].verb == verb


async def test_many_rows_of_the_audit_are_deleted_in_steps(house: Upkept, alice: Someone) -> None:
    def fill(tx: Any) -> None:
        for number in range(1_200):
            audit.record_change(tx, door="ssh", verb="login", request=str(number))

    await alice.world.change(fill)
    everything = audit.AuditFilter()
    before = await alice.world.store.read(lambda c: audit.read_audit(c, everything, 2_000))
    house.settings.retention = RetentionSettings(audit_days=1)
    await house.pass_time(2 * DAY_SECONDS)
    left = await alice.world.store.read(lambda conn: audit.read_audit(conn, everything, 100))
    assert [row.request for row in left] == [
        f"delete {len(before)} rows of the audit, audit_days = 1"
    ], "all steps leave one row"


async def test_deleted_things_are_purged_after_their_days(
    house: Upkept, alice: Someone, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.units_once("it counts what each run of a unit purges")
async def test_many_things_are_purged_in_steps_with_rows_of_the_audit(
    house: Upkept, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = alice.world

    def fill(tx: Change) -> None:
        """A chain of bags, each in the one before, of which a room's log names one."""
        for number in range(30):
            parent = "lobby" if number % 10 == 0 else f"bag{number - 1}"
            things.create_thing(tx, parent, "container", f"bag{number}", id=f"bag{number}")
        tx.conn.exec_driver_sql("UPDATE things SET deleted_at = 1 WHERE id LIKE 'bag%'")
        rows.append_row(tx, "lobby", "chat", "kept", author_id="bag5")

    await world.change(fill)
    steps: list[int] = []
    purge = garbage.purge_deleted_things

    def count_step(tx: Change, days: int, among: Any = None) -> garbage.Garbage:
        purged = purge(tx, days, among)
        steps.append(len(purged.things))
        return purged

    monkeypatch.setattr(garbage, "BATCH_THINGS", 7)
    monkeypatch.setattr(upkeep, "purge_deleted_things", count_step)
    house.settings.retention = RetentionSettings(deleted_days=30)
    await house.upkeep.run_due()
    left = await world.store.read(
        lambda conn: conn.exec_driver_sql("SELECT id FROM things WHERE id LIKE 'bag%'").all()
    )
    assert sorted(thing_id for [thing_id] in left) == [f"bag{number}" for number in range(6)]
    assert max(steps) <= 7 and sum(steps) == 24
    found = await world.store.read(
        lambda conn: audit.read_audit(conn, audit.AuditFilter(verbs=("retention",)), 100)
    )
    assert {row.door for row in found} == {"server"} and len(found) == sum(map(bool, steps))


async def fill_and_empty(world: World) -> None:
    """Store 8 MB of rows, and delete them."""

    def fill(tx: Any) -> None:
        for _ in range(2_000):
            rows.append_row(tx, "lobby", "chat", "x" * 4_000, author_id=None)

    await world.change(fill)
    await world.change(lambda tx: tx.conn.exec_driver_sql("DELETE FROM rows").rowcount)


async def test_unused_space_returns_to_the_disk(house: Upkept, world: World) -> None:
    await fill_and_empty(world)
    free = await world.store.read(read_free_pages)
    assert free.can_shrink and free.size > 7_000_000
    house.settings.retention = RetentionSettings(vacuum=False)
    await house.upkeep.run_due()
    assert await world.store.read(read_free_pages) == free
    house.settings.retention = RetentionSettings()
    await house.pass_time(HOUR_SECONDS)
    assert (await world.store.read(read_free_pages)).size < 4_000_000
    returned, is_shrunk = await house.upkeep.return_free_pages()
    assert returned > 0 and is_shrunk
    assert (await world.store.read(read_free_pages)).count == 0
    path = world.store.path
    assert path.stat().st_size < 2_000_000, "before the server stops"
    assert path.with_name("world.db-wal").stat().st_size == 0


async def test_files_that_somebody_reads_get_smaller_later(
    house: Upkept, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_pages, "CHECKPOINT_WAIT_SECONDS", 0.1)
    await fill_and_empty(world)
    with closing(sqlite3.connect(world.store.path, isolation_level=None)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM rows").fetchone()
        returned, is_shrunk = await house.upkeep.return_free_pages()
        assert returned > 7_000_000 and not is_shrunk
    assert free_pages.shrink_files(world.store.path)
    assert world.store.path.stat().st_size < 2_000_000


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
