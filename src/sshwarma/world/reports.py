"""Reports: SQL queries, each in a process of its own (`report_worker`).

So no query can change anything, read what its asker may not (`report_access`), or delay others.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_MEMORY_BYTES,
    MAX_REPORT_ROWS,
    MAX_REPORT_VALUE_BYTES,
    MAX_RUNNING_REPORTS,
    MAX_WAITING_REPORTS,
    REPORT_TIMEOUT_SECONDS,
)
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.near_names import suggest_names
from sshwarma.common.processes import (
    SOURCE_FOLDER,
    end_process,
    kill_process,
    program_of,
    start_isolated,
)
from sshwarma.common.refusals import count_refusal
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.world import report_access, report_worker
from sshwarma.world.errors import Forbidden, Invalid, Unavailable, WorldError, empty_error
from sshwarma.world.reader import next_call

log = structlog.get_logger(__name__)

PROCESS_TIMEOUT_SECONDS: Final = 8.0
"""Seconds after which a process that does not answer is killed, its start included."""

_PROGRAM: Final = program_of(report_worker.__name__)

QUERY_KEYWORDS: Final = frozenset({"SELECT", "WITH", "VALUES"})

READABLE_TABLES: Final = frozenset(report_access.TABLE_FILTERS)
"""Tables that can be read, besides every view."""

_SPACE_PATTERN: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_WORD_PATTERN: Final = re.compile(r"\w+|\S")
_SYNTAX_ERROR_PATTERN: Final = re.compile(r'near "(.+)": syntax error$')
_UNKNOWN_NAME_PATTERN: Final = re.compile(r"no such (table|column|function): (\S+)$")

CellValue = None | int | float | str


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The asker: ids of what they may read, and whether they have admin rights.

    Logs are rooms and private conversations; projects are those whose memory they may read. Nobody
    sees secrets.
    """

    agent_id: str
    log_ids: tuple[str, ...]
    is_admin: bool = False
    project_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The answer: at most MAX_REPORT_ROWS rows and MAX_REPORT_CHARACTERS characters.

    Cells are cut at MAX_REPORT_CELL_CHARACTERS characters. `more` rows are not shown; if
    `uncounted`, there are at least that many.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    more: int = 0
    uncounted: bool = False
    cut_cells: int = 0


