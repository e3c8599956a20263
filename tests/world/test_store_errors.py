"""What people read when SQLite refuses a read or a change."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from sshwarma.world.errors import Unavailable
from sshwarma.world.store import Change, Store
from sshwarma.world.world import World


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

    store = Store(path, lambda event: None)
    with pytest.raises(Unavailable, match="database is damaged") as reading:
        await store.read(read)
    with pytest.raises(Unavailable, match="database is damaged") as writing:
        await store.write(write)
    for refused in (reading, writing):
        assert "sshwarma restore FILE --force" in str(refused.value)
    await store.close()
