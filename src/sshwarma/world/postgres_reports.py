"""Questions in SQL to a world on PostgreSQL.

Each has a connection of its own, as the role of `postgres_report_schema`, which reads only views,
and these only what the asker may read. What it may read is stored for the process that answers, by
the world's own role, before the question is sent. The question is read by PostgreSQL and made a
temporary view; `postgres_report_access` checks what it uses. Then the transaction becomes
read-only, and a cursor over the view runs until its time is over.

PostgreSQL limits the memory of a sort, and not that of a query. On this machine it is watched and
the query ended. Elsewhere two things bound it: the time, and a gigabyte for each value.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
import structlog
from psycopg import errors, pq
from sqlalchemy import make_url

from sshwarma.common.limits import MAX_RUNNING_REPORTS
from sshwarma.common.units import MIB
from sshwarma.world.builtin_containers import DEFAULTS_ID
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.postgres_report_access import find_denied_use
from sshwarma.world.postgres_report_errors import (
    Relations,
    describe_run_error,
    make_statement_error,
)
from sshwarma.world.postgres_running_question import RunningQuestion
from sshwarma.world.report_access import PUBLIC_CONTAINERS
from sshwarma.world.report_cells import AnswerRows
from sshwarma.world.report_errors import (
    make_database_error,
    make_denied_error,
    make_incomplete_error,
    make_parameters_error,
)

log = structlog.get_logger(__name__)

CONNECT_TIMEOUT_SECONDS: Final = 5

FETCHED_ROWS: Final = 50
"""Rows that are fetched at once."""

COUNTED_ROWS: Final = 500
"""Rows that are counted at once."""

MAX_COLUMNS: Final = 100

VOID_TYPE: Final = 2278
"""The type of a function that returns nothing."""

MAX_STATEMENT_CHARACTERS: Final = MIB

QUESTION_SETTINGS: Final = (
    "-c search_path=report,pg_catalog,pg_temp -c work_mem=4MB -c hash_mem_multiplier=1"
    " -c temp_buffers=1MB -c jit=off -c max_parallel_workers_per_gather=0 -c lock_timeout=1s"
    " -c idle_in_transaction_session_timeout=10s -c client_connection_check_interval=500ms"
    " -c timezone=UTC -c datestyle=ISO -c standard_conforming_strings=on"
)
"""Settings of the connection of a question, which cannot change them."""

OWNER_SETTINGS: Final = "-c lock_timeout=2s -c statement_timeout=5s"

_VIEW: Final = "pg_temp.question"

_SELECT_RELATIONS: Final = (
    "SELECT c.relname, a.attname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a"
    " ON a.attrelid = c.oid WHERE c.relnamespace = 'report'::pg_catalog.regnamespace"
    " AND c.relkind = 'v' ORDER BY c.relname, a.attnum"
)

_FILL_SCOPE: Final = """
    INSERT INTO report.scope (pid, kind, id)
    SELECT %(pid)s, 'logs', id FROM unnest(%(logs)s::text[]) AS id
    UNION SELECT %(pid)s, 'contexts', id FROM unnest(%(contexts)s::text[]) AS id
    UNION SELECT %(pid)s, 'bags', id FROM unnest(%(bags)s::text[]) AS id
    UNION SELECT %(pid)s, 'admin', '' WHERE %(admin)s
