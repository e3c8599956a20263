"""Statistics for `/stats`: tokens used by models, tool calls, active skills."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, literal_column, select, true

from sshwarma.world.portable_sql import extract_integer, extract_text, joined_distinct
from sshwarma.world.schema import equipped, rows, things, tool_calls, turns, usage


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Tokens of some answers.

    Attributes:
        answers: number of questions that a model answered; an answer that calls tools takes several
            requests.
        estimated: number of requests whose tokens we counted, not the provider.
        cost: US dollars of the `priced` requests; None if no price is known.
        requests: number of requests to providers.
    """

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    estimated: int = 0
    cost: float | None = None
    priced: int = 0
    dropped: int = 0  # answers of dropped turns; their tokens count in the sums, too
    requests: int = 0


@dataclass(frozen=True, slots=True)
class ModelUsageTotals:
    """Usage of one model."""

    model: str
    agents: tuple[str, ...]  # ids of the agents that answered with it
    totals: UsageTotals


@dataclass(frozen=True, slots=True)
class ToolCount:
    """Number of calls of one tool."""

    tool: str
    calls: int
    errors: int
    share: float  # of all calls counted, 0 to 1


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill: number of rooms and agents it is active on, and of its activations.

    `activations` is None if they were not counted.
    """

    name: str
    active: int
    activations: int | None


_USAGE_SUMS = (
    func.count(usage.c.turn_id.distinct()),
    func.coalesce(func.sum(usage.c.prompt_tokens), 0),
    func.coalesce(func.sum(usage.c.completion_tokens), 0),
    func.coalesce(func.sum(usage.c.total_tokens), 0),
    func.coalesce(func.sum(usage.c.estimated), 0),
    func.sum(usage.c.cost),
    func.count(usage.c.cost),
    func.count(turns.c.id.distinct()).filter(turns.c.status == "dropped"),
    func.count(),
)
_USAGE_WITH_TURNS = usage.outerjoin(turns, turns.c.id == usage.c.turn_id)


def read_total_usage(
    conn: Connection, room_id: str | None, agent_id: str | None = None, since: str = ""
) -> UsageTotals:
    """Tokens used in a room, or in all; by an agent, or by all; since a day or ever."""
    query = (
        select(*_USAGE_SUMS)
        .select_from(_USAGE_WITH_TURNS)
        .where(_usage_filter(room_id, agent_id, since))
    )
    return UsageTotals(*conn.execute(query).one())


def read_usage_by_model(
    conn: Connection, room_id: str | None, agent_id: str | None = None, since: str = ""
) -> tuple[ModelUsageTotals, ...]:
    """Return the same for each model, by name."""
    query = (
        select(usage.c.model, joined_distinct(usage.c.agent_id), *_USAGE_SUMS)
        .select_from(_USAGE_WITH_TURNS)
        .where(_usage_filter(room_id, agent_id, since))
        .group_by(usage.c.model)
        .order_by(usage.c.model)
    )
    return tuple(
        ModelUsageTotals(model, tuple(sorted((agents or "").split(","))), UsageTotals(*sums))
        for model, agents, *sums in conn.execute(query)
    )


def read_usage_by_room(
    conn: Connection, agent_id: str | None = None, since: str = ""
) -> tuple[tuple[str, UsageTotals], ...]:
    """Return the same for each room with any usage, deleted rooms included, by name."""
    query = (
        select(things.c.name, *_USAGE_SUMS)
        .select_from(_USAGE_WITH_TURNS.outerjoin(things, things.c.id == usage.c.room_id))
        .where(_usage_filter(None, agent_id, since))
        .group_by(usage.c.room_id, things.c.name)
        .order_by(things.c.name.nulls_first())
    )
    return tuple((name or "(gone)", UsageTotals(*sums)) for name, *sums in conn.execute(query))


def read_usage_by_day(
    conn: Connection, room_id: str | None, agent_id: str | None, since: str
) -> tuple[tuple[str, UsageTotals], ...]:
    """Return the same for each day with usage since one as `2026-11-21`, in UTC."""
    # No parameters: PostgreSQL would take those of SELECT and GROUP BY for different ones.
    day = func.substr(usage.c.created_at, literal_column("1"), literal_column("10"))
    query = (
        select(day, *_USAGE_SUMS)
        .select_from(_USAGE_WITH_TURNS)
        .where(_usage_filter(room_id, agent_id, since))
        .group_by(day)
        .order_by(day)
    )
    return tuple((name, UsageTotals(*sums)) for name, *sums in conn.execute(query))


def read_tool_counts(
    conn: Connection, room_id: str | None, agent_id: str | None = None, since: str = ""
) -> tuple[ToolCount, ...]:
    """Number of calls of each tool, the most called first."""
    query = (
        select(
            tool_calls.c.tool_id,
            func.count(),
            func.count().filter(tool_calls.c.status == "error"),
        )
        .select_from(tool_calls.outerjoin(rows, rows.c.id == tool_calls.c.id))
        .where(_calls_filter(room_id, agent_id, since))
        .group_by(tool_calls.c.tool_id)
        .order_by(func.count().desc(), tool_calls.c.tool_id)
    )
    counts = conn.execute(query).all()
    total = sum(calls for _, calls, _ in counts)
    return tuple(ToolCount(tool, calls, errors, calls / total) for tool, calls, errors in counts)


def read_skill_use(
    conn: Connection, room_id: str | None, agent_id: str | None = None
) -> tuple[SkillUse, ...]:
    """Return the skills active in a room or on an agent, by name.

    For all rooms, every skill is returned.
    """
    condition = and_(equipped.c.thing_id == things.c.id, equipped.c.deleted_at.is_(None))
    if room_id is not None:
        condition = and_(condition, equipped.c.context_id.in_([room_id, agent_id or room_id]))
    elif agent_id is not None:
        condition = and_(condition, equipped.c.context_id == agent_id)
    activations = extract_integer(things.c.metadata, "activations")
    query = (
        select(things.c.name, func.count(equipped.c.context_id), activations)
        .select_from(things.join(equipped, condition, isouter=room_id is None and agent_id is None))
        .where(
            things.c.kind == "data",
            things.c.deleted_at.is_(None),
            extract_text(things.c.metadata, "role") == "skill",
        )
        .group_by(things.c.id)
        .order_by(things.c.name)
    )
    return tuple(
        SkillUse(name.removeprefix("skill:"), active, count)
        for name, active, count in conn.execute(query)
    )


def read_time_range(
    conn: Connection, room_id: str | None, agent_id: str | None = None, since: str = ""
) -> tuple[str, str] | None:
    """Return the first and the last time of the counted data, as ISO text in UTC."""
    spans = (
        conn.execute(
            select(func.min(usage.c.created_at), func.max(usage.c.created_at)).where(
                _usage_filter(room_id, agent_id, since)
            )
        ).one(),
        conn.execute(
            select(func.min(tool_calls.c.started_at), func.max(tool_calls.c.started_at))
            .select_from(tool_calls.outerjoin(rows, rows.c.id == tool_calls.c.id))
            .where(_calls_filter(room_id, agent_id, since))
        ).one(),
    )
    ranges = [(first, last) for first, last in spans if first is not None]
    if not ranges:
        return None
    return min(first for first, _ in ranges), max(last for _, last in ranges)


def _usage_filter(room_id: str | None, agent_id: str | None, since: str) -> ColumnElement[bool]:
    return and_(
        usage.c.created_at >= since if since else true(),
        usage.c.room_id == room_id if room_id is not None else true(),
        usage.c.agent_id == agent_id if agent_id is not None else true(),
    )


def _calls_filter(room_id: str | None, agent_id: str | None, since: str) -> ColumnElement[bool]:
    return and_(
        tool_calls.c.started_at >= since if since else true(),
        tool_calls.c.room_id == room_id if room_id is not None else true(),
        rows.c.author_id == agent_id if agent_id is not None else true(),
    )
