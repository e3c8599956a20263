"""What people read when SQLite refuses a read or a change."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from sshwarma.world.errors import Unavailable
from sshwarma.world.sqlite_dialect import SqliteDialect
from sshwarma.world.store import Change, Store
from sshwarma.world.world import World
from sshwarma.world.write_check import WriteCheck
from support.databases import damage_table

pytestmark = pytest.mark.sqlite


async def test_damage_is_a_sentence_with_the_remedy(world: World) -> None:
    await world.close()
    path = world.store.path
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"w" * (path.stat().st_size - 4096))

    def read(conn: Connection) -> list[Any]:
        return list(conn.exec_driver_sql("SELECT * FROM things"))

    def write(tx: Change) -> None:
        tx.conn.exec_driver_sql("UPDATE things SET description = 'x'")

    store = Store(SqliteDialect(path), lambda event: None)
    with pytest.raises(Unavailable, match="database is damaged") as reading:
        await store.read(read)
    with pytest.raises(Unavailable, match="database is damaged") as writing:
        await store.write(write)
    for refused in (reading, writing):
        assert "sshwarma restore FILE --force" in str(refused.value)
    await store.close()


@pytest.mark.parametrize("is_read", [True, False])
async def test_health_check_fails_once_damage_was_found(world: World, *, is_read: bool) -> None:
    """Although its own write, of the first page, succeeds."""
    await world.close()
    damage_table(world.store.path, "invites")
    store = Store(SqliteDialect(world.store.path), lambda event: None)
    check = WriteCheck(store)
    await check.run()
    with pytest.raises(Unavailable, match="database is damaged"):
        if is_read:
            await store.read(lambda conn: conn.exec_driver_sql("SELECT * FROM invites").all())
        else:
            await store.write(lambda tx: tx.conn.exec_driver_sql("DELETE FROM invites"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="database is damaged") as failing:
            await check.run()
        assert "sshwarma doctor shows the damage, and sshwarma restore FILE" in str(failing.value)
    await store.close()
