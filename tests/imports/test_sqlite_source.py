"""Databases of strangers: read, left as they are, and refused in words."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.common.limits import IMPORT_READ_SECONDS
from sshwarma.imports import sqlite_source
from sshwarma.imports.report import ImportReport
from sshwarma.imports.source import read_slop, recognise_source
from sshwarma.imports.sqlite_source import open_sqlite
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import PERSON
from support.sources import SLOP_SCHEMA, add_messages, hash_folder, make_slop


def read_all(file: Path) -> tuple[list[Any], ImportReport]:
    """Read a database of std::slop; return its steps and what is left out."""
    report = ImportReport()
    return list(read_slop(file, report)), report


def list_texts(file: Path) -> list[str]:
    """Return the texts of all rows that a database would become."""
    steps, _ = read_all(file)
    return [item.content for step in steps if step.kind == "rows" for item in step.items]


def test_file_and_folder_stay_as_they_are(tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    tmp_path.chmod(0o500)
    before = hash_folder(tmp_path)
    assert list_texts(file)
    assert hash_folder(tmp_path) == before
    tmp_path.chmod(0o700)


def test_rows_that_are_only_in_the_log_are_read(tmp_path: Path) -> None:
    """A program that runs, or was killed, has its newest rows there."""
    file = make_slop(tmp_path / "slop.db")
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    add_messages(writer, [(10, "other", "user", "only in the log", "", "completed", 9, None)])
    before = hash_folder(tmp_path)
    assert "slop.db-wal" in before
    assert "only in the log" in list_texts(file)
    assert hash_folder(tmp_path) == before
    writer.close()


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN")
connection.execute("UPDATE messages SET content = 'not committed' || hex(zeroblob(3000))")
connection.execute("UPDATE messages SET content = 'not committed'")
os._exit(0)
"""


@pytest.mark.process
def test_database_with_a_journal_is_refused(tmp_path: Path) -> None:
    """To roll it back, SQLite would delete a file that the journal names, anywhere."""
    file = make_slop(tmp_path / "slop.db")
    subprocess.run([sys.executable, "-c", KILLED, str(file)], check=True)
    before = hash_folder(tmp_path)
    assert "slop.db-journal" in before
    with pytest.raises(Invalid, match="has a journal beside it"):
        list_texts(file)
    assert hash_folder(tmp_path) == before
    other = make_slop(tmp_path / "other.db")
    other.with_name("other.db-journal").write_bytes(bytes(512))  # one that was finished, and kept
    assert "Thanks." in list_texts(other)


def test_file_that_is_written_to_meanwhile_is_refused(tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    with pytest.raises(Invalid, match="was written to while it was read"), open_sqlite(file):
        add_messages(
            sqlite3.connect(file), [(20, "other", "user", "new", "", "completed", 9, None)]
        )


def damage_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(data)


def damage_header(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[16:100] = b"\xff" * 84
    file.write_bytes(data)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


@pytest.mark.parametrize("damage", [damage_pages, damage_header, truncate])
def test_damaged_file_is_refused_in_words(damage: Callable[[Path], None], tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    damage(file)
    with pytest.raises(Invalid, match=r"slop\.db cannot be read: "):
        read_all(file)
    with pytest.raises(Invalid, match=r"cannot be read|has neither"):
        recognise_source(file)
        read_all(file)


def make_with(file: Path, *statements: str) -> Path:
    """Make a database of std::slop whose table of messages is something else."""
    connection = sqlite3.connect(file)
    connection.executescript(SLOP_SCHEMA)
    connection.execute("DROP TABLE messages")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return file


COLUMNS = "1 AS id, 's' AS session_id, 'user' AS role, 'completed' AS status, '' AS group_id"


def test_view_that_calls_a_function_is_refused(tmp_path: Path) -> None:
    view = f"CREATE VIEW messages AS SELECT {COLUMNS}, '' AS created_at, hex(randomblob(9)) content"
    file = make_with(tmp_path / "slop.db", view)
    with pytest.raises(Invalid, match="messages is a view, and not a table") as refused:
        read_all(file)
    assert "run code of the file" in str(refused.value)


def test_virtual_table_is_refused(tmp_path: Path) -> None:
    file = make_with(tmp_path / "slop.db", "CREATE VIRTUAL TABLE messages USING fts5(content)")
    with pytest.raises(Invalid, match="messages is a virtual table"):
        read_all(file)


def test_computed_column_is_as_one_that_is_missing(tmp_path: Path) -> None:
    table = (
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, status, created_at,"
        " group_id, content AS (upper(role)))"
    )
    file = make_with(tmp_path / "slop.db", table)
    with pytest.raises(Invalid, match="messages has no column content"):
        read_all(file)


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_source, "MAX_IMPORT_ROWS", 5)
    with pytest.raises(Invalid, match="messages has more than 5 rows"):
        read_all(make_slop(tmp_path / "slop.db"))


def test_query_without_an_end_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_slop(tmp_path / "slop.db")
    monkeypatch.setattr(sqlite_source, "IMPORT_READ_SECONDS", -1.0)
    monkeypatch.setattr(sqlite_source, "_OPERATIONS_PER_CHECK", 1)
    with pytest.raises(Invalid, match="the next row did not come within") as refused:
        read_all(file)
    said = f"{refused.value} {refused.value.hint_for(PERSON)}"
    assert "Run this command again" in said
    assert "damaged" not in said


def test_time_between_two_rows_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has much to do may store each step for minutes."""
    file = make_slop(tmp_path / "slop.db")
    passed = 0.0
    monkeypatch.setattr(sqlite_source, "time", SimpleNamespace(monotonic=lambda: passed))
    monkeypatch.setattr(sqlite_source, "_OPERATIONS_PER_CHECK", 1)
    steps = 0
    for _ in read_slop(file, ImportReport()):
        steps += 1
        passed += 10 * IMPORT_READ_SECONDS
    assert steps > 3


def test_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_source, "MAX_IMPORT_FILE_BYTES", 1000)
    with pytest.raises(Invalid, match="at most"):
        read_all(make_slop(tmp_path / "slop.db"))
