"""SQL that databases write differently: SQLite answers, PostgreSQL is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, ColumnElement, create_engine, literal, make_url, select, union_all
from sqlalchemy.types import Text

from sshwarma.world import portable_sql
from sshwarma.world.portable_sql import (
    byte_length,
    extract_integer,
    extract_text,
    has_word,
    joined_distinct,
    seconds_between,
    table_of_pairs,
)
from sshwarma.world.schema import equipped

SOURCE = Path(portable_sql.__file__).parents[1]
ONLY_SQLITE = re.compile(
    r"dialects\.sqlite|dialects import sqlite|\"GLOB\""
    r"|func\.(?:json_|julianday|typeof|group_concat|new_id)"
)
OF_FILES = {"world/portable_sql.py", "world/sqlite_dialect.py"}
"""The module, and the dialect of files, whose one statement is made once."""

POSTGRESQL = make_url("postgresql+psycopg://").get_dialect()()
X = Column("x", Text)


def ask(expression: ColumnElement[Any], text: str | None = None) -> Any:
    engine = create_engine("sqlite://")
    with engine.connect() as conn:
        return conn.scalar(select(expression).select_from(select(literal(text).label("x")).cte()))


def in_postgresql(expression: ColumnElement[Any]) -> str:
    return str(select(expression).compile(dialect=POSTGRESQL))


@pytest.mark.parametrize(("text", "expected"), [("day", 3), ("Größe", 7), ("", 0), (None, None)])
def test_byte_length_counts_bytes(text: str | None, expected: int | None) -> None:
    assert ask(byte_length(X), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"a": {"b": "c"}}', "c"), ('{"a": 1}', None), ("{", None), (None, None)],
)
def test_text_of_json_is_found_below_its_keys(text: str | None, expected: str | None) -> None:
    assert ask(extract_text(X, "a", "b"), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 12}', 12),
        ('{"a": -3}', -3),
        ('{"a": "12"}', None),
        ('{"a": 1.5}', None),
        ('{"a": true}', None),
        ('{"a": null}', None),
        ("{}", None),
        ("[1", None),
        (None, None),
    ],
)
def test_integer_of_json_is_no_other_value(text: str | None, expected: int | None) -> None:
    assert ask(extract_integer(X, "a"), text) == expected


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("rename anna eve", "anna", True),
        ("@ANNA: hi", "anna", True),
        ("anna", "Anna", True),
        ("anna-2", "anna", False),
        ("hanna", "anna", False),
        ("a*b?[c]", "a*b?[c]", True),
        ("axb", "a*b", False),
        ("a.b", "a.b", True),
    ],
)
def test_word_is_no_part_of_another(text: str, word: str, expected: bool) -> None:
    assert bool(ask(has_word(X, word), text)) is expected


def test_seconds_between_two_times() -> None:
    start, end = literal("2026-11-29T23:59:59.500+00:00"), literal("2026-11-30T00:00:01.000+00:00")
    assert ask(seconds_between(start, end)) == pytest.approx(1.5, abs=0.001)


def test_different_texts_of_a_group_are_joined() -> None:
    rows = union_all(*(select(literal(letter).label("x")) for letter in "bab")).subquery()
    engine = create_engine("sqlite://")
    with engine.connect() as conn:
        found = conn.scalar(select(joined_distinct(rows.c.x)))
    assert sorted(str(found).split(",")) == ["a", "b"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (byte_length(X) + 1, "octet_length(x) + "),
        (extract_text(X, "a", "b"), "(CAST(x AS JSONB) #>> '{a,b}')"),
        (extract_integer(X, "a"), "CAST(CAST(x AS JSONB) #> '{a}' AS TEXT) ~ '^-?[0-9]{1,18}$'"),
        (joined_distinct(X), "string_agg(DISTINCT x, ',')"),
        (has_word(X, "a.b") & (X != "c"), "(lower(' ' || x || ' ') ~ %(param_1)s::VARCHAR) AND x"),
        (seconds_between(X, X), "CAST(x AS TIMESTAMPTZ)"),
    ],
)
def test_postgresql_is_asked_in_its_own_words(
    expression: ColumnElement[Any], expected: str
) -> None:
    assert expected in in_postgresql(expression)


def test_pairs_are_a_table() -> None:
    pairs = table_of_pairs({"a": "ä", 'b"': "\\"})
    query = select(pairs.c.key, pairs.c.value)
    with create_engine("sqlite://").connect() as conn:
        assert sorted(map(tuple, conn.execute(query))) == [("a", "ä"), ('b"', "\\")]
    assert "FROM json_each_text(CAST(" in str(query.compile(dialect=POSTGRESQL))


def test_upsert_is_one_statement_for_both() -> None:
    insert = portable_sql.upsert(equipped)
    changed = {"priority": insert.excluded.priority}
    stored = insert.on_conflict_do_update(index_elements=["thing_id"], set_=changed)
    expected = "ON CONFLICT (thing_id) DO UPDATE SET priority = excluded.priority"
    for dialect in (POSTGRESQL, create_engine("sqlite://").dialect):
        assert str(stored.compile(dialect=dialect)).endswith(expected)


def test_no_other_module_writes_for_sqlite_alone() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if "migrations" not in file.parts and ONLY_SQLITE.search(file.read_text("utf-8"))
    }
    assert found <= OF_FILES
