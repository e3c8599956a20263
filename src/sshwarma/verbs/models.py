"""Models: who answers here, what they are told, what it has cost."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from sshwarma.models.turn import Turns
from sshwarma.terminal.text import Block, Line, block, line, paragraphs
from sshwarma.tools.names import for_model
from sshwarma.verbs.arguments import AgentName
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import columns, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.schema import usage
from sshwarma.wrap.compose import Composer
from sshwarma.wrap.host import LuaError
from sshwarma.wrap.layers import tokens

BEFORE_NOW = 2**62


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
class LayerSeen:
    name: str
    stability: str
    side: str
    tokens: int
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What a model would be sent if it were mentioned now: tools, then layers in their order."""

    model: str
    tools: tuple[str, ...]
    tool_tokens: int
    layers: tuple[LayerSeen, ...]
    total_tokens: int
    notices: tuple[str, ...]


@view(Wrapped)
def _(wrapped: Wrapped) -> Block:
    lines: list[Line] = [
        line(
            ("heading", f"What {wrapped.model} would be told: about {wrapped.total_tokens} tokens")
        ),
        line(),
        line(("mark", "tools"), ("dim", f"  release, {wrapped.tool_tokens} tokens")),
        line("  ", ", ".join(wrapped.tools) or "none", hang=2),
    ]
    for layer in wrapped.layers:
        about = f"  {layer.side}, {layer.stability}, {layer.tokens} tokens"
        lines += [line(), line(("mark", layer.name), ("dim", about), ("warn", f"  {layer.note}"))]
        lines += paragraphs(layer.text, indent=2)
    lines += [line(("warn", notice)) for notice in wrapped.notices]
    return block(*lines)


@verb("wrap", group="Models", needs=Right.ENTER, tool=False, examples=("/wrap @qwen",))
async def wrap(caller: Caller, model: AgentName) -> Wrapped:
    """Show what a model would be told here, layer by layer

    As it would be sent if you mentioned it now, with the tools it would be offered.

    model: the model.
    """
    composer = caller.world.part(Composer)
    agent = caller.world.agents.find(model)
    if agent.kind != "model":
        raise Invalid(f"{agent.name} is not a model.")
    if composer is None:
        raise Unavailable("This server composes no context.")
    as_model = Caller(caller.world, caller.limits, agent, caller.room_id, "model")
    try:
        composed = await composer.compose(as_model, "…", caller.agent.name, BEFORE_NOW)
    except LuaError as error:
        raise Unavailable(f"It could not be composed: {error}") from error
    load = await caller.world.loadout(caller.room_id, agent.id)
    offers = sorted(load.usable, key=lambda item: item.thing.label)
    described = (
        tokens(
            item.thing.description
            + json.dumps(item.thing.metadata.get("input_schema", {}), separators=(",", ":"))
        )
        for item in offers
    )
    tool_tokens = sum(described)
    return Wrapped(
        agent.name,
        tuple(for_model(item.thing.label) for item in offers),
        tool_tokens,
        tuple(
            LayerSeen(
                layer.name,
                layer.stability,
                layer.side,
                layer.tokens,
                layer.text or "\n".join(f"{part.role}: {part.text}" for part in layer.lines),
                layer.note,
            )
            for layer in composed.layers
        ),
        composed.tokens + tool_tokens,
        composed.notices,
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