"""

_DELETE_SCOPE: Final = "DELETE FROM report.scope WHERE pid = %(pid)s"
_DELETE_OLD_SCOPES: Final = (
    "DELETE FROM report.scope WHERE pid NOT IN (SELECT pid FROM pg_stat_activity)"
)
_SELECT_LOGIN: Final = (
    "SELECT l.role, l.password FROM report.login l WHERE EXISTS (SELECT FROM pg_roles r"
    " WHERE r.rolname = l.role AND has_schema_privilege(r.oid, 'report', 'USAGE'))"
)


class PostgresReports:
    """Asks one database of a PostgreSQL server."""

    def __init__(self, address: str) -> None:
        self._url = make_url(address).set(drivername="postgresql")
        self._threads = ThreadPoolExecutor(MAX_RUNNING_REPORTS, "report")
        self._running: set[RunningQuestion] = set()
        self._owner: psycopg.Connection[Any] | None = None
        self._owner_lock = threading.Lock()

    async def run(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question.

        Raises:
            WorldError: if it is refused.
        """
        asked = RunningQuestion()
        answering = asyncio.get_running_loop().run_in_executor(
            self._threads, self._answer, question, asked
        )
        self._running.add(asked)
        try:
            return await asked.watch(answering, question["memory"])
        except asyncio.CancelledError:
            await asyncio.shield(asked.end("killed", answering))
            raise
        finally:
            self._running.discard(asked)

    async def close(self) -> None:
        """End the questions that are still running."""
        for asked in list(self._running):
            await asyncio.to_thread(asked.stop, "killed")
        await asyncio.to_thread(self._threads.shutdown)
        if self._owner is not None:
            self._owner.close()

    def _answer(self, question: dict[str, Any], asked: RunningQuestion) -> dict[str, Any]:
        """Answer a question, in a thread."""
        try:
            with self._connect(asked) as driver, self._scope_of(driver, question):
                return _ask(driver, question)
        except psycopg.Error as error:
            if asked.why is not None:
                return {"failure": asked.why}
            described = describe_run_error(question["sql"], error)
            if isinstance(described, WorldError):
                raise described from error
            return described

    @contextmanager
    def _connect(self, asked: RunningQuestion) -> Iterator[psycopg.Connection[Any]]:
        """Connect as the role of the questions."""
        role, password = self._read_login()
        url = self._url.set(username=role, password=password)
        try:
            driver = _connect(url.render_as_string(False), "report", QUESTION_SETTINGS)
        except psycopg.OperationalError as error:
            log.error("a report cannot connect", role=role, error=" ".join(str(error).split()))
            raise Unavailable("SQL questions are not available at the moment.") from error
        try:
            asked.begin(driver)
            yield driver
        finally:
            asked.finish()
            driver.close()

    @contextmanager
    def _scope_of(
        self, driver: psycopg.Connection[Any], question: dict[str, Any]
    ) -> Iterator[None]:
        """Store what the asker may read, for the process that answers."""
        pid = driver.info.backend_pid
        logs = list(question["logs"])
        values = {
            "pid": pid, "logs": logs, "admin": bool(question["admin"]),
            "contexts": [*logs, question["agent"], DEFAULTS_ID],
            "bags": [*PUBLIC_CONTAINERS, *question["projects"]],
        }  # fmt: skip
        self._run_as_owner((_DELETE_SCOPE, {"pid": pid}), (_FILL_SCOPE, values))
        try:
            yield
        finally:
            with suppress(psycopg.Error):  # the next question of that process deletes it
                self._run_as_owner((_DELETE_SCOPE, {"pid": pid}))

    def _read_login(self) -> tuple[str, str]:
        rows = self._run_as_owner((_SELECT_LOGIN, {}))
        if not rows:
            raise Unavailable(
                "SQL questions are not available: the database has no role for them.",
                hint="An operator finds the SQL that makes it in the log of the server's start.",
            )
        role, password = rows[0]
        return role, password

    def _run_as_owner(self, *statements: tuple[str, dict[str, Any]]) -> list[tuple[Any, ...]]:
        """Run statements as the world's own role; return the last one's rows."""
        with self._owner_lock:
            is_new = self._owner is None
            try:
                return self._run_once(*statements)
            except psycopg.OperationalError:
                if self._owner is not None:
                    self._owner.close()
                    self._owner = None
                if is_new:
                    raise
            return self._run_once(*statements)

    def _run_once(self, *statements: tuple[str, dict[str, Any]]) -> list[tuple[Any, ...]]:
        if self._owner is None:
            address = self._url.render_as_string(False)
            self._owner = _connect(address, "report scope", OWNER_SETTINGS)
            self._owner.execute(_DELETE_OLD_SCOPES)
        with self._owner.transaction():
            for statement, values in statements:
                cursor = self._owner.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


