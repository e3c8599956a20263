"""What a model is told: the context as it would be sent, the window of turns, its notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_CONTEXT_TOKENS, MAX_LISTED_NOTES, MAX_WINDOW_TURNS
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.tools.names import model_tool_name
from sshwarma.verbs.arguments import AgentName, StateName, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, draw_columns, draw_result, view
from sshwarma.world import namespaces, notes, things, turns
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, Unavailable
from sshwarma.world.room_states import DIRECTORY_KEY, RoomStateWatcher
from sshwarma.world.store import Change
from sshwarma.wrap import window
from sshwarma.wrap.compose import ContextComposer, ModelContext
from sshwarma.wrap.host import LuaError

AFTER_LAST_ROW_ID = 2**62
STATE_ACTIONS = ("show", "clear", "list", "add", "remove", "directory")
STATE_HINT = "As in ci-configured: a lower-case letter, then letters, digits, . _ or -"


@dataclass(frozen=True, slots=True)
class LayerSummary:
    name: str
    stability: str
    side: str
    tokens: int
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class WrapPreview:
    """What a model would be sent if it were mentioned now: tools, then layers in their order.
    `cached_tokens` is how much of it, from the beginning, is as it was sent last time."""

    model: str
    tools: tuple[str, ...]
    tool_tokens: int
    layers: tuple[LayerSummary, ...]
    total_tokens: int
    cached_tokens: int
    budget: int
    notices: tuple[str, ...]


@view(WrapPreview)
def draw_wrap_preview(wrapped: WrapPreview) -> Block:
    about = f"about {wrapped.total_tokens} of {wrapped.budget} tokens"
    lines: list[Line] = [line(("heading", f"What {wrapped.model} would be told: {about}"))]
    if wrapped.cached_tokens:
        lines.append(
            line(("dim", f"The first {wrapped.cached_tokens} of them are as they were sent last"))
        )
    lines += [
        line(),
        line(("mark", "tools"), ("dim", f"  release, {wrapped.tool_tokens} tokens")),
        line("  ", ", ".join(wrapped.tools) or "none", hang=2),
    ]
    for layer in wrapped.layers:
        about = f"  {layer.side}, {layer.stability}, {layer.tokens} tokens"
        lines += [line(), line(("mark", layer.name), ("dim", about), ("warn", f"  {layer.note}"))]
        lines += text_lines(layer.text, indent=2)
    lines += [line(("warn", notice)) for notice in wrapped.notices]
    return block(*lines)


@verb("wrap", group="Models", needs=Right.ENTER, tool=False, examples=("/wrap", "/wrap @qwen"))
async def wrap(caller: Caller, model: AgentName | None = None) -> WrapPreview:
    """Show what a model would be told here, layer by layer

    As it would be sent if you mentioned it now, with the tools it would be offered.

    model: the model; the one that answered last here if left out.
    """
    agent = await _find_model(caller, model)
    wrapped, _ = await _preview_wrap(caller, agent)
    return wrapped


@dataclass(frozen=True, slots=True)
class SelectedTurn:
    id: str
    agent: str
    by: str
    how: str  # whole, in short


@dataclass(frozen=True, slots=True)
class ContextDetails:
    """The window of a room, the turns it selects, and all that a model would be sent."""

    room: str
    window: int
    meaning: str
    turns: tuple[SelectedTurn, ...]
    told: WrapPreview | None


@view(ContextDetails)
def draw_context_details(shown: ContextDetails) -> Block:
    lines = [
        line(("heading", f"Window of {shown.room}: {shown.window}"), f", {shown.meaning}"),
        *draw_columns(
            (("mark", chosen.id), f"{chosen.by} → {chosen.agent}", chosen.how)
            for chosen in shown.turns
        ),
    ]
    told = [line(), *draw_result(shown.told).lines] if shown.told else []
    return block(*lines, *told)


@verb(
    "context",
    group="Models",
    needs=Right.ENTER,
    tool=False,
    examples=(
        "/context show",
        "/context show @qwen",
        "/context window 2",
        "/context rebuild @qwen",
    ),
)
async def context(
    caller: Caller,
    what: Literal["show", "window", "rebuild"] = "show",
    value: Word | None = None,
) -> ContextDetails | Confirmation:
    """See and set what models are told of this room's conversation

    The window is a number of turns, each a question with its whole answer: 0 is all of them, -1
    none. What was said after the last turn is always told. What is too long is told in short.

    what: show what would be sent, set the window, or rebuild a model's notes from its answers.
    value: for show and rebuild the model; for window the number of turns.
    """
    if what == "window":
        return await _set_window(caller, value)
    agent = await _find_model(caller, value)
    if what == "rebuild":
        return await _rebuild_notes(caller, agent)
    wrapped, composed = await _preview_wrap(caller, agent)
    names = caller.world.agents
    selected = tuple(
        SelectedTurn(
            turn.short,
            names.name_of(turn.agent_id),
            names.name_of(turn.opened_by),
            "in short" if turn.id in composed.in_short else "whole",
        )
        for turn in composed.turns
    )
    room = await caller.room()
    return ContextDetails(
        room.name, composed.size, _describe_window(composed.size), selected, wrapped
    )


async def _set_window(caller: Caller, value: str | None) -> ContextDetails | Confirmation:
    room = await caller.room()
    if value is None:
        size = window.DEFAULT_WINDOW_TURNS if room.context_size is None else room.context_size
        return Confirmation(f"The window of {room.name} is {size}: {_describe_window(size)}.")
    try:
        size = int(value)
    except ValueError:
        size = -2
    if not -1 <= size <= MAX_WINDOW_TURNS:
        raise Invalid(
            f"{value[:20]} is no window.", hint=f"0 is all, -1 none, else 1-{MAX_WINDOW_TURNS}."
        )
    await caller.require(Right.BUILD)
    await caller.change(
        lambda tx: things.set_metadata(tx, room.id, context_size=size),
        f"set the window to {size}: {_describe_window(size)}",
    )
    return Confirmation(f"The window of {room.name} is {size}: {_describe_window(size)}.")


def _describe_window(size: int) -> str:
    if size == 0:
        return "all turns are told"
    if size < 0:
        return "no turn is told"
    return "the last turn is told" if size == 1 else f"the last {size} turns are told"


async def _rebuild_notes(caller: Caller, agent: Agent) -> Confirmation:
    """Make a model's notes what its newest answer that is kept has set."""
    await caller.require(Right.BUILD)

    def work(tx: Change) -> bool:
        for turn in reversed(turns.read_path(tx.conn, caller.room_id)):
            if turn.agent_id == agent.id:
                for row in reversed(turns.read_rows_with_request(tx.conn, turn)):
                    if "state" in row.meta and row.author_id == agent.id:
                        notes.write_notes(
                            tx, caller.room_id, agent.id, agent.name, row.meta["state"]
                        )
                        return True
        notes.write_notes(tx, caller.room_id, agent.id, agent.name, "")
        return False

    found = await caller.change(work, f"had {agent.name}'s notes rebuilt")
    if found:
        return Confirmation(f"{agent.name}'s notes are what its newest answer set.")
    return Confirmation(f"No answer of {agent.name} that is kept has set notes: they are empty.")


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """What a model keeps for itself in a room."""

    room: str
    agent: str
    text: str
    updated_at: int | None


