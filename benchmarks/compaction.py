"""Compaction of a log of 10,000 rows that are in memory.

    python -m benchmarks.compaction

The first time renders and measures every row; afterwards only new rows are rendered, as with each
question and each step of a turn. The baseline is a pass over the rows that adds up the lengths of
their texts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.leave_out import ToolRetention, parse_policy
from sshwarma.world.row import Row
from sshwarma.wrap.compact import compact_log
from sshwarma.wrap.render_cache import RenderCache
from sshwarma.wrap.transcript import Transcript

ROWS = 10_000
RUNS = 50
BUDGETS = (1_000_000_000, 100_000, 20_000)
"""Tokens: one that all rows fit, that of a large model and that of a small one."""

KEPT_TOKENS = 1_000
"""Tokens more that results to keep may take, as with each request."""

TARGET_MS = 30.0
CALLS_PER_TURN = 3
RESULT = "line {} of a file with some words in it\n" * 25
POLICIES = ("KEEP", "SHORT 600", "PARAMS_ONLY", "OMIT")


def make_rows(count: int) -> list[Row]:
    """Make a log: turns with calls of four tools, and talk between them."""
    rows: list[Row] = []

    def add(kind: str, content: str, author: str, turn: int | None = None, **more: object) -> Row:
        seq = len(rows) + 1
        turn_id = None if turn is None else f"t{turn}"
        row = Row(f"r{seq}", "lobby", seq, kind, content, author, 0, turn_id=turn_id, **more)  # type: ignore[arg-type]
        rows.append(row)
        return row

    turn = 0
    while len(rows) < count:
        turn += 1
        add("chat", f"@helper a question of the usual length, number {turn}?", "a", turn)
        for step in range(CALLS_PER_TURN):
            meta = {"tool": f"t:{POLICIES[(turn + step) % len(POLICIES)]}"}
            call = add(
                "tool.call", f'{{"path": "src/{turn}.py"}}', "m", turn, meta=meta | {"step": step}
            )
            text = RESULT.format(*[turn] * 25)
            add("tool.result", text, "m", turn, meta=meta, parent_row_id=call.id)
        add("chat", f"An answer number {turn} that says what was found there.", "m", turn)
        add("chat", f"talk number {turn} of somebody", "b")
        add("chat", f"talk number {turn} of somebody else", "a")
    return rows[:count]


def measure(what: str, run: Callable[[], object], runs: int, target: str = "") -> float:
    """Print p50 and p99 of a call in milliseconds; return p50."""
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        run()
        taken.append((time.perf_counter() - began) * 1e3)
    p50 = statistics.median(taken)
    p99 = statistics.quantiles(taken, n=100)[98] if len(taken) > 1 else p50
    print(f"{what:<52} p50 {p50:7.2f}  p99 {p99:7.2f}{target}", flush=True)
    return p50


def main() -> None:
    agents = AgentDirectory()
    agents.load([Agent("m", "helper", "model"), Agent("a", "alice"), Agent("b", "bob")], [])
    policies = {f"t:{text}": ToolRetention.of(parse_policy(text)) for text in POLICIES}
    rows = make_rows(ROWS)
    print(f"compaction of {ROWS:,} rows, ms")
    base = measure("lengths of all texts (baseline)", lambda: sum(map(_length, rows)), RUNS)
    fresh = Transcript("m", agents, policies)
    measure("the first time", lambda: compact_log(rows, fresh, BUDGETS[1]), 3)
    known = Transcript("m", agents, policies, cache=RenderCache())
    compact_log(rows, known, BUDGETS[0])
    for budget in BUDGETS:
        size = "all rows fit" if budget == BUDGETS[0] else f"a budget of {budget:,} tokens"
        p50 = measure(
            f"again, {size}",
            lambda budget=budget: compact_log(rows, known, budget, KEPT_TOKENS),
            RUNS,
            f"  target p50 < {TARGET_MS:.0f}",
        )
        print(f"{'':<52} base x {p50 / base:.1f}")


def _length(row: Row) -> int:
    return len(row.content)


if __name__ == "__main__":
    main()
