"""Budgets: limits of a model for one turn and one day (UTC), and its usage.

A turn checks its TurnBudget before each step, plans the step by the size of its request, and adds
each TokenUsage to it. The day's usage is
read from the usage table once and then kept in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from sshwarma.common.limits import DEFAULT_TURN_SECONDS, DEFAULT_TURN_STEPS
from sshwarma.models.prices import TOKENS_PER_PRICE
from sshwarma.settings import ModelSettings
from sshwarma.world import usage
from sshwarma.world.end_reason import EndReason
from sshwarma.world.usage import TokenUsage
from sshwarma.world.world import World

T = TypeVar("T")


MIN_CALL_TOKENS: Final = 300
"""Tokens that the calls of a step and their results add to the next request at least; what does not
fit of the results is cut."""


class BudgetExceeded(Exception):
    """A limit was reached.

    `reason` names the limit; for people, it also says who can change it.
    """

    def __init__(self, reason: EndReason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of one model, named as the settings; None means no limit.

    `change_hint` says who can change them and how, with `{}` for the name of the setting. The
    prices, in US dollars for a million tokens, are for answers from before they were set.
    """

    turn_steps: int = DEFAULT_TURN_STEPS
    turn_seconds: float = DEFAULT_TURN_SECONDS
    turn_tokens: int | None = None
    turn_cost: float | None = None
    day_tokens: int | None = None
    day_cost: float | None = None
    change_hint: str = ""
    price_in: float | None = None
    price_out: float | None = None

    @classmethod
    def from_settings(cls, settings: ModelSettings, change: str) -> BudgetLimits:
        """Return the limits of a model's settings.

        `change` says how to change a limit, with `{}` for its name.
        """
        return cls(
            settings.turn_steps,
            settings.turn_seconds,
            settings.turn_tokens,
            settings.turn_cost,
            settings.day_tokens,
            settings.day_cost,
            change,
            settings.price_in,
            settings.price_out,
        )

    def estimate_cost(self, used: UsageTotal) -> float | None:
        """Return the US dollars of some usage, its unpriced answers at today's price.

        None if they have no price today either.
        """
        if not used.unpriced:
            return used.cost
        if self.price_in is None or self.price_out is None:
            return None
        prompt_cost = used.unpriced_prompt_tokens * self.price_in
        answer_cost = used.unpriced_completion_tokens * self.price_out
        return used.cost + (prompt_cost + answer_cost) / TOKENS_PER_PRICE

    def make_error(self, text: str, setting: str) -> BudgetExceeded:
        """Build the error for a limit that was reached."""
        advice = f"; {self.change_hint.format(setting)}" if self.change_hint else ""
        return BudgetExceeded(EndReason(text + advice, text))


@dataclass(slots=True)
class UsageTotal:
    """Total tokens and US dollars.

    Attributes:
        unpriced: number of answers of unknown price; their tokens are counted apart, too.
        reserved: tokens that steps in progress will probably use.
    """

    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    unpriced_prompt_tokens: int = 0
    unpriced_completion_tokens: int = 0
    reserved: int = 0

    def add(self, spent: TokenUsage) -> None:
        """Add the tokens and the cost of one step."""
        self.tokens += spent.prompt_tokens + spent.completion_tokens
        if spent.cost is not None:
            self.cost += spent.cost
            return
        self.unpriced += 1
        self.unpriced_prompt_tokens += spent.prompt_tokens
        self.unpriced_completion_tokens += spent.completion_tokens