@view(ModelNotes)
def draw_model_notes(state: ModelNotes) -> Block:
    if not state.text:
        return block(f"{state.agent} keeps no notes in {state.room}.")
    return block(
        line(("heading", f"Notes of {state.agent} in {state.room}:")),
        *text_lines(state.text, indent=2),
    )


@dataclass(frozen=True, slots=True)
class RoomStates:
    """The states that hold in a room: those set by hand, and those found out."""

    room: str
    set: tuple[str, ...]
    found: tuple[str, ...]


@view(RoomStates)
def draw_room_states(states: RoomStates) -> Block:
    if not states.set and not states.found:
        return block(line("No state holds in ", ("room", states.room), "."))
    return block(
        line(("heading", f"States that hold in {states.room}:")),
        *(line("  ", ("ok", name)) for name in states.set),
        *(line("  ", ("ok", name), ("dim", "  found out")) for name in states.found),
    )


@verb(
    "state",
    group="Models",
    needs=Right.ENTER,
    tool=False,
    examples=(
        "/state",
        "/state @qwen",
        "/state clear @qwen",
        "/state list",
        "/state add ci-configured",
        "/state remove ci-configured",
        "/state directory /srv/project",
    ),
)
async def state(
    caller: Caller, what: Word = "show", name: StateName | None = None
) -> ModelNotes | RoomStates | Confirmation:
    """The notes that a model keeps in this room; the states that hold in it

    A model sets its notes at the end of an answer and is told them with every question. Tools and
    namespaces may require states, such as ci-configured: until it holds in a room they cannot be
    used there. mcp:NAME holds while that server is connected; project-loaded and git-present
    while the room's directory, which an owner of the server sets, is there and under git.

    what: show or clear a model's notes; list the states, add or remove one; directory.
    name: the model, the one that answered last here if left out; for add and remove the state;
        for directory its path on the server, - for none.
    """
    if what.startswith("@") or (what not in STATE_ACTIONS and _is_model_name(caller, what)):
        what, name = "show", what
    if what == "list":
        return await _list_states(caller)
    if what == "directory":
        return await _set_directory(caller, name)
    if what in ("add", "remove") or (what == "clear" and name in (await _list_states(caller)).set):
        return await _set_state(caller, name, holds=what == "add")
    if what not in ("show", "clear"):
        raise Invalid(
            f"{what[:20]} is no model, and none of {', '.join(STATE_ACTIONS)}.", hint="/help state"
        )
    try:
        agent = await _find_model(caller, name)
    except NotFound as refused:
        refused.hint += " /state list has the states that hold here." if name is None else ""
        raise
    if what == "clear":
        await caller.require(Right.BUILD)
        await caller.change(
            lambda tx: notes.write_notes(tx, caller.room_id, agent.id, agent.name, ""),
            f"cleared {agent.name}'s notes",
        )
    room = await caller.room()
    known = await caller.world.store.read(
        lambda conn: notes.get_notes_thing(conn, room.id, agent.name)
    )
    text = (known.content or "") if known else ""
    return ModelNotes(room.name, agent.name, text, known.updated_at if known else None)


