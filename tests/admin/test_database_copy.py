"""Copies of databases that SQLite cannot open, and of those that it can."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import database_copy


def test_locked_database_on_a_nearly_full_disk_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer is in the middle of a change."""
    monkeypatch.setattr(database_copy, "MIN_WRITABLE_BYTES", 1 << 60)
    path = tmp_path / "world.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("CREATE TABLE teas (name)")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("INSERT INTO teas VALUES ('green')")
        with pytest.raises(OSError, match="was not copied: database is locked"):
            database_copy.copy_database(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