@dataclass(slots=True)
class TurnBudget:
    """Budget of one turn; `day_usage` returns its model's usage today.

    `total_usage` is that since the start of the server, for the metrics.
    """

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    day_usage: Callable[[], UsageTotal] = UsageTotal
    total_usage: UsageTotal = field(default_factory=UsageTotal)
    steps: int = 0
    turn_usage: UsageTotal = field(default_factory=UsageTotal)
    step_start_tokens: int = 0  # tokens of the turn before the step that has begun
    last_step_tokens: int = 0  # tokens of the step before it
    is_last_step: bool = False  # whether the model must answer in this step
    _reservation: tuple[UsageTotal, int] | None = None  # of the step in progress
    _time_limit: asyncio.Timeout | None = None

    def begin_step(self) -> None:
        """Count another step.

        Raises:
            BudgetExceeded: if a limit of the turn or of the day is reached.
        """
        if self.steps >= self.limits.turn_steps:
            raise self.make_end_error()
        self.check()
        self.steps += 1
        tokens = self.turn_usage.tokens
        self.last_step_tokens = tokens - self.step_start_tokens
        self.step_start_tokens = tokens

    def plan_step(self, request_tokens: int, answer_tokens: int) -> None:
        """Decide whether the step that has begun is the last: the model must answer now.

        It is if the tokens of the turn or of the day do not suffice for it and for another one,
        which sends what this one sends, the calls and their results. Sets `is_last_step`. The
        step's tokens are reserved until its usage is known, so that turns at the same time do not
        use the same tokens of the day.

        Args:
            request_tokens: Estimated tokens of the request; 0 if the backend reads no context.
            answer_tokens: Tokens that an answer needs.

        Raises:
            BudgetExceeded: if the first request alone exceeds the tokens of the turn, or any
                request those that are left of the day.
        """
        self._release()
        self.is_last_step = self.steps >= self.limits.turn_steps
        left = self.left_tokens
        if left is None:
            return
        self._check_request(request_tokens)
        self._reserve(request_tokens + answer_tokens if request_tokens else 0)
        # A provider may count more than the estimate: the step before shows that.
        needed = max(request_tokens + answer_tokens if request_tokens else 0, self.last_step_tokens)
        added = MIN_CALL_TOKENS if request_tokens else 0
        self.is_last_step = self.is_last_step or left < 2 * needed + added

    def _check_request(self, tokens: int) -> None:
        in_turn, today = self._left_in_turn, self._left_today
        size = f"its request has about {tokens:,} tokens"
        if self.steps == 1 and in_turn is not None and tokens >= in_turn:
            text = f"cannot answer: {size}; the limit of a turn is {in_turn:,}"
            raise self.limits.make_error(text, "turn_tokens")
        if tokens and today is not None and tokens >= today:
            text = f"{size}; {today:,} of {self.limits.day_tokens:,} are left for today (UTC)"
            prefix = "cannot answer:" if self.steps == 1 else "was stopped:"
            raise self.limits.make_error(f"{prefix} {text}", "day_tokens")

    def _reserve(self, tokens: int) -> None:
        today = self.day_usage()
        today.reserved += tokens
        self._reservation = (today, tokens)

    def _release(self) -> None:
        if self._reservation is not None:
            day, tokens = self._reservation
            day.reserved -= tokens
            self._reservation = None

    @property
    def left_tokens(self) -> int | None:
        """Tokens that are left of those of the turn and of the day; None without a limit."""
        left = [tokens for tokens in (self._left_in_turn, self._left_today) if tokens is not None]
        return min(left, default=None)

    @property
    def _left_in_turn(self) -> int | None:
        limit = self.limits.turn_tokens
        return None if limit is None else max(0, limit - self.turn_usage.tokens)

    @property
    def _left_today(self) -> int | None:
        limit, today = self.limits.day_tokens, self.day_usage()
        return None if limit is None else max(0, limit - today.tokens - today.reserved)

    def make_end_error(self) -> BudgetExceeded:
        """Build the error for a turn that goes on after its last step."""
        if self.steps < self.limits.turn_steps:
            return self._make_token_error()
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        text = f"was stopped: it used {steps} (limit of a turn: {self.limits.turn_steps})"
        return self.limits.make_error(text, "turn_steps")

    def _make_token_error(self) -> BudgetExceeded:
        most_tokens, tokens = self.limits.turn_tokens, self.turn_usage.tokens
        text = f"was stopped: it used {tokens:,} tokens (limit of a turn: {most_tokens:,})"
        return self.limits.make_error(text, "turn_tokens")

    def check(self) -> None:
        """Raise if the tokens or the cost of the turn or of the day are used up.

        Raises:
            BudgetExceeded: if a limit is reached, or a cost limit cannot be enforced.
        """
        limits, turn, day = self.limits, self.turn_usage, self.day_usage()
        if limits.turn_tokens is not None and turn.tokens >= limits.turn_tokens:
            raise self._make_token_error()
        if limits.day_tokens is not None and day.tokens >= limits.day_tokens:
            text = f"it has used {day.tokens:,} of {limits.day_tokens:,} tokens for today (UTC)"
            raise limits.make_error(f"{self._refusal_prefix} {text}", "day_tokens")
        self._check_cost("turn", limits.turn_cost, turn)
        self._check_cost("day", limits.day_cost, day)

    def _check_cost(self, span: str, limit: float | None, used: UsageTotal) -> None:
        if limit is None:
            return
        setting = f"{span}_cost"
        cost = self.limits.estimate_cost(used)
        if cost is None:
            text = f"its price is unknown, so the limit of ${limit:g} a {span} cannot be enforced"
            raise self.limits.make_error(f"{self._refusal_prefix} {text}", setting)
        if cost >= limit:
            text = f"it has used ${cost:.4g} of ${limit:g} for one {span}"
            raise self.limits.make_error(f"{self._refusal_prefix} {text}", setting)

    @property
    def _refusal_prefix(self) -> str:
        return "was stopped:" if self.steps else "does not answer:"

    def add_usage(self, used: TokenUsage) -> None:
        """Add the usage of a step; the next step checks the limits."""
        self._release()
        self.turn_usage.add(used)
        self.day_usage().add(used)
        self.total_usage.add(used)

    def extend_time(self, seconds: float) -> None:
        """Move the end of the time limit while a person is asked."""
        limit = self._time_limit
        if limit is not None and not limit.expired() and (end := limit.when()) is not None:
            limit.reschedule(end + seconds)

    async def run_with_timeout(self, work: Awaitable[T]) -> T:
        """Await a turn's work for at most `turn_seconds`.

        Raises:
            BudgetExceeded: if it takes longer; the work is cancelled.
        """
        try:
            async with asyncio.timeout(self.limits.turn_seconds) as limit:
                self._time_limit = limit
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._release()
        seconds = self.limits.turn_seconds
        text = f"was stopped after {seconds:g} s (time limit of a turn)"
        raise self.limits.make_error(text, "turn_seconds")


