"""The verb stats: answers, tokens, cost, tool calls and skills used in a room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_STATS_DAYS
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.arguments import Arg, Flag, ModelName
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import draw_columns, format_count, view
from sshwarma.world import statistics
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.statistics import SkillUse, ToolCount, UsageTotals

BAR_COLUMNS = 20
"""Columns of the bar of a tool that got every call."""


StatsDays: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_STATS_DAYS)]

_NamedUsage: TypeAlias = tuple[Span, str, UsageTotals]
"""The usage of a model or a room, with its name and the names of the agents."""


@dataclass(frozen=True, slots=True)
class ModelUsage(UsageTotals):
    """The usage of one model. `agents`: names of the agents that answered with it."""

    model: str = ""
    agents: tuple[str, ...] = ()  # agents that answered with it


@dataclass(frozen=True, slots=True)
class RoomUsage(UsageTotals):
    """The usage in one room."""

    room: str = ""


@dataclass(frozen=True, slots=True)
class DayUsage(UsageTotals):
    """The usage of one day, such as `2026-11-21`, in UTC."""

    day: str = ""


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Usage of models, tools and skills.

    Attributes:
        scope: name of the room, or `every room`.
        since: ISO time of the first answer or call that is counted; None if nothing was used.
        until: ISO time of the last one.
        rooms: usage of each room; empty unless all rooms were requested.
        days: usage of each day with any, oldest first; empty unless days were requested.
    """

    scope: str
    of: str | None  # the one agent it is about
    since: str | None
    until: str | None
    spent: tuple[ModelUsage, ...]
    total: UsageTotals
    tools: tuple[ToolCount, ...]
    calls: int
    errors: int
    skills: tuple[SkillUse, ...]
    rooms: tuple[RoomUsage, ...] = ()
    days: tuple[DayUsage, ...] = ()


@view(UsageStats)
def draw_usage_stats(stats: UsageStats) -> Block:
    """Draw the usage of models, rooms, tools and skills."""
    suffix = f" by {stats.of}" if stats.of else ""
    if not stats.spent and not stats.tools and not stats.skills:
        return block(line(f"No model has answered{suffix} in ", ("room", stats.scope), " yet."))
    lines = [line(("heading", f"Used in {stats.scope}{suffix}:"))]
    if stats.since and stats.until:
        lines.append(
            line(("dim", f"  {_format_minute(stats.since)} to {_format_minute(stats.until)} UTC"))
        )
    uses: list[_NamedUsage] = [
        (("model", use.model), ", ".join(use.agents), use) for use in stats.spent
    ]
    if len(uses) > 1:
        uses.append((("mark", "total"), "", stats.total))
    lines += _usage_lines(uses)
    if stats.rooms:
        lines += [line(("heading", "By room:"))]
        lines += _usage_lines([(("room", use.room), "", use) for use in stats.rooms])
    if stats.days:
        lines += [line(("heading", "By day, in UTC:"))]
        lines += _usage_lines([(("time", use.day), "", use) for use in stats.days])
    if stats.tools:
        errors = f", {stats.errors} errors" if stats.errors else ""
        lines += [
            line(("heading", f"Tool calls: {stats.calls}{errors}")),
            *tool_count_lines(stats.tools),
        ]
    if stats.skills:
        lines += [
            line(("heading", "Skills, of all days:" if stats.days else "Skills:")),
            *draw_columns(
                (("thing", skill.name), _format_activity(skill)) for skill in stats.skills
            ),
        ]
    return block(*lines)


def _usage_lines(uses: list[_NamedUsage]) -> list[Line]:
    """Draw a row for each use, and below it the answers that are counted otherwise."""
    lines: list[Line] = []
    for row, (_, _, use) in zip(draw_columns(_draw_usage(*use) for use in uses), uses, strict=True):
        lines.append(row)
        notes = [format_count(use.requests, "request")] if use.requests != use.answers else []
        notes += [
            f"{count} {label}"
            for count, label in ((use.estimated, "estimated"), (use.dropped, "dropped"))
            if count
        ]
        if notes:
            lines.append(line("    ", ("dim", ", ".join(notes)), hang=4))
    return lines


