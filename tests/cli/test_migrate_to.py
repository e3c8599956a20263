"""`sshwarma migrate-to` as people type it, and its kills."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sshwarma.cli.main import main
from sshwarma.settings import logs
from sshwarma.world.databases import DatabaseUrl
from support.driver.server import PROGRAM
from support.moved_worlds import fill, read_tables
from support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.process]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SSHWARMA_DATABASE", raising=False)


@pytest.fixture
def data(world_file: Path) -> Path:
    """The data directory of a world with odd values."""
    fill(world_file)
    world_file.parent.chmod(0o700)
    return world_file.parent


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[DatabaseUrl]:
    """An empty database."""
    made = postgres_server.create()
    yield made
    postgres_server.drop(made)


def start(data: Path, *words: str, database: str = "") -> subprocess.Popen[str]:
    environ = {**os.environ, "HOME": str(data), "SSHWARMA_DATABASE": database}
    command = [str(PROGRAM), *words, "--data-dir", str(data)]
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(data: Path, *words: str, database: str = "") -> tuple[int, str, str]:
    process = start(data, *words, database=database)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_world_goes_on_where_it_was_moved_to(data: Path, empty: DatabaseUrl) -> None:
    before = read_tables(data / "world.db")
    status, out, err = run(data, "migrate-to", empty.text)
    assert status == 0, err
    assert "rows a second. Both are equal." in out and f'Write database = "{empty.text}"' in out
    status, out, err = run(data, "agents", "list")
    assert status == 1 and f"is in {empty.text}" in err
    assert f'Write database = "{empty.text}" into the settings.' in err
    status, out, err = run(data, "serve", "--listen", "127.0.0.1:0", "--http", "off")
    assert status == 1 and f"is in {empty.text}" in err
    status, out, err = run(data, "audit", "--verb", "migrate-to", "--json", database=empty.text)
    assert status == 0 and empty.text in out
    status, out, err = run(data, "migrate-to", "sqlite", "--json", database=empty.text)
    assert status == 0, err
    moved = json.loads(out)
    assert moved["tables"]["usage"]["rows"] == len(before["usage"])
    assert Path(moved["replaced"]).name.startswith("world-replaced-")
    after = read_tables(data / "world.db")
    assert own_rows(after) == own_rows(before) and after["usage"] == before["usage"]
    status, out, err = run(data, "agents", "list", database=empty.text)
    assert status == 1 and "Remove database from the settings." in err
    assert run(data, "agents", "list")[0] == 0


@pytest.mark.parametrize("direction", ["there", "back"])
@pytest.mark.parametrize("table", ["things", "rows", "usage"])
def test_move_that_is_killed_leaves_the_world_where_it_was(
    data: Path, empty: DatabaseUrl, table: str, direction: str
) -> None:
    """It waits for a lock that this test holds, and is killed there."""
    before = read_tables(data / "world.db")
    database = ""
    if direction == "back":
        assert run(data, "migrate-to", empty.text)[0] == 0
        database = empty.text
        with psycopg.connect(empty.text) as conn:
            conn.execute(f'LOCK TABLE "{table}" IN ACCESS EXCLUSIVE MODE'.encode())
            moving = start(data, "migrate-to", "sqlite", database=database)
            wait_for_lock(conn)
            end(moving)
    else:
        with psycopg.connect(empty.text) as conn:
            conn.execute("SELECT pg_advisory_lock(1)")
            conn.execute(STOP_AT.format(table=table).encode())
            conn.commit()
            moving = start(data, "migrate-to", empty.text)
            wait_for_lock(conn)
            end(moving)
            conn.execute("SELECT pg_advisory_unlock_all()")
            conn.execute("DROP EVENT TRIGGER stop_at")
    assert not list(data.glob("world-move*")) or direction == "back"
    assert run(data, "agents", "list", database=database)[0] == 0, "it is usable"
    target = "sqlite" if direction == "back" else empty.text
    status, _, err = run(data, "migrate-to", target, database=database)
    assert status == 0, err
    assert not list(data.glob(".sshwarma-work-*"))
    after = read_tables(data / "world.db" if direction == "back" else empty)
    assert own_rows(after) == own_rows(before)


STOP_AT = """
CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1);
    RETURN NEW;
END $$;
CREATE FUNCTION stop_at() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('{table}') IS NOT NULL THEN
        CREATE OR REPLACE TRIGGER stop BEFORE INSERT ON {table}
            FOR EACH ROW EXECUTE FUNCTION stop();
    END IF;
END $$;
CREATE EVENT TRIGGER stop_at ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
    EXECUTE FUNCTION stop_at();
"""
"""Stops who writes into a table, so that a move is killed while it copies it."""


def wait_for_lock(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Wait until another connection waits for a lock."""
    conn.execute("SELECT 1")
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(conn.info.dsn, autocommit=True) as other:
        while other.execute(query.encode()).fetchone() == (0,):
            other.execute("SELECT pg_sleep(0.02)")


def end(moving: subprocess.Popen[str]) -> None:
    moving.send_signal(signal.SIGKILL)
    moving.communicate(timeout=30)
    assert moving.returncode == -signal.SIGKILL


def own_rows(tables: dict[str, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """The rows that the test has made, without metadata."""
    return [row[:10] for row in tables["rows"] if row[1].startswith("row-")]


def test_progress_is_shown_on_a_terminal(data: Path, empty: DatabaseUrl) -> None:
    master, terminal = pty.openpty()
    environ = {**os.environ, "HOME": str(data)}
    command = [str(PROGRAM), "migrate-to", empty.text, "--data-dir", str(data)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while block := os.read(master, 65536):
            shown += block
    except OSError:  # its end
        pass
    os.close(master)
    assert process.wait(30) == 0
    assert b"rows: 300 of 300 rows" in shown and b"comparison of rows" in shown
    assert shown.rstrip().rpartition(b"\r\x1b[K")[2].startswith((b"", b"World"))


@pytest.mark.parametrize(
    ("words", "database", "said"),
    [
        (["postgresql://me:hidden@127.0.0.1/world"], "", "a URL must not contain a password"),
        (["mysql://127.0.0.1/world"], "", "must be a URL, such as postgresql://"),
        (["sqlite"], "", "so the world is in a file already"),
        (["postgresql://a@127.0.0.1/b"], "postgresql://a@127.0.0.1/c", "already: the settings"),
        (["postgresql://nobody@127.0.0.1:1/world"], "", "cannot be used: connection"),
    ],
)
def test_refusals_say_what_is_wrong_and_show_no_password(
    data: Path,
    words: list[str],
    database: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSHWARMA_DATABASE", database)
    assert main(["migrate-to", *words, "--data-dir", str(data)]) != 0
    printed = capsys.readouterr()
    shown = " ".join((printed.out + printed.err).split())
    assert said in shown and "hidden" not in shown
