"""Fixtures: `newborn`, the file of a new world; `world_file`, a copy of it.

A migration and the first tree take longer than most tests, and SQLAlchemy compiles each statement
again for each database: in a test run they share what is compiled.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.util import LRUCache

MAX_STATEMENTS = 2000


@pytest.fixture(scope="session")
def newborn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of a world that was just made, to be copied."""
    from sshwarma.verbs.registry import tool_specs
    from sshwarma.world.world import World

    path = tmp_path_factory.mktemp("newborn") / "world.db"

    async def once() -> None:
        await (await World.open(path, tool_specs())).close()

    with sharing_statements():
        asyncio.run(once())
        assert not path.with_name("world.db-wal").exists()
        yield path


@pytest.fixture
def world_file(newborn: Path, tmp_path: Path) -> Path:
    """The file of a new world of the test's own, `world.db` in its directory."""
    return Path(shutil.copyfile(newborn, tmp_path / "world.db"))


def damage_table(database: Path, table: str) -> None:
    """Overwrite the first pages of a table and its indexes; nobody has it open."""
    with closing(sqlite3.connect(database)) as opened:
        size = opened.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_schema WHERE tbl_name = ? AND rootpage > 0"
        pages = [page for (page,) in opened.execute(query, (table,))]
    with database.open("r+b") as file:
        for page in pages:
            file.seek(size * (page - 1))
            file.write(b"w" * size)


@contextmanager
def sharing_statements() -> Iterator[None]:
    """Give all engines of a store one dialect and cache of compiled statements."""
    from sshwarma.world import sqlite_engine

    first = create_engine("sqlite://", poolclass=NullPool)
    with first.connect():  # the first connection completes the dialect
        pass
    cache: LRUCache[Any, Any] = LRUCache(MAX_STATEMENTS)

    def create_sharing_engine(*args: Any, **options: Any) -> Engine:
        engine = create_engine(*args, **options).execution_options(compiled_cache=cache)
        engine.dialect = first.dialect
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_engine, "create_engine", create_sharing_engine)
        yield


def read_misnamed_tools(path: Path) -> list[str]:
    """Return the tools of a world whose stored names are not those that lists show."""
    from sshwarma.world.tool_names import make_stored_names

    with closing(sqlite3.connect(path)) as database:
        try:
            found = database.execute(
                "SELECT kind, qualified_name, name_for_models, name_for_mcp FROM things"
            ).fetchall()
        except sqlite3.DatabaseError:  # of a test that damages it
            return []
    return [
        str(name) for kind, name, *stored in found
        if stored != list(make_stored_names(kind, name).values())
    ]  # fmt: skip
