"""Budgets: what a turn and a day may take, and what is remembered of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sshwarma.models import budget as budgets_module
from sshwarma.models.budget import (
    BudgetExceeded,
    BudgetLimits,
    ModelBudgets,
    TurnBudget,
    UsageTotal,
)
from sshwarma.settings import ModelSettings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, usage
from sshwarma.world.databases import Location
from sshwarma.world.schema import usage as usage_table
from sshwarma.world.usage import TokenUsage
from sshwarma.world.world import World

CENT = TokenUsage(60, 40, cost=0.01)


@pytest.fixture
async def world(database: Location) -> AsyncIterator[World]:
    opened = await World.open(database, tool_specs())
    yield opened
    await opened.close()


async def model(world: World, name: str = "qwen") -> str:
    return (await world.change(lambda tx: agents.create_agent(tx, name, kind="model"))).id


async def spend(
    world: World, agent_id: str, spent: TokenUsage, when: datetime | None = None
) -> None:
    def work(tx: Any) -> None:
        counted = replace(spent, estimated=False)
        usage.record_usage(tx, "lobby", agent_id, None, "m", counted)
        if when is not None:
            newest = tx.conn.exec_driver_sql("SELECT max(id) FROM usage").scalar()
            tx.conn.execute(
                usage_table.update()
                .where(usage_table.c.id == newest)
                .values(created_at=when.isoformat(timespec="milliseconds"))
            )

    await world.change(work)


def used_up(limits: BudgetLimits, *spent: TokenUsage) -> str:
    """The words with which the turn ends."""
    day = UsageTotal()
    budget = TurnBudget(limits, lambda: day)
    with pytest.raises(BudgetExceeded) as over:
        for one in spent:
            budget.begin_step()
            budget.add_usage(one)
        budget.begin_step()
    return str(over.value)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (BudgetLimits(turn_steps=3), "it used 3 steps (limit of a turn: 3)"),
        (BudgetLimits(turn_tokens=300), "it used 300 tokens (limit of a turn: 300)"),
        (BudgetLimits(turn_cost=0.03), "it has used $0.03 of $0.03 for one turn"),
        (BudgetLimits(day_tokens=250), "it has used 300 of 250 tokens for today (UTC)"),
        (BudgetLimits(day_cost=0.025), "it has used $0.03 of $0.025 for one day"),
    ],
)
def test_each_limit_ends_a_turn_and_is_named(limits: BudgetLimits, said: str) -> None:
    assert said in used_up(limits, CENT, CENT, CENT)


def test_usage_under_every_limit_continues() -> None:
    limits = BudgetLimits(4, 1, turn_tokens=301, turn_cost=0.031, day_tokens=301, day_cost=0.031)
    assert "4 steps" in used_up(limits, CENT, CENT, CENT, TokenUsage(0, 0, cost=0.0))


def test_unknown_price_ends_a_turn_with_a_cost_limit() -> None:
    said = used_up(BudgetLimits(turn_cost=1), TokenUsage(1, 1))
    assert "its price is unknown, so the limit of $1 a turn cannot be enforced" in said


def test_answers_from_before_a_price_was_set_count_at_that_price() -> None:
    """A limit of the day must not stop a model until midnight because of one of them."""
    limits = BudgetLimits(day_cost=0.01, price_in=1.0, price_out=2.0)
    day = UsageTotal()
    budget = TurnBudget(limits, lambda: day)
    budget.begin_step()
    budget.add_usage(TokenUsage(1_000, 500))  # $0.002 at this price
    budget.check()
    budget.add_usage(TokenUsage(0, 0, cost=0.0079))
    budget.check()
    budget.add_usage(TokenUsage(0, 50))
    with pytest.raises(BudgetExceeded, match=r"it has used \$0.01 of \$0.01 for one day"):
        budget.check()


def test_limit_message_says_who_can_change_it() -> None:
    change = "an owner can change its {} (verb model set)"
    assert used_up(BudgetLimits(turn_steps=1, change_hint=change), CENT).endswith(
        "; an owner can change its turn_steps (verb model set)"
    )


def planned(limit: int | None, *request_tokens: int, spent: int = 0) -> list[bool]:
    """Whether each step is the last; `spent` tokens replace the estimated ones."""
    budget = TurnBudget(BudgetLimits(turn_tokens=limit))
    made = []
    for size in request_tokens:
        budget.begin_step()
        budget.plan_step(size, 500)
        made.append(budget.is_last_step)
        budget.add_usage(TokenUsage(spent or size, 100))
    return made


def test_step_is_the_last_if_another_one_would_not_fit() -> None:
    assert planned(None, 2_000, 3_000) == [False, False]
    assert planned(5_299, 2_000) == [True]  # 2 * (2,000 + 500) + 300
    assert planned(5_300, 2_000) == [False]
    assert planned(9_000, 1_000, 2_000, 3_000) == [False, False, True]
    assert planned(9_000, 1_000, 1_000, spent=3_000) == [False, True]


def test_request_that_exceeds_the_tokens_of_a_turn_is_not_sent() -> None:
    change = "an owner can change its {}"
    budget = TurnBudget(BudgetLimits(turn_tokens=2_000, change_hint=change))
    budget.begin_step()
    with pytest.raises(BudgetExceeded) as over:
        budget.plan_step(2_000, 500)
    assert str(over.value) == (
        "cannot answer: its request has about 2,000 tokens; the limit of a turn is 2,000;"
        " an owner can change its turn_tokens"
    )


def test_used_up_daily_budget_starts_no_turn() -> None:
    budget = TurnBudget(BudgetLimits(day_tokens=10), lambda: UsageTotal(10))
    with pytest.raises(BudgetExceeded, match=r"^does not answer: it has used 10 of 10 tokens"):
        budget.check()


async def test_turn_timeout_cancels_the_running_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(BudgetExceeded, match=r"after 0.01 s \(time limit of a turn\)"):
        await TurnBudget(BudgetLimits(turn_seconds=0.01)).run_with_timeout(work())
    assert ended.is_set()


async def test_timeout_error_of_the_work_is_passed_on() -> None:
    async def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await TurnBudget().run_with_timeout(work())


async def test_daily_usage_is_read_once_then_counted_in_memory(world: World) -> None:
    qwen, other = await model(world), await model(world, "opus")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await spend(world, qwen, TokenUsage(5000, 5000, cost=5.0), yesterday)
    await spend(world, other, TokenUsage(700, 0))
    await spend(world, qwen, CENT)
    await spend(world, qwen, TokenUsage(10, 0))
    budgets = ModelBudgets(world, lambda agent_id: BudgetLimits())
    assert await budgets.usage_today(qwen) == UsageTotal(110, 0.01, 1, 10)
    reads = world.store.counts.reads
    first, second = await budgets.begin_turn(qwen), await budgets.begin_turn(qwen)
    first.add_usage(CENT)
    second.add_usage(CENT)
    assert first.day_usage() == second.day_usage() == UsageTotal(310, 0.03, 1, 10)
    assert first.turn_usage == UsageTotal(100, 0.01, 0)
    assert world.store.counts.reads == reads
    again = ModelBudgets(
        world, lambda agent_id: BudgetLimits()
    )  # after a restart: what was written
    assert await again.usage_today(qwen) == UsageTotal(110, 0.01, 1, 10)
    assert await again.usage_today(other) == UsageTotal(700, 0.0, 1, 700)


async def test_concurrent_turns_lose_no_usage(world: World) -> None:
    qwen = await model(world)
    budgets = ModelBudgets(world, lambda agent_id: BudgetLimits())

    async def turn() -> None:
        (await budgets.begin_turn(qwen)).add_usage(CENT)

    await asyncio.gather(*(turn() for _ in range(5)))
    assert await budgets.usage_today(qwen) == UsageTotal(500, pytest.approx(0.05), 0)  # type: ignore[arg-type]


async def test_daily_usage_resets_on_a_new_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    qwen = await model(world)
    budgets = ModelBudgets(world, lambda agent_id: BudgetLimits(day_tokens=100))
    budget = await budgets.begin_turn(qwen)
    budget.add_usage(CENT)
    with pytest.raises(BudgetExceeded):
        budget.check()
    monkeypatch.setattr(budgets_module, "_utc_today", lambda: "2999-01-01")
    budget.check()
    assert budget.day_usage() == UsageTotal()


def test_limits_come_from_the_settings() -> None:
    settings = ModelSettings(
        name="a", kind="openai", model="m", turn_steps=2, turn_seconds=3, turn_tokens=None,
        turn_cost=0.5, day_tokens=6, day_cost=7,
    )  # fmt: skip
    assert BudgetLimits.from_settings(settings, "x") == BudgetLimits(2, 3, None, 0.5, 6, 7, "x")
    plain = ModelSettings(name="a", kind="openai", model="m")
    assert BudgetLimits().turn_steps == plain.turn_steps
    assert BudgetLimits().turn_seconds == plain.turn_seconds


def share_day(day_tokens: int, count: int) -> tuple[UsageTotal, list[TurnBudget]]:
    """Budgets of turns at the same time, of one model."""
    today = UsageTotal()
    limits = BudgetLimits(day_tokens=day_tokens)
    return today, [TurnBudget(limits, lambda: today) for _ in range(count)]


def test_turns_at_the_same_time_share_the_tokens_of_the_day() -> None:
    today, turns = share_day(20_000, 20)
    answering = []
    for turn in turns:
        turn.begin_step()
        try:
            turn.plan_step(9_000, 500)
        except BudgetExceeded as error:
            assert "of 20,000 are left for today (UTC)" in str(error)
        else:
            answering.append(turn)
    assert len(answering) == 2
    for turn in answering:
        turn.add_usage(TokenUsage(9_000, 10))
    assert (today.tokens, today.reserved) == (18_020, 0)


async def test_reserved_tokens_are_free_again_when_a_turn_ends() -> None:
    today, (first, second) = share_day(20_000, 2)
    first.begin_step()
    first.plan_step(15_000, 500)
    second.begin_step()
    with pytest.raises(BudgetExceeded, match="request has about 15,000 tokens; 4,500 of 20,000"):
        second.plan_step(15_000, 500)

    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await first.run_with_timeout(fail())
    assert today.reserved == 0
    second.plan_step(15_000, 500)
    assert second.is_last_step, "there is no room for another"
