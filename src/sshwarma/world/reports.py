"""Reports: SQL queries of people and models, answered within limits.

None can change anything, delay others, or read what its asker may not. On SQLite each runs in a
process of its own (`report_worker`, limited by `report_access`), on PostgreSQL in a connection of a
role of their own (`postgres_reports`).
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

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
from sshwarma.common.processes import (
    SOURCE_FOLDER,
    end_process,
    kill_process,
    program_of,
    start_isolated,
)
from sshwarma.common.refusals import count_refusal
from sshwarma.common.shorten import shorten_name
from sshwarma.world import report_worker
from sshwarma.world.databases import DatabaseUrl, Location
from sshwarma.world.errors import Invalid, Unavailable, empty_error
from sshwarma.world.reader import next_call
from sshwarma.world.report_errors import make_failure_error

log = structlog.get_logger(__name__)

PROCESS_TIMEOUT_SECONDS: Final = 8.0
"""Seconds after which a process that does not answer is killed, its start included."""

_PROGRAM: Final = program_of(report_worker.__name__)

QUERY_KEYWORDS: Final = frozenset({"SELECT", "WITH", "VALUES"})

_SPACE_PATTERN: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_WORD_PATTERN: Final = re.compile(r"\w+|\S")

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

    def __init__(self, location: Location) -> None:
        self._runner = _make_runner(location)
        self._slots = asyncio.Semaphore(MAX_RUNNING_REPORTS)
        self._waiting = 0

    async def run_query(self, sql: str, scope: ReportScope) -> ReportResult:
        """Return the answer to one SELECT.

        Raises:
            Invalid: if the statement is wrong, or does not only read; `at` is the place in `sql`.
            Forbidden: if it reads something that is not readable.
            WorldError: if it took too long, or too much memory.
            Unavailable: if too many queries are waiting.
        """
        _check_statement(sql)
        if self._waiting >= MAX_WAITING_REPORTS:
            count_refusal("reports")
            raise Unavailable(
                f"Too busy: {MAX_WAITING_REPORTS} queries are waiting.",
                hint="Retry in a moment.",
            )
        self._waiting += 1
        try:
            async with self._slots:
                answer = await self._runner.run(
                    {
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
            raise make_failure_error(sql, answer, REPORT_TIMEOUT_SECONDS)
        return ReportResult(
            tuple(answer["columns"]),
            tuple(tuple(row) for row in answer["rows"]),
            answer["more"],
            answer["uncounted"],
            answer["cut_cells"],
        )

    async def close(self) -> None:
        """End the questions that are still running."""
        await self._runner.close()


class _Runner(Protocol):
    """Asks a database: `run` returns columns and rows, or the kind of a failure."""

    async def run(self, question: dict[str, Any]) -> dict[str, Any]: ...

    async def close(self) -> None: ...


def _make_runner(location: Location) -> _Runner:
    if isinstance(location, DatabaseUrl):
        from sshwarma.world.postgres_reports import PostgresReports  # with the driver

        return PostgresReports(location.text)
    return _SqliteReports(location)


class _SqliteReports:
    """Asks an SQLite file, each question in a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._running: set[Process] = set()

    async def close(self) -> None:
        """End the questions that are still running."""
        for process in list(self._running):
            kill_process(process)
            await process.wait()

    async def run(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a process to one question."""
        sent = json.dumps(question | {"path": str(self._path)}).encode()
        try:
            process = await start_isolated("-S", "-c", _PROGRAM, SOURCE_FOLDER)
        except OSError as error:
            log.error("cannot start a report process", error=str(error))
            return {"failure": "broken"}
        self._running.add(process)
        try:
            async with asyncio.timeout(PROCESS_TIMEOUT_SECONDS):
                stdout, stderr = await process.communicate(sent)
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
