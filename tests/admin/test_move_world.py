"""Moves of a world between its file and PostgreSQL."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from sshwarma.admin import move_world
from sshwarma.admin.data_dir_lock import DataDirInUseError, lock_data_dir
from sshwarma.admin.file_tables import FileTables
from sshwarma.admin.move_world import MovedWorld, MoveError, move_to_file, move_to_postgres
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import rows, search
from sshwarma.world.databases import DatabaseUrl, make_dialect
from sshwarma.world.migrate import SchemaError
from sshwarma.world.move_mark import MARK_NAME, MovedWorldError, check_not_moved
from sshwarma.world.postgres_copy import BulkConnection
from sshwarma.world.world import World
from support.moved_worlds import BAD_META, fill, read_tables
from support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.process]


def report(step: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def database(world_file: Path) -> Path:
    """The file of a world with odd values."""
    world_file.parent.chmod(0o700)
    fill(world_file)
    return world_file


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[DatabaseUrl]:
    """An empty database."""
    made = postgres_server.create()
    yield made
    postgres_server.drop(made)


def tables_of(target: DatabaseUrl) -> set[str]:
    with psycopg.connect(target.text) as conn:
        found = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {name for (name,) in found}


async def test_world_is_equal_after_a_move_there_and_back(
    database: Path, empty: DatabaseUrl
) -> None:
    before = read_tables(database)
    there = move_to_postgres(database, empty, report)
    assert there.rows == sum(map(len, before.values()))
    assert there.changed_json == sum(row[10] in BAD_META for row in before["rows"]) > 0
    with psycopg.connect(empty.text) as conn:
        conn.execute("SELECT count(meta::jsonb) FROM rows")
        conn.execute("SELECT * FROM messages").fetchall()
        assert conn.execute("SELECT nextval('usage_id_seq')").fetchone() == (7,)
    back = move_to_file(empty, database, report)
    assert back.kept is not None and read_tables(back.kept) == before
    after = read_tables(database)
    assert after == before
    assert {name: one.sha256 for name, one in there.tables.items()} == {
        name: one.sha256 for name, one in back.tables.items()
    }


async def test_numbers_of_rows_go_on_above_the_highest_that_was_given(
    database: Path, empty: DatabaseUrl
) -> None:
    with closing(sqlite3.connect(database)) as opened:
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'rows'"
        [last] = opened.execute(query).fetchone()
    move_to_postgres(database, empty, report)
    assert await say(empty, "on PostgreSQL") > last
    move_to_file(empty, database, report)
    n = await say(database, "in the file")
    assert n > last + 1
    with closing(sqlite3.connect(database)) as opened:
        found = opened.execute("SELECT rowid FROM rows_fts WHERE rows_fts MATCH 'postgresql'")
        assert found.fetchone() is not None
        assert opened.execute("SELECT last_n FROM rows_indexed").fetchone()[0] >= n - 1
        opened.execute("INSERT INTO rows_fts (rows_fts, rank) VALUES ('integrity-check', 1)")


async def say(location: Path | DatabaseUrl, words: str) -> int:
    """Start a server's world, say something in it, and find that; return its number."""
    world = await World.open(location, tool_specs())
    try:
        row = await world.change(
            lambda tx: rows.append_row(tx, "lobby", "chat", words, author_id=None)
        )
        while await world.store.write(search.index_next_rows) if world.store.is_file else False:
            pass
        return row.n
    finally:
        await world.close()


def test_nul_becomes_visible_and_is_counted(database: Path, empty: DatabaseUrl) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("UPDATE rows SET content = 'a' || char(0) WHERE id = 'row-1'")
        opened.execute("UPDATE rows SET meta = '{\"a\":\"\\u0000b\"}' WHERE id = 'row-2'")
        opened.execute("UPDATE rows SET meta = '{\"a\":NaN,\"b\":1}' WHERE id = 'row-3'")
        opened.commit()
    moved = move_to_postgres(database, empty, report)
    assert moved.replaced_nul == 2
    with psycopg.connect(empty.text) as conn:
        query = "SELECT content, meta FROM rows WHERE id IN ('row-1', 'row-2', 'row-3') ORDER BY id"
        first, second, third = conn.execute(query).fetchall()
    assert first[0] == "a\N{SYMBOL FOR NULL}"
    assert second[1] == '{"a":"\N{SYMBOL FOR NULL}b"}'
    assert third[1] == '{"a":null,"b":1}'