class Reports:
    """Answers questions about one database, MAX_RUNNING_REPORTS at a time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._slots = asyncio.Semaphore(MAX_RUNNING_REPORTS)
        self._waiting = 0
        self._running: set[Process] = set()

    async def run_query(self, sql: str, scope: ReportScope) -> ReportResult:
        """Return the answer to one SELECT.

        Raises:
            Invalid: if the statement is wrong, or does not only read; `at` is the place in `sql`.
            Forbidden: if it reads something that is not readable.
            WorldError: if it took too long, or too much memory.
            Unavailable: if too many queries are waiting.
        """
        _check_statement(sql)
        if self._path is None:
            raise Unavailable("SQL questions are not available: this world is on PostgreSQL.")
        if self._waiting >= MAX_WAITING_REPORTS:
            count_refusal("reports")
            raise Unavailable(
                f"Too busy: {MAX_WAITING_REPORTS} queries are waiting.",
                hint="Retry in a moment.",
            )
        self._waiting += 1
        try:
            async with self._slots:
                answer = await self._run(
                    {
                        "path": str(self._path),
                        "sql": sql,
                        "agent": scope.agent_id,
                        "logs": scope.log_ids,
                        "admin": scope.is_admin,
                        "projects": scope.project_ids,
                        "rows": MAX_REPORT_ROWS,
                        "cell": MAX_REPORT_CELL_CHARACTERS,
                        "size": MAX_REPORT_CHARACTERS,
                        "seconds": REPORT_TIMEOUT_SECONDS,
                        "memory": MAX_REPORT_MEMORY_BYTES,
                    }
                )
        finally:
            self._waiting -= 1
        if "failure" in answer:
            raise _failure_error(sql, answer)
        return ReportResult(
            tuple(answer["columns"]),
            tuple(tuple(row) for row in answer["rows"]),
            answer["more"],
            answer["uncounted"],
            answer["cut_cells"],
        )

    async def close(self) -> None:
        """End the questions that are still running."""
        for process in list(self._running):
            kill_process(process)
            await process.wait()

    async def _run(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            process = await start_isolated("-S", "-c", _PROGRAM, SOURCE_FOLDER)
        except OSError as error:
            log.error("cannot start a report process", error=str(error))
            return {"failure": "broken"}
        self._running.add(process)
        try:
            async with asyncio.timeout(PROCESS_TIMEOUT_SECONDS):
                stdout, stderr = await process.communicate(json.dumps(question).encode())
        except TimeoutError:
            return {"failure": "time"}
        finally:
            await asyncio.shield(end_process(process, process.stdout, process.stderr))
            self._running.discard(process)
        if process.returncode == 0:
            answer: dict[str, Any] = json.loads(stdout)
            return answer
        if process.returncode in (-signal.SIGALRM, -signal.SIGXCPU):
            return {"failure": "time"}
        if b"MemoryError" in stderr:
            return {"failure": "memory"}
        if process.returncode == -signal.SIGKILL:  # by `close`, or by a system out of memory
            return {"failure": "killed"}
        log.error("a report failed", status=process.returncode, stderr=stderr[-2000:].decode())
        return {"failure": "broken"}


def _check_statement(sql: str) -> None:
    """Refuse all but one statement that reads, before a process starts for it."""
    space = _SPACE_PATTERN.match(sql)
    word = _WORD_PATTERN.match(sql, space.end() if space else 0)
    if word is None:
        raise empty_error("query", hint="For example: SELECT name FROM tools.")
    if "\0" in sql:
        raise Invalid(
            "A statement cannot contain a NUL character.",
            span=(sql.index("\0"), sql.index("\0") + 1),
        )
    if word[0].upper() not in QUERY_KEYWORDS:
        raise Invalid(
            f"A query starts with SELECT, WITH or VALUES (got {shorten_name(word[0])});"
            " it only reads.",
            hint=next_call("{} lists the tables.", "schema"),
            span=word.span(),
        )


def _failure_error(sql: str, answer: dict[str, Any]) -> WorldError:
    """Return the error message for a failure of the worker."""
    hint = "Narrow the query: one session_id, fewer joins, a LIMIT inside."
    match answer["failure"]:
        case "denied":
            return _denied_error(sql, answer["what"], answer["name"])
        case "time":
            return WorldError(f"The query timed out after {REPORT_TIMEOUT_SECONDS:g} s.", hint=hint)
        case "memory":
            return WorldError(
                f"The query exceeded {MAX_REPORT_MEMORY_BYTES // MIB} MiB of memory.",
                hint=hint,
            )
        case "size":
            limit = MAX_REPORT_VALUE_BYTES // MIB
            return WorldError(f"A value in the query exceeds {limit} MiB.", hint=hint)
        case "statements":
            return Invalid(
                "Only one statement is allowed.", hint="Remove everything after the first ;"
            )
        case "empty":
            return empty_error("query", hint="For example: SELECT name FROM tools.")
        case "wrong":
            return _sql_error(sql, answer["text"], answer["near"])
        case "killed":
            return Unavailable("The query was stopped.")
    return Unavailable(INTERNAL_ERROR)


def _denied_error(sql: str, action: str, name: str) -> WorldError:
    span = _find_word_span(sql, name) if name else None
    match action:
        case "read" if name in READABLE_TABLES:
            return Forbidden(
                f"{name} can only be read by its own name.", hint=f"Write FROM {name}.", span=span
            )
        case "read":
            return Forbidden(
                f"{name} is not readable.",
                hint=next_call("{} lists the readable tables.", "schema"),
                span=span,
            )
        case "function":
            return Forbidden(f"The function {name} is not allowed.", span=span)
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


def _sql_error(sql: str, text: str, near: list[str]) -> WorldError:
    """SQLite's own message, with the place it refers to where that is known."""
    names = suggest_names(near) or next_call("{} lists the tables and columns.", "schema")
    syntax, unknown = _SYNTAX_ERROR_PATTERN.match(text), _UNKNOWN_NAME_PATTERN.match(text)
    if syntax is not None:
        return Invalid(
            f"SQL syntax error at {shorten_name(syntax[1])}.",
            span=_find_word_span(sql, syntax[1]),
            hint=names,
        )
    if unknown is not None:
        kind, name = unknown.groups()
        return Invalid(
            f"Unknown {kind} {shorten_name(name)}.",
            span=_find_word_span(sql, name),
            hint="Use a function of SQLite." if kind == "function" else names,
        )
    if "because it is a view" in text:
        return Forbidden("Queries can only read.")
    if "incomplete input" in text:
        return Invalid("The SQL is incomplete.", span=(len(sql), len(sql)))
    if "bindings" in text:
        return Invalid("Parameters ? and :name are not supported.", hint="Write the value itself.")
    return Invalid(f"{text[:1].upper()}{text[1:300].rstrip('.')}.")


def _find_word_span(sql: str, word: str) -> tuple[int, int] | None:
    """Return the span of a word, if it occurs once."""
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() else re.escape(word)
    matches = list(re.finditer(pattern, sql, re.IGNORECASE))
    return matches[0].span() if len(matches) == 1 else None
