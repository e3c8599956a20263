"""Argument types of verbs: how each is typed, its values, and its completion.

A type that belongs to one group of verbs (`ServerName`, `TurnId`) is declared in its file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import CoreSchema, literal_schema
from sqlalchemy import Connection

from sshwarma.common.limits import (
    MAX_BAG_OPTIONS,
    MAX_EXACT_INTEGER,
    MAX_GARBAGE_DAYS,
    MAX_HISTORY_ROWS,
    MAX_REPEATED_FLAGS,
    PERMANENT_BAN_MINUTES,
)
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.names import DIRECTION_ABBREVIATIONS, OPPOSITE_DIRECTIONS
from sshwarma.world.things import Thing

Option: TypeAlias = tuple[str, str]
"""A word that Tab inserts, and a note beside it."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request to complete an argument.

    Attributes:
        given: the complete words after the verb's name.
        typed: the start of the word to complete.
    """

    caller: Caller
    given: tuple[str, ...]
    typed: str = ""


Completer: TypeAlias = Callable[[CompletionRequest], Awaitable[Sequence[Option]]]


@dataclass(frozen=True, slots=True)
class Arg:
    """The way an argument is typed on a line.

    Attributes:
        kind: `word`; `text`, taken unchanged; `number`; or `command`, which is one word, or `--`
            and the rest of the line, unchanged.
        rest: whether it takes the rest of the line.
        particle: an optional word before it, without a meaning of its own: `to`, `=`.
        complete: lists the options that Tab offers; None offers nothing.
        choices: the only values allowed, as shown in usage lines; () allows any.
        label: its name on a line and in help; "" for the name of the parameter.
        prefix: what a word for an optional parameter begins with, as in `@NAME`; another word
            belongs to the next parameter.
        words: words that are values besides numbers: `forever`.
        flag_words: words that are typed for the flag of that name: `off` for `--off`.
        also_flag: whether a positional argument can also be typed as `--NAME VALUE`.
        old_flags: earlier names of its flag, which people may still type.
        is_shell: whether a text is a command of a shell, with its quotes.
        language: the language of a text that is code, such as `lua`; "" for others.
        may_have_spaces: whether a value often has spaces, and stands in quotes then.
    """

    kind: Literal["word", "text", "number", "command"] = "word"
    rest: bool = False
    particle: str = ""
    complete: Completer | None = None
    choices: tuple[str, ...] = ()
    label: str = ""
    prefix: str = ""
    words: tuple[str, ...] = ()
    flag_words: tuple[str, ...] = ()
    also_flag: bool = False
    old_flags: tuple[str, ...] = ()
    is_shell: bool = False
    language: str = ""
    may_have_spaces: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the annotated type; of a literal if there are `choices`."""
        return literal_schema(list(self.choices)) if self.choices else handler(source)


async def complete_rooms(request: CompletionRequest) -> list[Option]:
    """List the rooms that the caller may see."""
    return [
        (room.name, room.description or room.vibe) for room in await request.caller.known_rooms()
    ]


async def complete_directions(request: CompletionRequest) -> list[Option]:
    """List the directions of exits."""
    return [
        (direction, "") for direction in (*DIRECTION_ABBREVIATIONS.values(), *OPPOSITE_DIRECTIONS)
    ]


async def complete_exits(request: CompletionRequest) -> list[Option]:
    """List the exits of the caller's room."""
    exits = await request.caller.visible_exits(await request.caller.room())
    return [(way.direction, f"→ {way.to_name}") for way in exits]


async def complete_agents(request: CompletionRequest) -> list[Option]:
    """List the other agents by name, those in the room first."""
    return agent_options(request.caller, "")


async def complete_mentions(request: CompletionRequest) -> list[Option]:
    """List the other agents as `@NAME`, those in the room first."""
    return agent_options(request.caller, "@")


def agent_options(caller: Caller, prefix: str) -> list[Option]:
    """List the other enabled agents, those in the room first.

    `prefix` precedes their names.
    """
    present_ids = {present.agent_id for present in caller.world.presence.in_room(caller.room_id)}
    agents = sorted(
        caller.world.agents, key=lambda agent: (agent.id not in present_ids, agent.name)
    )
    return [
        (f"{prefix}{agent.name}", "here" if agent.id in present_ids else "")
        for agent in agents
        if not agent.disabled and agent.id != caller.agent.id
    ]


async def complete_models(request: CompletionRequest) -> list[Option]:
    """List the models by name."""
    agents = request.caller.world.agents
    return [(name, "") for name in sorted(agent.name for agent in agents if agent.kind == "model")]


async def complete_model_mentions(request: CompletionRequest) -> list[Option]:
    """List the models as `@NAME`."""
    return [(f"@{name}", note) for name, note in await complete_models(request)]


async def complete_tools(request: CompletionRequest) -> list[Option]:
    """List the tools that are equipped for the caller here."""
    caller = request.caller
    load = await caller.loadout()
    return [(item.thing.label, item.thing.description) for item in load.tools]


