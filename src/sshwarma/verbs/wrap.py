"""The verb wrap: the context that a model would be sent, and the requests."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, cast

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_ROW_PART_CHARACTERS
from sshwarma.models.backend import BackendError
from sshwarma.models.turn_context import AskedText, TurnContext
from sshwarma.models.turn_deps import SentRequest
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs.arguments import Arg, Flag, ModelMention
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import format_clock, view
from sshwarma.verbs.wrap_diff import RequestDiff, compare_requests
from sshwarma.verbs.wrap_preview import CompactedPreview, LogTokens, describe_preview
from sshwarma.world import turns
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, NotFound, Unavailable
from sshwarma.world.questions import Question
from sshwarma.world.reader import next_call
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.host import LuaError

UNKNOWN_QUESTION: Final = "…"
"""Stands for the question that is not asked yet."""

MAX_ROW_ID: Final = 2**31 - 1
"""A sequence number after every row, so that the context includes all rows.

It is the greatest that PostgreSQL takes for the column."""


@dataclass(frozen=True, slots=True)
class LayerDetails:
    """A layer of the context that a model would be sent.

    Attributes:
        note: how it was changed, such as `cut by 200 characters`, or why it failed; "" if neither.
        budget: maximum of tokens of its own; 0 for none.
    """

    name: str
    stability: str
    side: str
    tokens: int
    text: str
    note: str
    budget: int = 0


@dataclass(frozen=True, slots=True)
class WrappedContext:
    """The context that a model would be sent now: tools, then layers in their order.

    Attributes:
        cached_tokens: size of its start that is equal to the last request.
        request: the body of the request, as its provider would receive it; None where people
            read the layers, over ssh without --json, and if it cannot be written.
    """

    model: str
    profile: str
    tools: tuple[str, ...]
    tool_tokens: int
    layers: tuple[LayerDetails, ...]
    total_tokens: int
    cached_tokens: int
    budget: int
    notices: tuple[str, ...]
    request: dict[str, Any] | None = None


@view(WrappedContext)
def draw_wrapped_context(wrapped: WrappedContext) -> Block:
    """Draw the context that a model would be sent: its size, tools and layers."""
    summary = f"about {wrapped.total_tokens} of {wrapped.budget} tokens"
    lines: list[Line] = [line(("heading", f"What {wrapped.model} would be sent: {summary}"))]
    if wrapped.profile != "full":
        lines.append(line(("dim", f"It has the profile {wrapped.profile}.")))
    if wrapped.cached_tokens:
        note = f"The first {wrapped.cached_tokens} tokens are the same as in the last request."
        lines.append(line(("dim", note)))
    lines += [
        line(),
        line(("mark", "tools"), ("dim", f"  release, {wrapped.tool_tokens} tokens")),
        line("  ", ", ".join(wrapped.tools) or "none", hang=2),
    ]
    for layer in wrapped.layers:
        summary = f"  {layer.side}, {layer.stability}, {layer.tokens} tokens"
        lines += [line(), line(("mark", layer.name), ("dim", summary), ("warn", f"  {layer.note}"))]
        lines += text_lines(layer.text, indent=2)
    lines += [line(("warn", notice)) for notice in wrapped.notices]
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model, as its provider receives it.

    Attributes:
        model: name of the model here.
        sent_at: when it was sent, in Unix milliseconds; None if it was not sent.
        body: the JSON body, with all messages and the schemas of the tools.
    """

    model: str
    sent_at: int | None
    body: dict[str, Any]


@view(ModelRequest)
def draw_model_request(request: ModelRequest) -> Block:
    """Draw the body of a request as indented JSON, up to MAX_ROW_PART_CHARACTERS."""
    title = f"What {request.model} would be sent"
    if request.sent_at is not None:
        title = f"What {request.model} was sent at {format_clock(request.sent_at)}"
    text = json.dumps(request.body, ensure_ascii=False, indent=2)
    excess = len(text) - MAX_ROW_PART_CHARACTERS
    lines = [line(("heading", title)), *text_lines(text[:MAX_ROW_PART_CHARACTERS])]
    if excess > 0:
        lines.append(line(("dim", f"… {excess} more characters; --json shows them all.")))
    return block(*lines)


