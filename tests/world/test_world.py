"""Opening a world."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sshwarma.world import rows, things
from sshwarma.world import world as world_module
from sshwarma.world.errors import Unavailable
from sshwarma.world.migrate import migrate_database
from sshwarma.world.sqlite_dialect import SqliteDialect
from sshwarma.world.store import Store
from sshwarma.world.world import World
from support.waiting import until


@pytest.mark.parametrize("name", ["has space", "50%25", "what?", "a#b", "ünïcode", "q'uote"])
async def test_world_opens_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "world.db"
    path.parent.mkdir()
    migrate_database(path)
    opened = Store(SqliteDialect(path), lambda _: None)
    await opened.write(lambda tx: things.create_thing(tx, None, "room", "den", id="den"))  # type: ignore[arg-type]
    assert await opened.read(lambda conn: things.get_thing(conn, "den")) is not None
    await opened.close()
    assert await asyncio.to_thread(os.listdir, tmp_path) == [name]


@pytest.mark.sqlite
async def test_index_that_cannot_be_written_is_a_warning(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk leaves no traceback, and the next row tries again."""
    tried = [0]

    async def refuse() -> None:
        tried[0] += 1
        raise Unavailable("The disk is full. Nothing was stored.")

    monkeypatch.setattr(world_module, "INDEX_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(world, "index_rows", refuse)
    for number in (1, 2):
        await world.change(lambda tx: rows.append_row(tx, "lobby", "chat", "hello", author_id=None))
        await until(lambda number=number: tried[0] >= number)
    await asyncio.sleep(0)
    out = capsys.readouterr().out
    assert out.count("the search index is behind") >= 1
    assert "Traceback" not in out