def _is_model_name(caller: Caller, name: str) -> bool:
    return any(agent.kind == "model" and agent.name == name for agent in caller.world.agents)


async def _list_states(caller: Caller) -> RoomStates:
    room = await caller.room()
    thing = await caller.world.store.read(lambda conn: things.get_live_thing(conn, room.id))
    by_hand = namespaces.read_metadata_words(thing, "states")
    holding = await caller.world.states(room.id)
    return RoomStates(room.name, by_hand, tuple(sorted(holding - set(by_hand))))


async def _set_state(caller: Caller, name: str | None, *, holds: bool) -> Confirmation:
    room = await caller.room()
    if name and not holds and name in (await _list_states(caller)).found:
        raise Invalid(
            f"{name} was found out, and holds for as long as it is so.",
            hint="mcp:NAME is up with its server; the others are what the room's directory has.",
        )
    if name and holds and name.startswith("mcp:"):
        raise Invalid(f"{name[:60]} is found out: it holds while that server is connected.")
    if not name or not namespaces.STATE_NAME_PATTERN.fullmatch(name):
        raise Invalid(f"{(name or 'Nothing')[:40]} is not the name of a state.", hint=STATE_HINT)
    await caller.require(Right.BUILD)

    def work(tx: Change) -> bool:
        held = namespaces.read_metadata_words(things.get_live_thing(tx.conn, room.id), "states")
        if (name in held) is holds:
            return False
        if len(held) >= MAX_LISTED_NOTES and holds:
            raise Invalid(f"At most {MAX_LISTED_NOTES} states hold in a room.")
        kept = [*held, name] if holds else [one for one in held if one != name]
        things.set_metadata(tx, room.id, states=kept or None)
        told = f"said that {name} {'holds' if holds else 'does not hold any more'}"
        caller.tell(tx, told)
        return True

    changed = await caller.change(work)
    already = "" if changed else " already"
    return Confirmation(f"{name} {'holds' if holds else 'does not hold'} in {room.name}{already}.")


