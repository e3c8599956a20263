"""Figures for `/stats`: what models have used, which tools were called, which skills are active."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, select, true

from sshwarma.world.schema import equipped, rows, things, tool_calls, turns, usage


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of some answers. `estimated` of them were counted by us, not by the provider; `cost`
    is in US dollars for the `priced` ones, None if the price of none is known."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    estimated: int = 0
    cost: float | None = None
    priced: int = 0
    undone: int = 0  # answers of turns that were undone: the tokens are spent all the same


@dataclass(frozen=True, slots=True)
class ModelSpent:
    model: str
    agents: tuple[str, ...]  # ids of those who answered by it
    spent: Spent


@dataclass(frozen=True, slots=True)
class ToolCount:
    tool: str
    calls: int
    errors: int
    share: float  # of all calls counted, 0 to 1


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill, in how many rooms and on how many agents it is active, and how often it was
    activated; None where nobody counted."""

    name: str
    active: int
    activations: int | None


_SUMS = (
    func.count(),
    func.coalesce(func.sum(usage.c.prompt_tokens), 0),
    func.coalesce(func.sum(usage.c.completion_tokens), 0),
    func.coalesce(func.sum(usage.c.total_tokens), 0),
    func.coalesce(func.sum(usage.c.estimated), 0),
    func.sum(usage.c.cost),
    func.count(usage.c.cost),
    func.count().filter(turns.c.status == "dropped"),
)
_USAGE = usage.outerjoin(turns, turns.c.id == usage.c.turn_id)


def total(conn: Connection, room_id: str | None, agent_id: str | None = None) -> Spent:
    """What was used in a room, or in all of them; by one agent, or by all."""
    query = select(*_SUMS).select_from(_USAGE).where(_spent_by(room_id, agent_id))
    return Spent(*conn.execute(query).one())


def by_model(
    conn: Connection, room_id: str | None, agent_id: str | None = None
) -> tuple[ModelSpent, ...]:
    """The same for each model, by name."""
    query = (
        select(usage.c.model, func.group_concat(usage.c.agent_id.distinct()), *_SUMS)
        .select_from(_USAGE)
        .where(_spent_by(room_id, agent_id))
        .group_by(usage.c.model)
        .order_by(usage.c.model)
    )
    return tuple(
        ModelSpent(model, tuple(sorted((agents or "").split(","))), Spent(*sums))
        for model, agents, *sums in conn.execute(query)
    )


def by_room(conn: Connection, agent_id: str | None = None) -> tuple[tuple[str, Spent], ...]:
    """The same for each room in which anything was used, also rooms that are gone, by name."""
    query = (
        select(things.c.name, *_SUMS)
        .select_from(_USAGE.outerjoin(things, things.c.id == usage.c.session_id))
        .where(_spent_by(None, agent_id))
        .group_by(usage.c.session_id)
        .order_by(things.c.name)
    )
    return tuple((name or "(gone)", Spent(*sums)) for name, *sums in conn.execute(query))


def tool_counts(
    conn: Connection, room_id: str | None, agent_id: str | None = None
) -> tuple[ToolCount, ...]:
    """How often each tool was called, the most called first."""
    query = (
        select(
            tool_calls.c.tool_id,
            func.count(),
            func.count().filter(tool_calls.c.status == "error"),
        )
        .select_from(tool_calls.outerjoin(rows, rows.c.id == tool_calls.c.id))
        .where(_called_by(room_id, agent_id))
        .group_by(tool_calls.c.tool_id)
        .order_by(func.count().desc(), tool_calls.c.tool_id)
    )
    counted = conn.execute(query).all()
    every = sum(calls for _, calls, _ in counted)
    return tuple(ToolCount(tool, calls, errors, calls / every) for tool, calls, errors in counted)


def skills(
    conn: Connection, room_id: str | None, agent_id: str | None = None
) -> tuple[SkillUse, ...]:
    """The skills that are active in a room or on an agent, by name; every skill for all rooms."""
    on = and_(equipped.c.thing_id == things.c.id, equipped.c.deleted_at.is_(None))
    if room_id is not None:
        on = and_(on, equipped.c.context_id.in_([room_id, agent_id or room_id]))
    elif agent_id is not None:
        on = and_(on, equipped.c.context_id == agent_id)
    activations = func.json_extract(things.c.metadata, "$.activations")
    query = (
        select(things.c.name, func.count(equipped.c.context_id), activations)
        .select_from(things.join(equipped, on, isouter=room_id is None and agent_id is None))
        .where(
            things.c.kind == "data",
            things.c.deleted_at.is_(None),
            func.json_extract(things.c.metadata, "$.role") == "skill",
        )
        .group_by(things.c.id)
        .order_by(things.c.name)
    )
    return tuple(
        SkillUse(name.removeprefix("skill:"), active, count if isinstance(count, int) else None)
        for name, active, count in conn.execute(query)
    )


def time_range(
    conn: Connection, room_id: str | None, agent_id: str | None = None
) -> tuple[str, str] | None:
    """The first and the last moment of what is counted, as ISO text in UTC."""
    spans = (
        conn.execute(
            select(func.min(usage.c.created_at), func.max(usage.c.created_at)).where(
                _spent_by(room_id, agent_id)
            )
        ).one(),
        conn.execute(
            select(func.min(tool_calls.c.started_at), func.max(tool_calls.c.started_at))
            .select_from(tool_calls.outerjoin(rows, rows.c.id == tool_calls.c.id))
            .where(_called_by(room_id, agent_id))
        ).one(),
    )
    known = [(first, last) for first, last in spans if first is not None]
    if not known:
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def _spent_by(room_id: str | None, agent_id: str | None) -> ColumnElement[bool]:
    return and_(
        usage.c.session_id == room_id if room_id is not None else true(),
        usage.c.agent_id == agent_id if agent_id is not None else true(),
    )


def _called_by(room_id: str | None, agent_id: str | None) -> ColumnElement[bool]:
    return and_(
        tool_calls.c.chat_id == room_id if room_id is not None else true(),
        rows.c.author_id == agent_id if agent_id is not None else true(),
    )