def _connect(address: str, name: str, settings: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        address,
        autocommit=True,
        prepare_threshold=None,
        application_name=f"sshwarma/{name}",
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        options=settings,
        keepalives_idle=5,
        keepalives_interval=5,
        keepalives_count=3,
    )


def _ask(driver: psycopg.Connection[Any], question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question on a connection with its scope."""
    sql: str = question["sql"]
    deadline = time.monotonic() + question["seconds"]
    if len(sql) > MAX_STATEMENT_CHARACTERS:
        raise make_database_error("the statement is too long")
    _limit_time(driver, deadline, "SET")
    columns = _read_columns(driver, sql)
    driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    names = ", ".join(f"c{n}" for n in range(len(columns)))
    try:
        driver.execute(f"CREATE TEMP VIEW question ({names}) AS\n{sql}".encode(), prepare=False)
    except psycopg.errors.InvalidTableDefinition as error:
        text = "a column of the result has a type that cannot be shown"
        raise make_database_error(text) from error
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.SyntaxError) as error:
        raise make_denied_error(sql, "write", "") from error
    denied = find_denied_use(driver, _VIEW)
    if denied is not None:
        raise make_denied_error(sql, *denied)
    driver.execute("SET TRANSACTION READ ONLY")
    answer = AnswerRows([name for name, _ in columns], [type_ for _, type_ in columns], question)
    return _read_rows(driver, answer, deadline)


def _read_columns(driver: psycopg.Connection[Any], sql: str) -> list[tuple[str, int]]:
    """Return the names and types of the columns of a question, which is not executed."""
    for result in (driver.pgconn.prepare(b"", sql.encode()), driver.pgconn.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            error = errors.error_from_result(result, encoding="utf-8")
            if isinstance(error, errors.QueryCanceled) or error.sqlstate is None:
                raise error
            raise make_statement_error(sql, error, _read_relations(driver)) from error
    if result.nparams:
        raise make_parameters_error()
    if not result.nfields:
        raise make_incomplete_error(sql)
    if result.nfields > MAX_COLUMNS:
        raise make_database_error("too many columns in result set")
    columns = [
        ((result.fname(n) or b"").decode("utf-8", "replace"), result.ftype(n))
        for n in range(result.nfields)
    ]
    for name, type_ in columns:
        if type_ == VOID_TYPE:  # named like the function, which is called for its effect
            raise make_denied_error(sql, "function", name)
    return columns


def _read_rows(
    driver: psycopg.Connection[Any], answer: AnswerRows, deadline: float
) -> dict[str, Any]:
    cells = ", ".join(
        f"pg_catalog.left(c{n}::pg_catalog.text, {answer.max_cell_characters + 1})"
        for n in range(len(answer.columns))
    )
    _limit_time(driver, deadline)
    declare = f"DECLARE found NO SCROLL CURSOR FOR SELECT {cells} FROM {_VIEW}"  # noqa: S608
    driver.execute(declare.encode())
    try:
        while not answer.is_full:
            _limit_time(driver, deadline)
            rows = driver.execute(f"FETCH {FETCHED_ROWS} FROM found".encode()).fetchall()
            for row in rows:
                answer.add(row)
            if len(rows) < FETCHED_ROWS:
                return answer.finish()
        while answer.may_count:
            _limit_time(driver, deadline)
            count = driver.execute(f"MOVE FORWARD {COUNTED_ROWS} FROM found".encode()).rowcount
            answer.more += count
            if count < COUNTED_ROWS:
                return answer.finish()
    except errors.QueryCanceled:
        if not answer.more:
            raise
    return answer.finish(uncounted=True)


def _read_relations(driver: psycopg.Connection[Any]) -> Relations:
    relations: Relations = {}
    for relation, column in driver.execute(_SELECT_RELATIONS):
        relations.setdefault(relation, []).append(column)
    return relations


def _limit_time(
    driver: psycopg.Connection[Any], deadline: float, command: str = "SET LOCAL"
) -> None:
    """Let the next statement run until the question's time is over."""
    left = max(1, round((deadline - time.monotonic()) * 1000))
    driver.execute(f"{command} statement_timeout = {left}".encode())