async def test_no_server_starts_on_a_world_that_was_moved(
    database: Path, empty: DatabaseUrl
) -> None:
    move_to_postgres(database, empty, report)
    with pytest.raises(MovedWorldError, match=r'database = "postgresql://.*" into the settings'):
        check_not_moved(database)
    make_dialect(empty).prepare()
    move_to_file(empty, database, report)
    check_not_moved(database)
    with pytest.raises(MovedWorldError, match=r"world\.db\. Remove database"):
        make_dialect(empty).prepare()
    with pytest.raises(MovedWorldError):
        move_to_file(empty, database.parent / "other" / "world.db", report)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET content = content || ' ' WHERE n = (SELECT max(n) FROM rows)",
        "DELETE FROM row_tags WHERE row_id = 'row-9'",
        "UPDATE usage SET cost = cost + 1e-9 WHERE cost = 0.1",
        "UPDATE rows SET seq = seq + 1 WHERE n = (SELECT max(n) FROM rows)",
        "INSERT INTO input_lines (agent_id, line) SELECT id, 'x' FROM things LIMIT 1",
    ],
)
def test_copy_that_is_not_the_world_is_found_and_taken_back(
    database: Path, empty: DatabaseUrl, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    fill_postgres = move_world._fill_postgres

    def tamper(file: object, bulk: BulkConnection, moved: MovedWorld, step: object) -> None:
        fill_postgres(file, bulk, moved, step)  # type: ignore[arg-type]
        assert bulk.conn.exec_driver_sql(statement).rowcount

    monkeypatch.setattr(move_world, "_fill_postgres", tamper)
    with pytest.raises(MoveError, match="The copy is not the world: "):
        move_to_postgres(database, empty, report)
    check_not_moved(database)
    assert not tables_of(empty)
    monkeypatch.undo()
    move_to_postgres(database, empty, report)


def test_file_that_is_not_the_world_is_found_and_deleted(
    database: Path, empty: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_to_postgres(database, empty, report)
    build_index = FileTables.build_index

    def tamper(file: FileTables) -> None:
        build_index(file)
        file._opened.execute("UPDATE rows SET content = 'x' WHERE id = 'row-2'")

    monkeypatch.setattr(FileTables, "build_index", tamper)
    with pytest.raises(MoveError, match="The copy is not the world: rows has"):
        move_to_file(empty, database, report)
    make_dialect(empty).prepare()
    monkeypatch.undo()
    assert not list(database.parent.glob(".sshwarma-work-*"))
    move_to_file(empty, database, report)


class KilledError(BaseException):
    """Stands for the end of the process at some place."""


@pytest.mark.parametrize("direction", ["there", "back"])
@pytest.mark.parametrize("step", range(3))
async def test_move_that_ends_at_any_step_is_finished_by_the_same_command(
    database: Path,
    empty: DatabaseUrl,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    direction: str,
) -> None:
    before = read_tables(database)
    if direction == "back":
        move_to_postgres(database, empty, report)
    steps: list[str] = []

    def cut(name: str) -> Callable[..., object]:
        work = getattr(move_world, name)

        def run(*values: object) -> object:
            if len(steps) == step:
                raise KilledError
            steps.append(name)
            return work(*values)

        return run

    for name in ("write_table_mark", "write_file_mark", "delete_file_mark", "replace_database"):
        monkeypatch.setattr(move_world, name, cut(name))

    def move() -> MovedWorld:
        if direction == "there":
            return move_to_postgres(database, empty, report)
        return move_to_file(empty, database, report)

    with pytest.raises(KilledError):
        move()
    monkeypatch.undo()
    assert count_startable(database, empty) <= 1
    move()
    assert count_startable(database, empty) == 1
    if direction == "back":
        assert read_tables(database) == before
    else:
        assert len(read_tables(empty)["rows"]) == len(before["rows"])


def count_startable(database: Path, target: DatabaseUrl) -> int:
    """How many of two databases a server would start on, not counting an empty one."""
    checks: list[Callable[[], None]] = [lambda: check_not_moved(database)]
    if tables_of(target):
        checks.append(make_dialect(target).prepare)
    count = 0
    for check in checks:
        with contextlib.suppress(MovedWorldError):
            check()
            count += 1
    return count


def test_database_that_is_not_empty_is_refused(
    database: Path, empty: DatabaseUrl, postgres_server: PostgresServer
) -> None:
    with psycopg.connect(empty.text) as conn:
        conn.execute("CREATE TABLE mine (x int)")
    with pytest.raises(SchemaError, match="it has the table mine"):
        move_to_postgres(database, empty, report)
    check_not_moved(database)
    assert tables_of(empty) == {"mine"}


def test_running_server_is_refused(database: Path, empty: DatabaseUrl) -> None:
    with lock_data_dir(database.parent), pytest.raises(DataDirInUseError):
        move_to_postgres(database, empty, report)


async def test_server_on_the_database_is_refused(database: Path, empty: DatabaseUrl) -> None:
    move_to_postgres(database, empty, report)
    world = await World.open(empty, tool_specs())
    try:
        with pytest.raises(SchemaError, match="Another server uses"):
            move_to_file(empty, database, report)
    finally:
        await world.close()


def test_file_that_was_not_moved_is_not_replaced(database: Path, empty: DatabaseUrl) -> None:
    move_to_postgres(database, empty, report)
    (database.parent / MARK_NAME).unlink()
    with pytest.raises(FileExistsError, match="was not moved to postgresql://"):
        move_to_file(empty, database, report)


def test_values_that_cannot_be_moved_are_named(database: Path, empty: DatabaseUrl) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("UPDATE usage SET prompt_tokens = 3000000000 WHERE id = 2")
        opened.commit()
    with pytest.raises(SchemaError, match=r"in row 2 of usage, column prompt_tokens\."):
        move_to_postgres(database, empty, report)
    assert not tables_of(empty)
