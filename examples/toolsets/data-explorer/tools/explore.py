"""Tools for CSV files and SQLite databases: what is in them, and SQL on them."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sshwarma_toolset import get_context, tool

MAX_ROWS = 1000
"""Rows that one query returns at most."""

MAX_CELL = 80
"""Characters of a value in the drawn table."""


def open_data(path: str) -> sqlite3.Connection:
    """Open a file of the room: a database read-only, a CSV file as the table `data`."""
    workspace = get_context().workspace.resolve()
    file = (workspace / path).resolve()
    if not file.is_relative_to(workspace) or not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with file.open("rb") as opened:
        is_database = opened.read(16) == b"SQLite format 3\0"
    if is_database:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    return read_csv(file)


def read_csv(file: Path) -> sqlite3.Connection:
    """Read a CSV file into a database in memory; numbers become numbers."""
    with file.open(newline="", encoding="utf-8-sig") as opened:
        sample = opened.read(4096)
        opened.seek(0)
        try:
            dialect: Any = csv.Sniffer().sniff(sample, delimiters=",;\t|")
        except csv.Error:
            dialect = csv.excel
        rows = csv.reader(opened, dialect)
        names = unique_names(next(rows, []))
        if not names:
            raise ValueError("the file is empty")
        database = sqlite3.connect(":memory:")
        columns = ", ".join(f'"{name}" NUMERIC' for name in names)
        database.execute(f"CREATE TABLE data ({columns})")
        marks = ", ".join("?" for _ in names)
        database.executemany(
            f"INSERT INTO data VALUES ({marks})",
            ((row + [""] * len(names))[: len(names)] for row in rows if row),
        )
    return database


def unique_names(header: list[str]) -> list[str]:
    """Return names of columns that SQL can use: none empty, none twice."""
    names: list[str] = []
    for number, name in enumerate(header, 1):
        clean = name.strip().replace('"', "'") or f"column{number}"
        taken = {one.lower() for one in names}
        names.append(clean if clean.lower() not in taken else f"{clean}_{number}")
    return names


def draw_table(columns: list[str], rows: list[list[Any]]) -> str:
    """Return a table in Markdown."""

    def draw(values: list[Any]) -> str:
        texts = ["" if value is None else str(value) for value in values]
        cells = [text.replace("|", "\\|").replace("\n", " ")[:MAX_CELL] for text in texts]
        return f"| {' | '.join(cells)} |"

    return "\n".join([draw(columns), draw(["---"] * len(columns)), *map(draw, rows)])


@tool(name="Describe", description="List the tables and columns of a CSV file or database")
def describe(path: str) -> dict:
    """List tables with their columns and numbers of rows.

    Args:
        path: a CSV file or an SQLite database of the room; a CSV file is the table data.
    """
    with closing(open_data(path)) as database:
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        tables = [row[0] for row in database.execute(query) if not row[0].startswith("sqlite_")]
        found = []
        for table in tables:
            quoted = table.replace('"', '""')
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{quoted}")')]
            (count,) = database.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()
            found.append({"table": table, "columns": columns, "rows": count})
    lines = [[one["table"], ", ".join(one["columns"]), one["rows"]] for one in found]
    return {"tables": found, "table": draw_table(["table", "columns", "rows"], lines)}


@tool(name="Query", description="Run a SELECT on a CSV file or database of the room")
def query(path: str, sql: str, limit: int = 50) -> dict:
    """Run a query. The file is not changed.

    Args:
        path: a CSV file or an SQLite database of the room; a CSV file is the table data.
        sql: a SELECT, as SQLite reads it.
        limit: rows to return, at most 1,000.
    """
    most = max(1, min(limit, MAX_ROWS))
    with closing(open_data(path)) as database:
        database.execute("PRAGMA query_only = ON")
        cursor = database.execute(sql)
        if cursor.description is None:
            raise ValueError("this is not a query: only SELECT returns rows")
        columns = [column[0] for column in cursor.description]
        rows = [
            [value.hex() if isinstance(value, bytes) else value for value in row]
            for row in cursor.fetchmany(most + 1)
        ]
    is_cut = len(rows) > most
    rows = rows[:most]
    return {
        "columns": columns,
        "rows": rows,
        "is_cut": is_cut,
        "table": draw_table(columns, rows) + ("\n\nThere are more rows." if is_cut else ""),
    }