Which: TypeAlias = Annotated[str, Arg(choices=("request", "last", "diff"))]
"""The request that a model would be sent, the last one that it was, or how they differ."""


@verb(
    "wrap",
    section="Models",
    needs=Right.ENTER,
    tool=False,
    excludes={"compacted": ("which",), "tokens": ("which",)},
    examples=(
        "/wrap",
        "/wrap @qwen",
        "/wrap @qwen last",
        "/wrap @qwen diff",
        "/wrap @qwen --compacted",
    ),
)
async def wrap(
    caller: Caller,
    model: ModelMention | None = None,
    which: Which | None = None,
    *,
    compacted: Flag = False,
    tokens: LogTokens | None = None,
) -> WrappedContext | ModelRequest | RequestDiff | CompactedPreview:
    """Show what a model would be sent here, layer by layer.

    As it would be sent if you mentioned it now, with the tools it would be offered. A request that
    was sent is kept until the server restarts.

    Args:
        model: the model (default: the one that answered last here).
        which: request, for the request as its provider would receive it, in JSON; last, for the
            last one that was sent; diff, for what differs between them (default: the layers).
        compacted: show each row of the log before and after its tool's policy, cuts and summaries.
        tokens: show the same for a log of at most as many tokens (default: all that the context
            has room for).
    """
    agent = await find_model(caller, model)
    if compacted or tokens is not None:
        async with services_of(caller).workspaces.take_long_read(caller):
            return await _preview_compaction(caller, agent, tokens or 0)
    sent = await _find_last_request(caller, agent) if which in ("last", "diff") else None
    if which == "last" and sent is not None:
        return sent
    async with services_of(caller).workspaces.take_long_read(caller):
        details, context = await compose_for(caller, agent)
    # The view shows the layers; the request needs the provider's library, which loads slowly.
    is_at_shell = caller.door == "exec" or caller.is_at_terminal
    is_drawn = is_at_shell and not caller.wants_json
    if which is None and is_drawn:
        return details
    try:
        body = await _preview_request(caller, agent, context)
    except BackendError as error:
        if which is None:
            return replace(details, notices=(*details.notices, f"No request: {error}."))
        raise Unavailable(f"The request cannot be written: {error}.") from error
    if which is None:
        return replace(details, request=body)
    if body is None:
        raise Conflict(f"{agent.name} cannot answer now, so there is no request to show.")
    if sent is not None:
        differ = partial(compare_requests, agent.name, sent.sent_at or 0, sent.body, body)
        return await asyncio.to_thread(differ)  # both may have megabytes
    return ModelRequest(agent.name, None, body)


async def _find_last_request(caller: Caller, agent: Agent) -> ModelRequest:
    """Return the last request that was sent to a model here.

    Raises:
        NotFound: if none was, or it is no longer known.
        Forbidden: if the caller may not see all of it.
    """
    sent = services_of(caller).turns.last_request(caller.room_id, agent.id)
    if sent is None:
        raise NotFound(f"No request was sent to {agent.name} here since the server started.")
    await _require_visible(caller, agent, sent)
    return ModelRequest(agent.name, sent.at, json.loads(sent.body))


async def _preview_compaction(caller: Caller, agent: Agent, tokens: int) -> CompactedPreview:
    """Return the log, cut to `tokens` tokens; 0 for all that it has."""
    composed = await _compose(caller, agent, preview_tokens=tokens)
    preview = composed.context.log_preview
    if preview is None:
        raise Unavailable("The log cannot be previewed.")
    return describe_preview(agent.name, preview)


async def _require_visible(caller: Caller, agent: Agent, sent: SentRequest) -> None:
    """Raise unless the caller may see all that a request to a model has.

    Raises:
        Forbidden: if it has private calls for somebody else, or names a private room that the
            caller may not know of, or that was deleted.
    """
    problem = ""
    if sent.private_room_ids - {room.id for room in await caller.known_rooms()}:
        problem = "names a private room that you may not know of"
    elif sent.only_for_id is not None and (
        caller.is_shown_in_room or sent.only_for_id != caller.agent.id
    ):
        problem = f"has private calls for {caller.world.agents.name_of(sent.only_for_id)}"
    if problem:
        raise Forbidden(
            f"The last request to {agent.name} {problem}.",
            hint=next_call(
                "{} shows what it would be sent for you.", "wrap", model=f"@{agent.name}"
            ),
        )


