"""Opening a world."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sshwarma.world import things
from sshwarma.world.migrate import migrate_database
from sshwarma.world.store import Store


@pytest.mark.parametrize("name", ["has space", "50%25", "what?", "a#b", "ünïcode", "q'uote"])
async def test_world_opens_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "world.db"
    path.parent.mkdir()
    migrate_database(path)
    opened = Store(path, lambda _: None)
    await opened.write(lambda tx: things.create_thing(tx, None, "room", "den", id="den"))  # type: ignore[arg-type]
    assert await opened.read(lambda conn: things.get_thing(conn, "den")) is not None
    await opened.close()
    assert await asyncio.to_thread(os.listdir, tmp_path) == [name]
