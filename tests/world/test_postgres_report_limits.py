"""Questions in SQL on PostgreSQL: limits, and that no function has effects."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from sshwarma.world import postgres_running_question, reports
from sshwarma.world.postgres_report_access import (
    ALLOWED_FUNCTIONS,
    ALLOWED_OPERAND_TYPES,
    ALLOWED_OPERATORS,
    ALLOWED_TYPES,
)
from support.asking import Asking
from support.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CROSS_JOIN = "SELECT count(*) FROM things a, things b, things c, things d, things e"

ENDLESS = [
    CROSS_JOIN,
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a < b",
    "SELECT count(*) FROM generate_series(1, 1000000) AS x"
    " WHERE regexp_replace(repeat('ab', x % 1000 + 1000), 'a', 'bb', 'g') = x::text",
]

TOO_BIG = [
    "SELECT repeat('x', 8000000) || repeat('x', 8000000)",
    "SELECT length(repeat('x', 900000000))",
    "SELECT lpad('x', 900000000), rpad('x', 900000000, 'y')",
    "SELECT replace(repeat('7', 3000000), '7', repeat('x', 1000))",
    "WITH RECURSIVE t(n, x) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, x || x FROM t WHERE n < 99)"
    " SELECT max(length(x)) FROM t",
    "SELECT CASE WHEN name = 'x' THEN repeat(name, 1000000000) ELSE repeat(name, 9000000) END"
    " FROM things",
    # No statement timeout ends these.
    "SELECT repeat('a', 8000000) LIKE '%' || repeat('a', 50000) || 'b%'",
    "SELECT repeat('a', 8000000) NOT ILIKE '%' || repeat('a', 50000) || 'b%'",
    "SELECT strpos(repeat('a', 8000000), 'b' || repeat('a', 50000))",
    "SELECT split_part(repeat('a', 8000000), 'b' || repeat('a', 50000), 1)",
    "SELECT cardinality(string_to_array(repeat('a', 8000000), 'b' || repeat('a', 50000)))",
    "SELECT btrim(repeat('a', 8000000), repeat('b', 8000000) || 'a')",
    "SELECT translate(repeat('a', 8000000), repeat('b', 8000000), '')",
]

TOO_MUCH = [
    "SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 900)",
    "SELECT cardinality(array_agg(repeat('x', 1000000))) FROM generate_series(1, 900)",
    "SELECT length(json_agg(repeat('x', 1000000))::text) FROM generate_series(1, 900)",
    "WITH RECURSIVE t(n, x) AS (SELECT 1, ARRAY[repeat('x', 1000)] UNION ALL"
    " SELECT n + 1, ARRAY[x::text, x::text] FROM t WHERE n < 40) SELECT max(n) FROM t",
]


async def backends(bobs: Asking) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sshwarma/report'"
    with psycopg.connect(bobs.world.store.dialect.place) as conn:
        (count,) = conn.execute(query).fetchone() or (0,)
        return int(count)


@pytest.mark.parametrize("sql", ENDLESS)
async def test_endless_query_times_out_and_runs_no_longer(
    bobs: Asking, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", 0.5)
    started = time.monotonic()
    refusal = await bobs.refused(sql)
    assert "timed out after 0.5 s" in refusal.message or "temporary files" in refusal.message
    assert time.monotonic() - started < 4
    await until_no_backend(bobs)


async def until_no_backend(bobs: Asking) -> None:
    for _ in range(100):
        if not await backends(bobs):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("a question still runs")


async def test_sorting_is_bounded_by_temporary_files(bobs: Asking) -> None:
    numbers = "generate_series(1, 100000000)"
    refusal = await bobs.refused(f"SELECT x FROM {numbers} AS x ORDER BY x DESC")
    assert "limit of temporary files" in refusal.message


@pytest.mark.parametrize("sql", TOO_BIG)
async def test_value_over_the_size_limit_is_refused_at_once(bobs: Asking, sql: str) -> None:
    started = time.monotonic()
    assert "exceeds 8 MiB" in (await bobs.refused(sql)).message
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("sql", TOO_MUCH)
async def test_query_over_the_memory_limit_is_ended(
    bobs: Asking, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(postgres_running_question, "END_TIMEOUT_SECONDS", 90)
    assert "exceeded 128 MiB of memory" in (await bobs.refused(sql)).message
    await until_no_backend(bobs)


async def test_wide_rows_are_cut_before_they_are_sent(bobs: Asking) -> None:
    columns = ", ".join(["repeat('x', 1000000)"] * 50)
    answer = await bobs.ask(f"SELECT {columns} FROM generate_series(1, 3)")
    assert (len(answer.rows), answer.more, answer.cut_cells) == (1, 2, 50)


async def test_cancelled_query_ends_its_backend(bobs: Asking) -> None:
    asking = asyncio.create_task(bobs.ask(CROSS_JOIN))
    runner: Any = bobs.world.reports._runner
    await until(lambda: any(asked._driver is not None for asked in runner._running))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not runner._running
    await until_no_backend(bobs)


async def test_question_after_the_servers_restart_of_connections_is_answered(bobs: Asking) -> None:
    assert await bobs.column("SELECT 1") == [1]
    with psycopg.connect(bobs.world.store.dialect.place, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'sshwarma/report%'"
        )
    assert await bobs.column("SELECT 1") == [1]


async def test_no_allowed_function_or_operator_has_effects(bobs: Asking) -> None:
    """All of pg_proc that a question may call, by name or by a cast."""
    functions = """
        SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
        WHERE p.pronamespace = 'pg_catalog'::regnamespace
        AND (proname = ANY (%(names)s) OR proname || '/' || pronargs = ANY (%(names)s)
             OR EXISTS (SELECT FROM pg_cast WHERE castfunc = p.oid) AND t.typname = ANY (%(types)s))
        AND (provolatile = 'v' OR prosecdef
             OR proargtypes::oid[] && ARRAY['internal', 'regclass', 'regproc', 'cstring', 'xml',
                                            'tsquery', 'refcursor', 'oid']::regtype[]::oid[])
        ORDER BY 1
    """
    operators = """
        SELECT o.oid::regoperator::text FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode
        LEFT JOIN pg_type l ON l.oid = o.oprleft JOIN pg_type r ON r.oid = o.oprright
        WHERE oprname = ANY (%(operators)s) AND provolatile = 'v'
        AND coalesce(l.typname, r.typname) = ANY (%(operands)s) AND r.typname = ANY (%(operands)s)
    """
    values = {
        "names": list(ALLOWED_FUNCTIONS), "types": list(ALLOWED_TYPES),
        "operators": list(ALLOWED_OPERATORS), "operands": list(ALLOWED_OPERAND_TYPES),
    }  # fmt: skip
    with psycopg.connect(bobs.world.store.dialect.place) as conn:
        found = [name for (name,) in conn.execute(functions, values)]
        assert found == KNOWN_HARMLESS
        assert conn.execute(operators, values).fetchall() == []


KNOWN_HARMLESS = ["int8(oid)", "max(oid)", "min(oid)"]
"""Allowed functions that take numbers of the system's objects and do nothing with them."""
