"""What people read when a question in SQL is refused, on each database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sshwarma.common.limits import MAX_REPORT_MEMORY_BYTES, MAX_REPORT_VALUE_BYTES
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.near_names import suggest_names
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.world import report_access
from sshwarma.world.errors import Forbidden, Invalid, Unavailable, WorldError, empty_error
from sshwarma.world.reader import next_call

READABLE_TABLES: Final = frozenset(report_access.TABLE_FILTERS)
"""Tables that can be read, besides every view."""

_SYNTAX_ERROR_PATTERN: Final = re.compile(r'near "(.+)": syntax error$')
_UNKNOWN_NAME_PATTERN: Final = re.compile(r"no such (table|column|function): (\S+)$")

NARROWER: Final = "Narrow the query: one session_id, fewer joins, a LIMIT inside."


def make_failure_error(sql: str, answer: dict[str, Any], seconds: float) -> WorldError:
    """Return the error message for a failure.

    Args:
        sql: the question.
        answer: its `failure`, and what that kind of failure has besides.
        seconds: the limit of time.
    """
    match answer["failure"]:
        case "denied":
            return make_denied_error(sql, answer["what"], answer["name"])
        case "time":
            return WorldError(f"The query timed out after {seconds:g} s.", hint=NARROWER)
        case "memory":
            return WorldError(
                f"The query exceeded {MAX_REPORT_MEMORY_BYTES // MIB} MiB of memory.",
                hint=NARROWER,
            )
        case "size":
            limit = MAX_REPORT_VALUE_BYTES // MIB
            return WorldError(f"A value in the query exceeds {limit} MiB.", hint=NARROWER)
        case "statements":
            return Invalid(
                "Only one statement is allowed.", hint="Remove everything after the first ;"
            )
        case "empty":
            return empty_error("query", hint="For example: SELECT name FROM tools.")
        case "wrong":
            return _make_sqlite_error(sql, answer["text"], answer["near"])
        case "killed":
            return Unavailable("The query was stopped.")
    return Unavailable(INTERNAL_ERROR)


def make_denied_error(sql: str, action: str, name: str) -> WorldError:
    """Return the refusal of what a question may not use."""
    span = find_word_span(sql, name) if name else None
    match action:
        case "read" if name in READABLE_TABLES:
            return Forbidden(
                f"{name} can only be read by its own name.", hint=f"Write FROM {name}.", span=span
            )
        case "read":
            return Forbidden(
                f"{shorten_name(name)} is not readable.",
                hint=next_call("{} lists the readable tables.", "schema"),
                span=span,
            )
        case "function" | "operator" | "type":
            return Forbidden(f"The {action} {shorten_name(name)} is not allowed.", span=span)
        case "form":
            return Forbidden(f"The query uses something that is not allowed ({name.lower()}).")
        case "virtual":
            return Forbidden(
                "A table in the query is not readable.",
                hint=next_call("{} lists the readable tables.", "schema"),
            )
        case "write":
            return Forbidden("Queries can only read.")
        case "pragma":
            return Forbidden(
                "PRAGMA is not allowed.",
                hint=next_call("{} shows the columns of a table.", "schema", name="NAME"),
            )
        case "attach":
            return Forbidden("Opening another file is not allowed.")
    return Forbidden("Only SELECT is allowed.")


def make_syntax_error(word: str, span: tuple[int, int] | None, near: Sequence[str]) -> Invalid:
    """Return the refusal of what is no SQL, at a word of it."""
    return Invalid(
        f"SQL syntax error at {shorten_name(word)}.", span=span, hint=suggest_readable(near)
    )


def make_unknown_name_error(
    kind: str, name: str, span: tuple[int, int] | None, hint: str | Any
) -> Invalid:
    """Return the refusal of a table, column or function that there is not."""
    return Invalid(f"Unknown {kind} {shorten_name(name)}.", span=span, hint=hint)


def make_incomplete_error(sql: str) -> Invalid:
    """Return the refusal of a question that ends too early."""
    return Invalid("The SQL is incomplete.", span=(len(sql), len(sql)))


def make_parameters_error() -> Invalid:
    """Return the refusal of parameters, for which nobody has a value."""
    return Invalid("Parameters ? and :name are not supported.", hint="Write the value itself.")


def make_database_error(text: str, span: tuple[int, int] | None = None) -> Invalid:
    """Return a refusal in the database's own words."""
    return Invalid(f"{text[:1].upper()}{text[1:300].rstrip('.')}.", span=span)


def suggest_readable(near: Sequence[str]) -> Any:
    """Return a hint: names that were meant, or how to list them."""
    return suggest_names(list(near)) or next_call("{} lists the tables and columns.", "schema")


def _make_sqlite_error(sql: str, text: str, near: list[str]) -> WorldError:
    """SQLite's own message, with the place it refers to where that is known."""
    syntax, unknown = _SYNTAX_ERROR_PATTERN.match(text), _UNKNOWN_NAME_PATTERN.match(text)
    if syntax is not None:
        return make_syntax_error(syntax[1], find_word_span(sql, syntax[1]), near)
    if unknown is not None:
        kind, name = unknown.groups()
        hint = "Use a function of SQLite." if kind == "function" else suggest_readable(near)
        return make_unknown_name_error(kind, name, find_word_span(sql, name), hint)
    if "because it is a view" in text:
        return Forbidden("Queries can only read.")
    if "incomplete input" in text:
        return make_incomplete_error(sql)
    if "bindings" in text:
        return make_parameters_error()
    return make_database_error(text)


def find_word_span(sql: str, word: str) -> tuple[int, int] | None:
    """Return the span of a word, if it occurs once."""
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() else re.escape(word)
    matches = list(re.finditer(pattern, sql, re.IGNORECASE))
    return matches[0].span() if len(matches) == 1 else None