def _draw_usage(head: Span, name: str, use: UsageTotals) -> tuple[str | Span, ...]:
    return (
        head,
        ("name", name),
        format_count(use.answers, "answer"),
        f"{use.prompt_tokens} in",
        f"{use.completion_tokens} out",
        format_count(use.total_tokens, "token"),
        _format_dollars(use),
    )


def _format_dollars(use: UsageTotals) -> str:
    if use.cost is None:
        return "cost unknown" if use.requests else ""
    unpriced_count = use.requests - use.priced
    return (f"${use.cost:.4f}" if use.cost else "$0") + (
        f" and {unpriced_count} unpriced" if unpriced_count else ""
    )


def _format_activity(skill: SkillUse) -> str:
    active = "active" if skill.active else "not active"
    if skill.active > 1:
        active = f"active in {skill.active} places"
    if skill.activations is None:
        return active
    return f"{active}, activated {format_count(skill.activations, 'time')}"


def _format_minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def tool_count_lines(counts: Iterable[ToolCount]) -> list[Line]:
    """Draw how often each tool was called, as a number and a bar."""
    return draw_columns(
        (
            ("tool", count.tool),
            f"{count.calls}",
            f"{count.share:.0%}",
            ("error", format_count(count.errors, "error")) if count.errors else ("dim", ""),
            ("mark", "█" * max(1, round(count.share * BAR_COLUMNS))),
        )
        for count in counts
    )


@verb(
    "stats",
    section="Models",
    needs=Right.ENTER,
    also_needs=(ArgumentRight("all", Right.ADMIN, "for all rooms", is_change=False),),
    examples=("/stats", "/stats @guide", "/stats --all", "/stats --days 7"),
)
async def stats(
    caller: Caller,
    model: ModelName | None = None,
    *,
    all: Flag = False,
    days: StatsDays | None = None,
) -> UsageStats:
    """Show usage in this room: answers, tokens, cost, tool calls and skills.

    Answers and tokens of each model, their cost where the price is known, tool calls, and active
    skills. An answer that calls tools takes several requests. Dropped answers are counted too.

    Args:
        model: only this model.
        all: all rooms together and each room.
        days: number of days that count, today included, each with its usage; at most
            {MAX_STATS_DAYS} (default: every day, together). Skills are counted over all days.
    """
    room = await caller.room()
    agent = caller.world.agents.find_model(model) if model is not None else None
    room_id, agent_id = (None if all else room.id), (agent.id if agent else None)

    since = _find_first_day(days) if days else ""

    def count(conn: Connection) -> UsageStats:
        span = statistics.read_time_range(conn, room_id, agent_id, since)
        tools = statistics.read_tool_counts(conn, room_id, agent_id, since)
        rooms = statistics.read_usage_by_room(conn, agent_id, since) if all else ()
        by_day = statistics.read_usage_by_day(conn, room_id, agent_id, since) if days else ()
        return UsageStats(
            scope="every room" if all else room.name,
            of=agent.name if agent else None,
            since=span[0] if span else None,
            until=span[1] if span else None,
            spent=tuple(
                _make_model_usage(caller, usage)
                for usage in statistics.read_usage_by_model(conn, room_id, agent_id, since)
            ),
            total=statistics.read_total_usage(conn, room_id, agent_id, since),
            tools=tools,
            calls=sum(tool.calls for tool in tools),
            errors=sum(tool.errors for tool in tools),
            skills=statistics.read_skill_use(conn, room_id, agent_id),
            rooms=tuple(RoomUsage(**asdict(room_usage), room=name) for name, room_usage in rooms),
            days=tuple(DayUsage(**asdict(day_usage), day=day) for day, day_usage in by_day),
        )

    return await caller.world.store.read(count)


def _find_first_day(days: int) -> str:
    """Return the first of the last days, today included."""
    first = datetime.fromtimestamp(now_ms() / 1000, UTC) - timedelta(days=days - 1)
    return f"{first:%Y-%m-%d}"


def _make_model_usage(caller: Caller, used: statistics.ModelUsageTotals) -> ModelUsage:
    names = sorted(caller.world.agents.name_of(agent_id) for agent_id in used.agents)
    return ModelUsage(**asdict(used.totals), model=used.model, agents=tuple(names))