class ModelBudgets:
    """Budgets of all models of a world; `limits` returns a model's by its agent's id.

    Attributes:
        totals: usage since the start of the server, by agent id.
    """

    def __init__(self, world: World, limits: Callable[[str], BudgetLimits]) -> None:
        self._world = world
        self._limits = limits
        self._days: dict[str, tuple[str, UsageTotal]] = {}
        self.totals: dict[str, UsageTotal] = {}

    def seconds_of(self, agent_id: str) -> float:
        """Return the seconds that one turn of a model may take."""
        return self._limits(agent_id).turn_seconds

    async def begin_turn(self, agent_id: str) -> TurnBudget:
        """Return the budget of a new turn."""
        await self.usage_today(agent_id)
        total = self.totals.setdefault(agent_id, UsageTotal())
        return TurnBudget(self._limits(agent_id), lambda: self._today(agent_id), total)

    async def usage_today(self, agent_id: str) -> UsageTotal:
        """Return a model's usage today (UTC)."""
        if agent_id not in self._days:
            day = _utc_today()
            totals = await self._world.store.read(
                lambda conn: usage.read_usage_since(conn, agent_id, day)
            )
            # Another turn may have read and added usage meanwhile: its total is newer.
            self._days.setdefault(agent_id, (day, UsageTotal(*totals)))
        return self._today(agent_id)

    def _today(self, agent_id: str) -> UsageTotal:
        day = _utc_today()
        entry = self._days.get(agent_id)
        if entry is None or entry[0] != day:
            entry = self._days[agent_id] = (day, UsageTotal())
        return entry[1]


def _utc_today() -> str:
    """Return today's UTC date, the prefix of the times in the usage table."""
    return datetime.now(UTC).date().isoformat()
