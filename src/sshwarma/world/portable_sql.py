"""SQL that databases write differently, compiled for the one that runs it.

Of each, SQLite gets what it always got. What is not here, they read alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Integer,
    Table,
    TableValuedAlias,
    Text,
    literal,
    literal_column,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

T = TypeVar("T")

upsert: Final = postgresql.insert
"""An INSERT with ON CONFLICT; its clauses are compiled for SQLite, too."""


def insert_new(table: Table) -> postgresql.Insert:
    """Return an INSERT that does nothing where a row is there; `rowcount` tells."""
    # psycopg forgets the count with the cursor, which SQLAlchemy closes after an INSERT.
    return upsert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


_FORMS: Final = {
    # Of a text, `length` counts characters.
    "byte_length": ("length(CAST({0} AS BLOB))", "octet_length({0})"),
    "json_text": (
        "CASE WHEN (json_valid({0}) = 1) THEN json_extract({0}, {1}) END",
        "(CAST({0} AS JSONB) #>> {2})",
    ),
    # As text, a text begins with a quotation mark.
    "json_integer": (
        "CASE WHEN (json_valid({0}) = 1) THEN"
        " CASE json_type({0}, {1}) WHEN 'integer' THEN json_extract({0}, {1}) END END",
        "CASE WHEN CAST(CAST({0} AS JSONB) #> {2} AS TEXT) ~ '^-?[0-9]{{1,18}}$' THEN"
        " CAST(CAST({0} AS JSONB) #>> {2} AS BIGINT) END",
    ),
    "json_pairs": ("json_each({0})", "json_each_text(CAST({0} AS JSON))"),
    "joined_distinct": ("group_concat(DISTINCT {0})", "string_agg(DISTINCT {0}, ',')"),
    "seconds_between": (
        "((julianday({1}) - julianday({0})) * 86400)",
        "CAST(extract(EPOCH FROM CAST({1} AS TIMESTAMPTZ) - CAST({0} AS TIMESTAMPTZ)) AS FLOAT)",
    ),
    "has_word": (
        "(lower(' ' || {0} || ' ') GLOB {1})",
        "(lower(' ' || {0} || ' ') ~ {2})",
    ),
}
"""By name, what SQLite gets and what PostgreSQL does; {0} is the first part. What stands
twice must have no parameters."""

_JSON_KEY: Final = re.compile("[a-z_]+")
_END: Final = "[^a-z0-9_-]"
"""What ends a word, as GLOB and regular expressions write it."""


class _Form(FunctionElement[T]):
    """One of _FORMS with its parts.

    Its name is a clause, too, because compiled statements are kept by their clauses.
    """

    inherit_cache = True

    def __init__(self, form: str, type_: TypeEngine[T], *parts: ColumnElement[Any]) -> None:
        super().__init__(literal_column(form), *parts)
        self.type = type_

    def self_group(self, against: operators.OperatorType | None = None) -> _Form[T]:
        """Return it as it is: also beside AND, which would compare it with 1 on SQLite."""
        return self


@compiles(_Form, "sqlite")
def _compile_sqlite(element: _Form[Any], compiler: SQLCompiler, **options: Any) -> str:
    return _fill(element, 0, compiler, options)


@compiles(_Form, "postgresql")
def _compile_postgresql(element: _Form[Any], compiler: SQLCompiler, **options: Any) -> str:
    return _fill(element, 1, compiler, options)


def _fill(element: _Form[Any], database: int, compiler: SQLCompiler, options: Any) -> str:
    form, *parts = element.clauses
    template = _FORMS[str(form)][database]
    texts = [
        compiler.process(part, **options) if f"{{{place}}}" in template else ""
        for place, part in enumerate(parts)
    ]
    return template.format(*texts)


def byte_length(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the SQL of the number of bytes of a text in UTF-8."""
    return _Form("byte_length", Integer(), column)


def extract_text(column: Column[Any], *keys: str) -> ColumnElement[str]:
    """Return the SQL of a text in a column of JSON, below its keys.

    NULL without it, and where SQLite cannot read the column; PostgreSQL refuses to read on. Of an
    array or an object, some text; on SQLite, a number remains one.
    """
    return _Form("json_text", Text(), column, *_write_paths(keys))


def extract_integer(column: Column[Any], *keys: str) -> ColumnElement[int]:
    """Return the SQL of a whole number in a column of JSON, below its keys.

    NULL where something else is, or nothing; what cannot be read is as for a text.
    """
    return _Form("json_integer", BigInteger(), column, *_write_paths(keys))


def _write_paths(keys: tuple[str, ...]) -> list[ColumnElement[str]]:
    """Return a path of SQLite and one of PostgreSQL.

    They are no parameters, so that one can group by a field.
    """
    assert all(map(_JSON_KEY.fullmatch, keys))  # noqa: S101 - constants of the program
    return [literal_column(f"'$.{'.'.join(keys)}'"), literal_column(f"'{{{','.join(keys)}}}'")]


def table_of_pairs(pairs: Mapping[str, str]) -> TableValuedAlias:
    """Return a table for FROM with the texts of a mapping: columns `key` and `value`."""
    text = literal(json.dumps(pairs, ensure_ascii=False), Text())
    table = _Form("json_pairs", Text(), text)
    return table.table_valued(Column("key", Text), Column("value", Text))


def joined_distinct(column: ColumnElement[Any]) -> ColumnElement[str]:
    """Return the SQL of the different texts of a group, with commas, in any order."""
    return _Form("joined_distinct", Text(), column)


def seconds_between(start: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[float]:
    """Return the SQL of the seconds between two times, which are texts of ISO 8601."""
    return _Form("seconds_between", Float(), start, end)


def has_word(column: ColumnElement[Any], word: str) -> ColumnElement[bool]:
    """Return the condition that a text has a word: no part of a longer name.

    Letters of either case are the same. SQLite refuses patterns of 50,000 bytes.
    """
    word = word.lower()
    quoted = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in word)
    patterns = (f"*{_END}{quoted}{_END}*", f"{_END}{re.escape(word)}{_END}")
    return _Form("has_word", Boolean(), column, *map(literal, patterns))
