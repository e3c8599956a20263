"""Models: who answers here, what they are told, what it has cost."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from sshwarma.models.turn import Turns
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import columns, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.schema import usage


@dataclass(frozen=True, slots=True)
class ModelListed:
    name: str
    model: str
    description: str


@dataclass(frozen=True, slots=True)
class ModelList:
    models: tuple[ModelListed, ...]


@view(ModelList)
def _(result: ModelList) -> Block:
    if not result.models:
        return block("No model answers here.")
    return block(
        line(("heading", "Models:")),
        *columns(
            (("model", f"@{known.name}"), ("dim", known.model), known.description)
            for known in result.models
        ),
    )


@verb("models", group="Models", needs=Right.ENTER, examples=("/models",))
async def models(caller: Caller) -> ModelList:
    """List models

    Those who answer when they are mentioned.
    """
    answering = caller.world.part(Turns)
    found = [] if answering is None else [a for a in caller.world.agents if answering.answers(a)]
    return ModelList(
        tuple(
            ModelListed(
                agent.name, answering.model_of(agent) if answering else "", agent.description
            )
            for agent in sorted(found, key=lambda agent: agent.name)
        )
    )


@dataclass(frozen=True, slots=True)
class Spent:
    model: str
    answers: int
    prompt_tokens: int
    completion_tokens: int
    estimated: int


@dataclass(frozen=True, slots=True)
class Stats:
    room: str
    spent: tuple[Spent, ...]


@view(Stats)
def _(stats: Stats) -> Block:
    if not stats.spent:
        return block(line("No model has answered in ", ("room", stats.room), " yet."))
    return block(
        line(("heading", f"Tokens in {stats.room}:")),
        *columns(
            (
                ("model", spent.model),
                f"{spent.answers} answers",
                f"{spent.prompt_tokens} in",
                f"{spent.completion_tokens} out",
                ("dim", f"{spent.estimated} estimated" if spent.estimated else ""),
            )
            for spent in stats.spent
        ),
    )


@verb("stats", group="Models", needs=Right.ENTER, examples=("/stats",))
async def stats(caller: Caller) -> Stats:
    """Show what models have used in this room"""
    room = await caller.room()
    return Stats(room.name, await caller.world.store.read(lambda conn: _spent(conn, room.id)))


def _spent(conn: Connection, room_id: str) -> tuple[Spent, ...]:
    query = (
        select(
            usage.c.model,
            func.count(),
            func.sum(usage.c.prompt_tokens),
            func.sum(usage.c.completion_tokens),
            func.sum(usage.c.estimated),
        )
        .where(usage.c.session_id == room_id)
        .group_by(usage.c.model)
        .order_by(usage.c.model)
    )
    return tuple(Spent(*row) for row in conn.execute(query))
