"""The tables and views of a world, the same on each database (`/schema`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateTable

from sshwarma.world.report_errors import READABLE_TABLES
from sshwarma.world.schema import metadata


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a table or view; `type` is "" for a computed column."""

    name: str
    type: str
    key: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view. `readable`: whether /sql can select from it."""

    name: str
    kind: str
    readable: bool
    columns: tuple[SchemaColumn, ...]
    sql: str


_SQLITE_RELATIONS: Final = (
    "SELECT name, type, sql FROM sqlite_master WHERE type IN ('view', 'table') ORDER BY name"
)
_SQLITE_COLUMNS: Final = (
    'SELECT :name, name, type, pk, "notnull" FROM pragma_table_xinfo(:name) ORDER BY cid'
)

_POSTGRES_RELATIONS: Final = (
    "SELECT relname, CASE relkind WHEN 'v' THEN 'view' ELSE 'table' END,"
    " CASE relkind WHEN 'v' THEN pg_get_viewdef(oid, true) END FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v')"
    " ORDER BY relname"
)
_POSTGRES_COLUMNS: Final = (
    "SELECT c.relname, a.attname, upper(format_type(a.atttypid, NULL)),"
    " EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary"
    " AND a.attnum = ANY (i.indkey)), a.attnotnull FROM pg_class c"
    " JOIN pg_attribute a ON a.attrelid = c.oid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v')"
    " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum"
)


DIALECT_NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def name_dialect(conn: Connection) -> str:
    """Return the name of the database, whose SQL questions are written in."""
    return DIALECT_NAMES[conn.dialect.name]


def read_relations(conn: Connection) -> tuple[Relation, ...]:
    """Read all tables and views but those that one database alone has.

    Those are its own, those of the search index on SQLite, and those of servers on PostgreSQL.
    """
    is_postgres = conn.dialect.name == "postgresql"
    query = text(_POSTGRES_RELATIONS if is_postgres else _SQLITE_RELATIONS)
    found = [
        (name, kind, sql)
        for name, kind, sql in conn.execute(query)
        if kind == "view" or name in metadata.tables or name == "alembic_version"
    ]
    columns: dict[str, list[SchemaColumn]] = {name: [] for name, _, _ in found}
    if is_postgres:
        rows: list[Any] = list(conn.execute(text(_POSTGRES_COLUMNS)))
    else:
        query = text(_SQLITE_COLUMNS)
        rows = [row for name in columns for row in conn.execute(query, {"name": name})]
    for name, column, type_, key, required in rows:
        if name not in columns:
            continue
        columns[name].append(SchemaColumn(column, type_, bool(key), bool(required)))
    return tuple(
        Relation(
            name,
            kind,
            kind == "view" or name in READABLE_TABLES,
            tuple(columns[name]),
            _write_statement(conn, name, kind, sql, columns[name]) if is_postgres else sql,
        )
        for name, kind, sql in found
    )


def _write_statement(
    conn: Connection, name: str, kind: str, definition: str, columns: list[SchemaColumn]
) -> str:
    """Return what makes a relation of PostgreSQL, which keeps no statement."""
    if kind == "view":
        return f"CREATE VIEW {name} AS\n{definition.rstrip(';')}"
    if name in metadata.tables:
        return str(CreateTable(metadata.tables[name]).compile(dialect=conn.dialect)).strip()
    listed = ", ".join(f"{column.name} {column.type}" for column in columns)
    return f"CREATE TABLE {name} ({listed})"