async def _set_directory(caller: Caller, path: str | None) -> RoomStates | Confirmation:
    await caller.require(Right.OWN)
    room = await caller.room()
    thing = await caller.world.store.read(lambda conn: things.get_live_thing(conn, room.id))
    if path is None:
        known = thing.metadata.get(DIRECTORY_KEY)
        return Confirmation(
            f"The directory of {room.name} is {known}." if known else "It has none."
        )
    if path != "-" and (not path.startswith("/") or not path.isprintable()):
        raise Invalid(f"{path[:60]!a} is not a path from the root.", hint="As in /srv/project")
    wanted = None if path == "-" else path
    await caller.change(lambda tx: things.set_metadata(tx, room.id, directory=wanted))
    await RoomStateWatcher(caller.world).check()
    return await _list_states(caller)


async def _find_model(caller: Caller, name: str | None) -> Agent:
    """The model of that name; else the one that answered last here, or the only one there is."""
    answering = caller.world.part(TurnRunner)
    if name is not None:
        agent = caller.world.agents.find(name)
        if agent.kind != "model":
            raise Invalid(f"{agent.name} is not a model.")
        return agent

    def last(conn: Connection) -> str | None:
        newest = turns.read_path(conn, caller.room_id, 1)
        return newest[0].agent_id if newest else None

    known = caller.world.agents.get(await caller.world.store.read(last))
    if known is not None:
        return known
    models = [
        agent
        for agent in caller.world.agents
        if answering is not None and answering.answers(agent) and answering.budget_of(agent)
    ]
    if len(models) == 1:
        return models[0]
    raise NotFound("No model has answered here yet.", hint="Say which: /models lists them.")


async def _preview_wrap(caller: Caller, agent: Agent) -> tuple[WrapPreview, ModelContext]:
    composer, answering = caller.world.part(ContextComposer), caller.world.part(TurnRunner)
    if composer is None:
        raise Unavailable("This server composes no context.")
    budget, notices = DEFAULT_CONTEXT_TOKENS, []
    if answering is not None and answering.answers(agent):
        budget = answering.budget_of(agent) or DEFAULT_CONTEXT_TOKENS
        if not answering.budget_of(agent):
            notices.append(
                f"{agent.name} is no language model: of all this it reads the question alone."
            )
    as_model = Caller(caller.world, caller.limits, agent, caller.room_id, "model")
    try:
        composed = await composer.compose(
            as_model, "…", caller.agent.name, AFTER_LAST_ROW_ID, budget=budget
        )
    except LuaError as error:
        raise Unavailable(f"It could not be composed: {error}") from error
    load = await caller.world.loadout(caller.room_id, agent.id)
    offers = sorted(load.usable, key=lambda item: item.thing.label)
    before = answering.sent(caller.room_id, agent.id) if answering is not None else None
    wrapped = WrapPreview(
        agent.name,
        tuple(model_tool_name(item.thing.label) for item in offers),
        composed.tool_tokens,
        tuple(
            LayerSummary(
                layer.name,
                layer.stability,
                layer.side,
                layer.tokens,
                layer.text or "\n".join(f"{part.role}: {part.text}" for part in layer.lines),
                layer.note,
            )
            for layer in composed.layers
        ),
        composed.tokens + composed.tool_tokens,
        composed.shared(before) if before is not None else 0,
        budget,
        (*notices, *composed.notices),
    )
    return wrapped, composed
