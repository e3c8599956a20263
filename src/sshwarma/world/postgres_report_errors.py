"""What PostgreSQL says about a question, in the words that SQLite's askers read."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg
import structlog
from psycopg import errors

from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.world.errors import Forbidden, Invalid, Unavailable, WorldError
from sshwarma.world.postgres_errors import is_lost_connection
from sshwarma.world.postgres_report_access import ALLOWED_FUNCTIONS, ALLOWED_OWN_FUNCTIONS
from sshwarma.world.report_errors import (
    NARROWER,
    READABLE_TABLES,
    make_database_error,
    make_denied_error,
    make_incomplete_error,
    make_parameters_error,
    make_syntax_error,
    make_unknown_name_error,
    suggest_readable,
)
from sshwarma.world.schema import metadata

log = structlog.get_logger(__name__)

Failure = dict[str, Any]
Relations = dict[str, list[str]]
"""The columns of each relation that can be read."""

_WORD: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\w[\w$]*(?:\s*\.\s*(?:\w[\w$]*|"(?:[^"]|"")*"))*|\S"""
)
_PART: Final = re.compile(r'"(?:[^"]|"")*"|\w[\w$]*')

SQLITE_FUNCTIONS: Final = {
    "concat": "||", "concat_ws": "||", "date": "to_char", "datetime": "to_char", "format": "||",
    "glob": "LIKE", "group_concat": "string_agg", "hex": "md5", "ifnull": "coalesce",
    "iif": "CASE", "instr": "strpos", "json_array": "json_build_array", "json_extract": "->>",
    "json_group_array": "json_agg", "json_group_object": "json_object_agg",
    "json_object": "json_build_object", "json_tree": "jsonb_path_query", "julianday": "extract",
    "like": "LIKE", "printf": "||", "position": "strpos", "strftime": "to_char", "total": "sum",
    "unicode": "ascii", "unixepoch": "extract",
}  # fmt: skip
"""What PostgreSQL has for functions of SQLite, and for those that are not allowed."""

KNOWN_FUNCTIONS: Final = {
    name.partition("/")[0] for name in ALLOWED_FUNCTIONS | ALLOWED_OWN_FUNCTIONS
}

WORLD_SCHEMAS: Final = frozenset(("main", "public", "temp"))
"""Schemas by which somebody may mean the tables behind the views, on any database."""

UNREADABLE_TABLES: Final = frozenset({*metadata.tables, "alembic_version"}) - READABLE_TABLES


def make_statement_error(sql: str, error: psycopg.Error, relations: Relations) -> WorldError:
    """Return the refusal of a question that PostgreSQL does not understand.

    Args:
        sql: the question.
        error: of its first reading, so that its position is one of `sql`.
        relations: what can be read, for near names.
    """
    if isinstance(error, errors.SyntaxError) and error.diag.statement_position is None:
        return Invalid("Only one statement is allowed.", hint="Remove everything after the first ;")
    span = _find_span(sql, error)
    word = sql[slice(*span)] if span else ""
    is_name = word[:1].isalnum() or word[:1] in ('"', "_")
    parts = [_unquote(part) for part in _PART.findall(word)] if is_name else []
    name = parts[-1] if parts else word
    match error:
        case errors.SyntaxError():
            is_open = word[:1] in ("'", '"', "$", "/") and span is not None
            if not word or (is_open and not _is_closed(word)):
                return make_incomplete_error(sql)
            return make_syntax_error(word, span, [])
        case errors.UndefinedTable() if parts and (
            name in UNREADABLE_TABLES or parts[0] in WORLD_SCHEMAS
        ):
            return make_denied_error(sql, "read", name)
        case errors.UndefinedTable() if parts:
            hint = suggest_readable(find_near_names(name, relations))
            return make_unknown_name_error("table", name, span, hint)
        case errors.UndefinedColumn():
            columns = {column for columns in relations.values() for column in columns}
            hint = suggest_readable(find_near_names(name, sorted(columns)))
            return make_unknown_name_error("column", word, span, hint)
        case errors.UndefinedFunction() if name in SQLITE_FUNCTIONS:
            hint = f"PostgreSQL has {SQLITE_FUNCTIONS[name]}."
            return make_unknown_name_error("function", name, span, hint)
        case errors.UndefinedFunction() if parts and name not in KNOWN_FUNCTIONS:
            meant = suggest_names(find_near_names(name, sorted(KNOWN_FUNCTIONS)))
            hint = meant or "Use a function of PostgreSQL."
            return make_unknown_name_error("function", name, span, hint)
        case errors.UndefinedParameter():
            return make_parameters_error()
        case errors.InsufficientPrivilege():
            return make_denied_error(sql, "read", name or "?")
    refusal = make_database_error(error.diag.message_primary or INTERNAL_ERROR, span)
    if isinstance(error, errors.UndefinedFunction):
        refusal.hints = ("Use a function of PostgreSQL, with values of its types: value::text.",)
    return refusal


def describe_run_error(sql: str, error: psycopg.Error) -> Failure | WorldError:
    """Return the failure of a question that was understood, or its refusal."""
    text = error.diag.message_primary or ""
    match error:
        case errors.QueryCanceled():
            return {"failure": "time"}
        case errors.ConfigurationLimitExceeded():
            return WorldError("The query exceeded its limit of temporary files.", hint=NARROWER)
        case errors.StatementTooComplex() | errors.TooManyColumns():
            return make_database_error(text)
        case errors.ProgramLimitExceeded():
            return {"failure": "size"}
        case errors.OutOfMemory():
            return {"failure": "memory"}
        case errors.ReadOnlySqlTransaction():
            return {"failure": "denied", "what": "write", "name": ""}
        case errors.InsufficientPrivilege():
            return Forbidden("The query uses something that is not readable.")
        case errors.InternalError_() if "alloc" in text:
            return {"failure": "size"}
    if is_lost_connection(error):
        log.error("a report failed", error=type(error).__name__, sqlstate=error.sqlstate)
        return Unavailable("The database cannot be reached.", hint="Try again in a moment.")
    if error.sqlstate is None or error.sqlstate.startswith("XX"):
        log.error("a report failed", error=type(error).__name__, sqlstate=error.sqlstate)
        return {"failure": "broken"}
    return make_database_error(text)


def _find_span(sql: str, error: psycopg.Error) -> tuple[int, int] | None:
    """Return the place of the word that PostgreSQL points at, if any."""
    position = error.diag.statement_position
    if position is None:
        return None
    start = int(position) - 1
    match = _WORD.match(sql, start)
    return match.span() if match else (min(start, len(sql)),) * 2


def _is_closed(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[0]


def _unquote(word: str) -> str:
    return word[1:-1].replace('""', '"') if word.startswith('"') else word.lower()
