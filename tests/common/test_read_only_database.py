"""Databases that are opened for reading only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.common.read_only_database import opened_read_only

SOURCES = Path(__file__).parents[2] / "src" / "sshwarma"


def test_database_is_read_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a ?#%41.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (x)")
    with opened_read_only(path) as opened:
        assert opened.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            opened.execute("DROP TABLE t")
    with pytest.raises(sqlite3.ProgrammingError):
        opened.execute("SELECT 1")


def test_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError), opened_read_only(tmp_path / "none.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_no_other_module_opens_a_database_so() -> None:
    users = [path.name for path in SOURCES.rglob("*.py") if "mode=ro" in path.read_text()]
    assert users == ["read_only_database.py"]
