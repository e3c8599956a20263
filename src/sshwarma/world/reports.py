"""Questions in SQL, for reports: answered by a process of its own, so that no question can change
anything, read what its asker may not, or hold up anybody. See `report_worker` for how."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_MEMORY_BYTES,
    MAX_REPORT_ROWS,
    MAX_RUNNING_REPORTS,
    MAX_WAITING_REPORTS,
    REPORT_TIMEOUT_SECONDS,
)
from sshwarma.world import report_worker
from sshwarma.world.errors import Forbidden, Invalid, Unavailable, WorldError

log = structlog.get_logger(__name__)

PROCESS_TIMEOUT_SECONDS: Final = 8.0
"""Seconds after which a process that does not answer is killed, its start included."""

QUERY_KEYWORDS: Final = frozenset({"SELECT", "WITH", "VALUES"})

READABLE_TABLES: Final = frozenset(report_worker.TABLE_FILTERS)
"""Tables that can be read, beside every view."""

_SPACE_PATTERN: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_WORD_PATTERN: Final = re.compile(r"\w+|\S")
_SYNTAX_ERROR_PATTERN: Final = re.compile(r'near "(.+)": syntax error$')
_UNKNOWN_NAME_PATTERN: Final = re.compile(r"no such (table|column|function): (\S+)$")

CellValue = None | int | float | str


@dataclass(frozen=True, slots=True)
class ReportScope:
    """Who asks: the ids of the logs they may read (rooms and private conversations), and whether
    they see what only admins do. Nobody sees secrets."""

    agent_id: str
    logs: tuple[str, ...]
    admin: bool = False


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The result of a query, within MAX_REPORT_ROWS, MAX_REPORT_CHARACTERS and, for each cell,
    MAX_REPORT_CELL_CHARACTERS. `more` rows are not shown; if `uncounted`, at least so many."""

    columns: tuple[str, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    more: int = 0
    uncounted: bool = False
    cut_cells: int = 0


class Reports:
    """Answers questions about one database, MAX_RUNNING_REPORTS at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._slots = asyncio.Semaphore(MAX_RUNNING_REPORTS)
        self._waiting = 0
        self._running: set[Process] = set()

    async def ask(self, sql: str, scope: ReportScope) -> ReportResult:
        """The answer to one SELECT.

        Raises:
            Invalid: the statement is wrong, or none that reads; `at` is where, in `sql`.
            Forbidden: it asks for what cannot be read.
            WorldError: it took too long, or too much memory.
            Unavailable: too many others are asking.
        """
        _check_statement(sql)
        if self._waiting >= MAX_WAITING_REPORTS:
            raise Unavailable(
                f"{MAX_WAITING_REPORTS} questions are waiting already.",
                hint="Ask again in a moment.",
            )
        self._waiting += 1
        try:
            async with self._slots:
                given = await self._run(
                    {
                        "path": str(self._path),
                        "sql": sql,
                        "agent": scope.agent_id,
                        "logs": scope.logs,
                        "admin": scope.admin,
                        "rows": MAX_REPORT_ROWS,
                        "cell": MAX_REPORT_CELL_CHARACTERS,
                        "size": MAX_REPORT_CHARACTERS,
                        "seconds": REPORT_TIMEOUT_SECONDS,
                        "memory": MAX_REPORT_MEMORY_BYTES,
                    }
                )
        finally:
            self._waiting -= 1
        if "failure" in given:
            raise _failure_error(sql, given)
        return ReportResult(
            tuple(given["columns"]),
            tuple(tuple(row) for row in given["rows"]),
            given["more"],
            given["uncounted"],
            given["cut_cells"],
        )

    async def close(self) -> None:
        """End what is still being answered."""
        for process in list(self._running):
            _kill_process(process)
            await process.wait()

    async def _run(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", report_worker.__file__),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            log.error("a report cannot start", error=str(error))
            return {"failure": "broken"}
        self._running.add(process)
        try:
            async with asyncio.timeout(PROCESS_TIMEOUT_SECONDS):
                out, words = await process.communicate(json.dumps(asked).encode())
        except TimeoutError:
            return {"failure": "time"}
        finally:
            _kill_process(process)
            await asyncio.shield(process.wait())
            self._running.discard(process)
        if process.returncode == 0:
            given: dict[str, Any] = json.loads(out)
            return given
        if process.returncode in (-signal.SIGALRM, -signal.SIGXCPU):
            return {"failure": "time"}
        if b"MemoryError" in words:
            return {"failure": "memory"}
        if process.returncode == -signal.SIGKILL:  # by `close`, or by a system out of memory
            return {"failure": "killed"}
        log.error("a report failed", status=process.returncode, stderr=words[-2000:].decode())
        return {"failure": "broken"}


def _kill_process(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _check_statement(sql: str) -> None:
    """Refuse what is not one statement that reads, before a process is started for it."""
    space = _SPACE_PATTERN.match(sql)
    word = _WORD_PATTERN.match(sql, space.end() if space else 0)
    if word is None:
        raise Invalid("Say what to select.", hint="As in SELECT name FROM tools.")
    if "\0" in sql:
        raise Invalid("A statement has no NUL in it.", at=(sql.index("\0"), sql.index("\0") + 1))
    if word[0].upper() not in QUERY_KEYWORDS:
        raise Invalid(
            f"{word[0][:40]} is not SELECT, WITH or VALUES: this reads, and changes nothing.",
            hint="/schema shows what there is to select from.",
            at=word.span(),
        )


def _failure_error(sql: str, given: dict[str, Any]) -> WorldError:
    """Why there is no answer, in words."""
    less = "Ask for less: one session_id, fewer joins, a LIMIT inside."
    match given["failure"]:
        case "denied":
            return _denied_error(sql, given["what"], given["name"])
        case "time":
            return WorldError(
                f"It took longer than {REPORT_TIMEOUT_SECONDS:g} s and was ended.", hint=less
            )
        case "memory":
            return WorldError(
                f"It needed more than {MAX_REPORT_MEMORY_BYTES >> 20} MiB of memory and was ended.",
                hint=less,
            )
        case "size":
            most = report_worker.MAX_VALUE_BYTES >> 20
            return WorldError(f"One value in it is over {most} MiB, which is the most.", hint=less)
        case "statements":
            return Invalid("One statement at a time.", hint="Leave out what follows the first ;")
        case "empty":
            return Invalid("Say what to select.", hint="As in SELECT name FROM tools.")
        case "wrong":
            return _sql_error(sql, given["text"], given["near"])
        case "killed":
            return Unavailable("It was ended before there was an answer.")
    return Unavailable("It could not be answered; the operator can see why.")


def _denied_error(sql: str, what: str, name: str) -> WorldError:
    at = _find_word_span(sql, name) if name else None
    match what:
        case "read" if name in READABLE_TABLES:
            return Forbidden(
                f"{name} is read by that name alone.", hint=f"As in FROM {name}.", at=at
            )
        case "read":
            return Forbidden(
                f"{name} cannot be read here.", hint="/schema says what can be.", at=at
            )
        case "function":
            return Forbidden(f"The function {name} is not one that can be used here.", at=at)
        case "virtual":
            return Forbidden("A table in it cannot be read here.", hint="/schema says what can be.")
        case "write":
            return Forbidden("That would change something: this only reads.")
        case "pragma":
            return Forbidden("No PRAGMA here.", hint="/schema NAME shows the columns of a table.")
        case "attach":
            return Forbidden("No other file can be opened here.")
    return Forbidden("Only a SELECT can be asked here.")


def _sql_error(sql: str, text: str, near: list[str]) -> WorldError:
    """SQLite's own words, with the place they are about where that is plain."""
    syntax, unknown = _SYNTAX_ERROR_PATTERN.match(text), _UNKNOWN_NAME_PATTERN.match(text)
    if syntax is not None:
        return Invalid(
            f"The SQL is not right at {syntax[1][:40]}.",
            at=_find_word_span(sql, syntax[1]),
            hint=_suggest_names(near),
        )
    if unknown is not None:
        kind, name = unknown.groups()
        return Invalid(
            f"There is no {kind} {name[:60]}.",
            at=_find_word_span(sql, name),
            hint=_suggest_names(near),
        )
    if "because it is a view" in text:
        return Forbidden("That would change something: this only reads.")
    if "incomplete input" in text:
        return Invalid("The SQL ends too early.", at=(len(sql), len(sql)))
    if "bindings" in text:
        return Invalid("Nothing stands for ? or :name here.", hint="Write the value itself.")
    return Invalid(f"{text[:1].upper()}{text[1:300].rstrip('.')}.")


def _suggest_names(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else "/schema shows what there is."


def _find_word_span(sql: str, word: str) -> tuple[int, int] | None:
    """Where a word stands, if it stands there once."""
    whole = rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() else re.escape(word)
    found = list(re.finditer(whole, sql, re.IGNORECASE))
    return found[0].span() if len(found) == 1 else None
