"""The window of a room: how many turns of its conversation models are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_WINDOW_TURNS, MAX_WINDOW_TURNS
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, ModelMention
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import Confirmation, draw_columns, draw_result, view
from sshwarma.verbs.wrap import WrappedContext, compose_for, find_default_model, find_model
from sshwarma.world import notes, things, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change

WindowSize: TypeAlias = Annotated[
    Annotated[int, Field(ge=-1, le=MAX_WINDOW_TURNS)] | Literal["-"], Arg("number", words=("-",))
]
"""A number of turns; 0 means all turns, -1 means no turns, `-` the default."""


EXACT_WINDOW_NOTE: Final = (
    "Each question then drops the oldest one, so a provider's cache holds less of what is sent."
)


@dataclass(frozen=True, slots=True)
class SelectedTurn:
    """A turn in the window of a room."""

    id: str
    agent: str
    by: str
    how: str  # whole, in short


@dataclass(frozen=True, slots=True)
class ContextDetails:
    """The window of a room, its turns, and the context of a model if requested."""

    room: str
    window: int
    meaning: str
    turns: tuple[SelectedTurn, ...]
    prompt: WrappedContext | None


@view(ContextDetails)
def draw_context_details(details: ContextDetails) -> Block:
    """Draw the window of a room, its turns, and the context of a model if requested."""
    lines = [
        line(("heading", f"Window of {details.room}: {details.window}"), f", {details.meaning}"),
        *draw_columns(
            (("mark", turn.id), f"{turn.by} → {turn.agent}", turn.how) for turn in details.turns
        ),
    ]
    prompt = [line(), *draw_result(details.prompt).lines] if details.prompt else []
    return block(*lines, *prompt)


context = group(
    "context",
    section="Models",
    default="show",
    doc="""Show and set what models are sent of this room's conversation.

    The window is a number of turns, each a question with its whole answer: 0 is all turns, -1 is
    no turn. What was said after the last turn is always sent. A turn that is too long is
    shortened.

    By default the window has at least {DEFAULT_WINDOW_TURNS} turns and fewer than twice as many: it
    drops several at once, so that a provider's cache holds what was sent before. A window of an
    exact number drops one with each question, so the cache holds less; `/context window -` restores
    the default.
    """,
)


@context.verb(
    "show", needs=Right.ENTER, tool=False, examples=("/context show", "/context show @qwen")
)
async def show_context(caller: Caller, model: ModelMention | None = None) -> ContextDetails:
    """Show the window, the turns in it, and what a model would be sent.

    Args:
        model: the model (default: the one that answered last here).
    """
    room = await caller.room()
    agent = await find_model(caller, model) if model else await find_default_model(caller)
    if agent is None:
        size = _window_of(room)
        return ContextDetails(room.name, size, _describe_room_window(room), (), None)
    async with services_of(caller).workspaces.take_long_read(caller):
        details, composed = await compose_for(caller, agent)
    names = caller.world.agents
    turn_views = tuple(
        SelectedTurn(
            turn.short_id,
            names.name_of(turn.agent_id),
            names.name_of(turn.opened_by),
            "in short" if turn.id in composed.summarized_turn_ids else "whole",
        )
        for turn in composed.turns
    )
    return ContextDetails(
        room.name, composed.window_size, _describe_room_window(room), turn_views, details
    )


@context.verb(
    "window",
    needs=Right.ENTER,
    also_needs=(ArgumentRight("size", Right.BUILD, "to set it"),),
    tool=False,
    examples=(
        "/context window",
        "/context window 10",
        "/context window 0",
        "/context window -",
    ),
)
async def set_window(caller: Caller, size: WindowSize | None = None) -> Confirmation:
    """Show or set the window of this room.

    Args:
        size: number of turns, at most {MAX_WINDOW_TURNS}; 0 for all turns, -1 for no turn, - for
            the default. With an exact number the provider's cache holds less.
    """
    room = await caller.room()
    if size is None:
        current_size = _window_of(room)
        return Confirmation(
            f"The window of {room.name} is {current_size}: {_describe_room_window(room)}."
        )
    is_default = size == "-"
    new_size = DEFAULT_WINDOW_TURNS if size == "-" else size
    meaning = _describe_window(new_size, is_default=is_default)
    await caller.change(
        lambda tx: things.set_metadata(tx, room.id, context_size=None if is_default else new_size),
        f"set the window to {'the default' if is_default else new_size}: {meaning}",
    )
    if is_default or new_size < 1:
        return Confirmation(f"The window of {room.name} is {new_size}: {meaning}.")
    return Confirmation(
        f"The window of {room.name} is {new_size}: {meaning}. {EXACT_WINDOW_NOTE}",
        next_call(
            "{} restores the default, which drops several at once.", "context window", size="-"
        ),
    )


def _window_of(room: Room) -> int:
    return DEFAULT_WINDOW_TURNS if room.context_size is None else room.context_size


def _describe_room_window(room: Room) -> str:
    return _describe_window(_window_of(room), is_default=room.context_size is None)


def _describe_window(size: int, *, is_default: bool = False) -> str:
    if size == 0:
        return "all turns are sent"
    if size < 0:
        return "no turns are sent"
    if is_default:
        return (
            f"the last {size} to {2 * size - 1} questions and their turns are sent, including"
            " unanswered turns between them"
        )
    return "the last question is sent" if size == 1 else f"the last {size} questions are sent"


@context.verb(
    "rebuild",
    needs=Right.BUILD,
    tool=False,
    examples=("/context rebuild", "/context rebuild @qwen"),
)
async def rebuild_notes(caller: Caller, model: ModelMention | None = None) -> Confirmation:
    """Reset a model's notes to those that its newest answer set.

    Answers that were dropped do not count.

    Args:
        model: the model (default: the one that answered last here).
    """
    agent = await find_model(caller, model)

    # The notes before an answer do not count: they may have been edited by hand.
    def work(tx: Change) -> bool:
        path = reversed(turns.read_path(tx.conn, caller.room_id))
        answers = (turn for turn in path if turn.agent_id == agent.id)
        text = notes.read_answer_notes(tx.conn, answers)
        notes.write_notes(tx, caller.room_id, agent.id, agent.name, text or "")
        return text is not None

    has_notes = await caller.change(work, f"had {agent.name}'s notes rebuilt")
    if has_notes:
        return Confirmation(f"Restored {agent.name}'s notes from its newest answer.")
    return Confirmation(f"None of {agent.name}'s kept answers set notes, so its notes are empty.")