async def complete_usable_tools(request: CompletionRequest) -> list[Option]:
    """List the tools that the caller can call here now."""
    caller = request.caller
    load = await caller.loadout()
    return [(item.thing.label, item.thing.description) for item in load.usable_tools]


async def complete_contexts(request: CompletionRequest) -> list[Option]:
    """List `room`, `me`, and the other agents as `@NAME`."""
    return [("room", "this room"), ("me", "yourself"), *agent_options(request.caller, "@")]


async def complete_things(request: CompletionRequest) -> list[Option]:
    """List things equipped here or in the bags of room and caller, and the agents."""
    caller = request.caller
    load = await caller.loadout()
    options: list[Option] = [
        (item.thing.label, item.thing.kind) for item in (*load.tools, *load.data)
    ]
    options += await bag_options(caller)
    options += agent_options(caller, "@")
    return list(dict(options).items())


async def bag_options(caller: Caller) -> list[Option]:
    """List the things in the bags of the room and of the caller."""
    options: list[Option] = []
    for bag_id, note in ((caller.room_id, "here"), (caller.agent.id, "yours")):
        query = partial(_bag, bag_id=bag_id)
        bag = await caller.world.memoized(("bag things", bag_id), query)
        options += [(thing.name, note) for thing in bag]
    return options


def _bag(conn: Connection, bag_id: str) -> list[Thing]:
    return things.read_children(conn, bag_id, "data", "reference", limit=MAX_BAG_OPTIONS)


def one_of(values: Iterable[str]) -> FieldInfo:
    """Return a field whose JSON Schema lists the values.

    The verb itself refuses other values.
    """
    return Field(json_schema_extra={"enum": list(values)})  # type: ignore[no-any-return]


Text: TypeAlias = Annotated[str, Arg("text", rest=True)]
"""Free text to the end of the line."""

TextAfterEquals: TypeAlias = Annotated[str, Arg("text", rest=True, particle="=")]
"""Free text, with or without `=` before it."""

Lua: TypeAlias = Annotated[str, Arg("text", rest=True, language="lua")]
"""Lua to the end of the line."""

LuaAfterEquals: TypeAlias = Annotated[str, Arg("text", rest=True, particle="=", language="lua")]
"""Lua, with or without `=` before it."""

Pattern: TypeAlias = Annotated[str, Arg("text", rest=True, particle="--")]
"""Free text, with or without `--` before it: it may begin with dashes."""

Words: TypeAlias = Annotated[str, Arg(rest=True)]
"""The rest of the words, with flags anywhere among them."""

Word: TypeAlias = Annotated[str, Arg()]
RoomName: TypeAlias = Annotated[str, Arg(complete=complete_rooms)]
Direction: TypeAlias = Annotated[str, Arg(complete=complete_directions)]
ExitName: TypeAlias = Annotated[str, Arg(complete=complete_exits)]
AgentName: TypeAlias = Annotated[str, Arg(complete=complete_agents)]
OptionalMention: TypeAlias = Annotated[str, Arg(complete=complete_mentions, prefix="@")]
"""An agent as `@NAME`; another word belongs to the next parameter."""

ModelName: TypeAlias = Annotated[str, Arg(complete=complete_models)]
ModelMention: TypeAlias = Annotated[str, Arg(complete=complete_model_mentions)]
"""A model as `@NAME`."""

ThingName: TypeAlias = Annotated[str, Arg(complete=complete_things)]
ToolName: TypeAlias = Annotated[str, Arg(complete=complete_tools)]
UsableToolName: TypeAlias = Annotated[str, Arg(complete=complete_usable_tools)]
"""A tool that can be called now."""

Context: TypeAlias = Annotated[
    str,
    Arg(complete=complete_contexts),
    Field(json_schema_extra={"pattern": "^(room|me|@.+)$"}),
]
"""`room`, `me`, or `@agent`."""

Command: TypeAlias = Annotated[str, Arg("command")]
Flag: TypeAlias = bool
RepeatedWord: TypeAlias = Annotated[tuple[str, ...], Arg(), Field(max_length=MAX_REPEATED_FLAGS)]
"""A flag that may be repeated, with one value each time."""

Priority: TypeAlias = Annotated[float, Arg("number"), Field(allow_inf_nan=False)]
RowNumber: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_EXACT_INTEGER)]
Offset: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_EXACT_INTEGER)]
Count: TypeAlias = Annotated[int, Arg("number", also_flag=True), Field(ge=1, le=MAX_HISTORY_ROWS)]
Days: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_GARBAGE_DAYS)]
Minutes: TypeAlias = Annotated[
    Annotated[int, Field(ge=1, le=PERMANENT_BAN_MINUTES)] | Literal["forever"],
    Arg("number", words=("forever",), flag_words=("off",)),
]
"""A duration in minutes, or `forever`; people may type `off`, which ends it."""
