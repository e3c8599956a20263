"""Questions in SQL: their limits of time, memory, size and number."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_ROWS,
    REPORT_TIMEOUT_SECONDS,
)
from sshwarma.world import (
    reports,
    rows,
)
from sshwarma.world.databases import Location
from sshwarma.world.errors import Unavailable
from sshwarma.world.reports import Reports, ReportScope
from sshwarma.world.world import World
from support.asking import Asking
from support.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


ENDLESS = "SELECT count(*) FROM things a, things b, things c, things d, things e"

ENDLESS_FOR_SQLITE = [
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
    ENDLESS,
    # One function that no handler inside SQLite can end.
    "SELECT length(replace(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b', ''))",
]


TOO_BIG = [
    "SELECT printf('%.*c', 8000000, 'x') || printf('%.*c', 8000000, 'x')",
    "SELECT replace(hex(printf('%.*c', 3000000, 'x')), '7', printf('%.*c', 1000, 'x'))",
]


TOO_MUCH = [
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
    " SELECT json_group_array(printf('%.*c', 100000, 'x')) FROM t",
    "WITH RECURSIVE t(n, x) AS (SELECT 1, printf('%.*c', 4000000, 'x') UNION ALL"
    " SELECT n + 1, x || n FROM t) SELECT count(DISTINCT x) FROM t",
    "SELECT x FROM (WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
    " SELECT n, printf('%.*c', 2000000, n) AS x FROM t) ORDER BY x",
]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("sql", "seconds"),
    [
        pytest.param(ENDLESS, REPORT_TIMEOUT_SECONDS, marks=pytest.mark.soak),
        *((sql, 0.5) for sql in ENDLESS_FOR_SQLITE),
    ],
)
async def test_endless_query_times_out(
    bobs: Asking, sql: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process runs all that time, and no longer: it is counted in seconds of CPU."""
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", seconds)
    started, before = time.monotonic(), os.times()
    refusal = await bobs.refused(sql)
    assert f"timed out after {seconds:g} s" in refusal.message
    assert time.monotonic() - started >= seconds
    used = os.times()
    cpu_seconds = used.children_user - before.children_user
    assert 0 < cpu_seconds < reports.PROCESS_TIMEOUT_SECONDS + 1


@pytest.mark.sqlite
@pytest.mark.parametrize("sql", TOO_BIG)
async def test_value_over_the_size_limit_is_refused(bobs: Asking, sql: str) -> None:
    assert "exceeds 8 MiB" in (await bobs.refused(sql)).message


@pytest.mark.sqlite
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system bounds no memory")
@pytest.mark.parametrize("sql", TOO_MUCH)
async def test_query_over_the_memory_limit_is_refused(
    bobs: Asking, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer than the limit to fill the memory.
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(reports, "PROCESS_TIMEOUT_SECONDS", 90)
    assert "exceeded 128 MiB of memory" in (await bobs.refused(sql)).message


async def test_rows_cells_and_size_are_capped_and_reported(bobs: Asking, store_name: str) -> None:
    repeat, blob = "printf('%.*c', {}, 'x')", "x'00ff'"
    if store_name == "postgres":
        repeat, blob = "repeat('x', {})", r"'\x00ff'::bytea"
    numbers = (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT {} FROM t LIMIT {}"
    )
    answer = await bobs.ask(numbers.format("x", 250))
    assert (len(answer.rows), answer.more, answer.uncounted) == (MAX_REPORT_ROWS, 50, False)
    answer = await bobs.ask(numbers.format("x", 10**9))
    assert len(answer.rows) == MAX_REPORT_ROWS and answer.uncounted
    answer = await bobs.ask(f"SELECT {repeat.format(5000)}, 'short', {blob}")
    long, short, shown = answer.rows[0]
    assert isinstance(long, str) and len(long) == MAX_REPORT_CELL_CHARACTERS and long.endswith("…")
    assert (short, shown, answer.cut_cells) == ("short", "x'00ff'", 1)
    answer = await bobs.ask(numbers.format(repeat.format(900), 150))
    assert sum(len(str(cell)) for row in answer.rows for cell in row) <= MAX_REPORT_CHARACTERS
    assert len(answer.rows) + answer.more == 150 and answer.more > 50
    answer = await bobs.ask("SELECT 1 AS " + "c" * 500)
    assert len(answer.columns[0]) == 60


async def test_running_and_waiting_queries_are_limited(
    own_bobs: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    bobs = own_bobs
    monkeypatch.setattr(reports, "MAX_WAITING_REPORTS", 3)
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", 1)
    slow = [asyncio.create_task(bobs.refused(ENDLESS)) for _ in range(3)]
    await until(lambda: bobs.world.reports._waiting == 3)
    with pytest.raises(Unavailable, match="3 queries are waiting"):
        await bobs.ask("SELECT 1")
    await do_meanwhile(bobs.world)
    assert not any(asking.done() for asking in slow), "the world waited for them"
    for refusal in await asyncio.gather(*slow):
        assert "timed out after" in refusal.message
    assert await bobs.column("SELECT 1") == [1]


def running_of(reports: Reports) -> set[Any]:
    """What runs at the moment: processes, or connections."""
    found: set[Any] = reports._runner._running  # type: ignore[attr-defined]
    return found


async def do_meanwhile(world: World) -> None:
    """The world answers while questions run."""
    await world.change(
        lambda tx: rows.append_row(tx, "lobby", "chat", "still here", author_id=None)
    )


@pytest.mark.sqlite
async def test_cancelled_query_ends_its_process(bobs: Asking) -> None:
    asking = asyncio.create_task(bobs.ask(ENDLESS))
    await until(lambda: bool(running_of(bobs.world.reports)))
    (process,) = running_of(bobs.world.reports)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert process.returncode is not None
    assert not running_of(bobs.world.reports)


async def test_closing_the_world_ends_running_queries(database: Location) -> None:
    asked = Reports(database)
    asking = asyncio.create_task(asked.run_query(ENDLESS, ReportScope("x", ())))
    await until(lambda: bool(running_of(asked)))
    await asked.close()
    with pytest.raises(Unavailable, match="The query was stopped"):
        await asking