async def _preview_request(
    caller: Caller, agent: Agent, context: ModelContext
) -> dict[str, Any] | None:
    """Return the body of the request a model would be sent; None if it has no server."""
    body = await services_of(caller).turns.preview_request(
        _call_as(caller, agent), context, caller.agent.name, UNKNOWN_QUESTION
    )
    return None if body is None else cast("dict[str, Any]", json.loads(body))


def _call_as(caller: Caller, model: Agent) -> Caller:
    """Return the caller as whom a model composes its context in the caller's room."""
    return Caller(
        world=caller.world,
        services=caller.services,
        limits=caller.limits,
        agent=model,
        room_id=caller.room_id,
        door="model",
        question=Question(caller.agent.id, caller.limits.turns_per_question),
        called_in_id=caller.room_id,
    )


async def find_model(caller: Caller, name: str | None) -> Agent:
    """Find a model by name, or the one that answered last here, or the only one.

    Raises:
        NotFound: if there is no such model.
        Invalid: if the agent is not a model.
    """
    if name is None:
        agent = await find_default_model(caller)
        if agent is None:
            raise NotFound(
                "No model has answered here yet.",
                hint=next_call("Name one: {} lists them.", "models"),
            )
        return agent
    return caller.world.agents.find_model(name)


async def find_default_model(caller: Caller) -> Agent | None:
    """Find the model that answered last here, else the only one; None without both.

    The guide does not count: it is not a language model.
    """
    answering = services_of(caller).turns

    def last(conn: Connection) -> str | None:
        newest = turns.read_path(conn, caller.room_id, 1)
        return newest[0].agent_id if newest else None

    last_agent = caller.world.agents.get(await caller.world.store.read(last))
    if last_agent is not None and not reads_only_question(caller, last_agent):
        return last_agent
    models = [
        agent
        for agent in caller.world.agents
        if answering.can_answer(agent) and answering.context_tokens_of(agent)
    ]
    return models[0] if len(models) == 1 else None


def reads_only_question(caller: Caller, agent: Agent) -> bool:
    """Return whether an agent answers but is no language model with a context."""
    answering = services_of(caller).turns
    return answering.can_answer(agent) and not answering.context_tokens_of(agent)


async def compose_for(caller: Caller, agent: Agent) -> tuple[WrappedContext, ModelContext]:
    """Compose the context that a model would be sent if the caller mentioned it now.

    Raises:
        Conflict: if the agent is not a language model.
        Unavailable: if it cannot be composed.
    """
    composed = await _compose(caller, agent)
    context = composed.context
    last_context = services_of(caller).turns.last_context(caller.room_id, agent.id)
    details = WrappedContext(
        model=agent.name,
        profile=composed.profile.name,
        tools=tuple(offer.name for offer in composed.offers),
        tool_tokens=context.tool_tokens,
        layers=tuple(
            LayerDetails(
                name=layer.name,
                stability=layer.stability,
                side=layer.side,
                tokens=layer.tokens,
                text=layer.text or "\n".join(part.describe() for part in layer.lines),
                note=layer.note,
                budget=layer.budget,
            )
            for layer in context.layers
        ),
        total_tokens=context.tokens + context.tool_tokens,
        cached_tokens=context.count_shared_tokens(last_context) if last_context is not None else 0,
        budget=composed.budget,
        notices=tuple(context.notices),
    )
    return details, context


async def _compose(
    caller: Caller, agent: Agent, *, preview_tokens: int | None = None
) -> TurnContext:
    """Compose a model's context.

    Raises:
        Conflict: if the agent is not a language model.
        Unavailable: if it cannot be composed.
    """
    if reads_only_question(caller, agent):
        raise Conflict(f"{agent.name} is not a language model: it reads only the question.")
    asked = AskedText(UNKNOWN_QUESTION, caller.agent.name, MAX_ROW_ID)
    try:
        return await services_of(caller).turns.preview_context(
            _call_as(caller, agent), asked, preview_tokens=preview_tokens
        )
    except LuaError as error:
        raise Unavailable(f"The context cannot be composed: {error}") from error
