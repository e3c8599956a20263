"""Readers of results and refusals: how people and programs name calls of verbs.

A hint is text for every reader, or one of the classes of `Hint`. The verbs register their names
here as they are declared, so that refusals of every layer can name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from sshwarma.common.near_names import suggest_names
from sshwarma.world.doors import PEOPLE_DOORS
from sshwarma.world.tool_names import mcp_tool_name, model_tool_name


@dataclass(frozen=True)
class VerbNames:
    """The names of a verb for its readers; "" for a reader that cannot call it.

    Attributes:
        label: its canonical name as a tool: `global:load_room`.
        tool: its name for scripts.
        mcp_tool: its name for MCP clients.
        path: its name for HTTP clients.
        write_line: writes the line that a person types, from the arguments.
    """

    label: str
    tool: str
    mcp_tool: str
    path: str
    write_line: Callable[[Mapping[str, object]], str]


_verbs: Final[dict[str, VerbNames]] = {}
"""The names of all declared verbs, by name: `look`, `mcp add`."""


def register_verb_names(name: str, names: VerbNames) -> None:
    """Make a verb known, so that results and refusals can name its calls."""
    _verbs[name] = names


def register_endpoint(verb: str, endpoint: str) -> None:
    """Let API clients read the endpoint of a verb that has one of its own."""
    _verbs[verb] = replace(_verbs[verb], path=endpoint)


@dataclass(frozen=True)
class Reader:
    """A result's reader: a person typing lines, or a caller of tools or the HTTP API.

    Attributes:
        kind: what it is; a `tool caller` is a script.
        offers: of a model, the tools that it is offered: each name with the names of its arguments.
    """

    kind: Literal["person", "tool caller", "model", "MCP client", "API client"]
    offers: frozenset[tuple[str, frozenset[str]]] = frozenset()

    @property
    def is_person(self) -> bool:
        """Whether the reader types lines."""
        return self.kind == "person"

    @cached_property
    def _arguments_by_tool(self) -> Mapping[str, frozenset[str]]:
        return dict(self.offers)

    def name_tool(self, label: str) -> str:
        """Return a tool's name as the reader's list spells it, from its canonical name.

        The name of a namespace is the same for all.
        """
        if ":" not in label:
            return label
        match self.kind:
            case "model":
                return model_tool_name(label)
            case "MCP client":
                return mcp_tool_name(label)
            case _:
                return label

    def lacks_tool(self, label: str) -> bool:
        """Return whether it is a model that is offered tools, and not this one."""
        return bool(self.offers) and self.name_tool(label) not in self._arguments_by_tool

    def knows_argument(self, label: str, name: str) -> bool:
        """Return whether the reader's list has an argument of a tool, or lacks the tool."""
        return name in self._arguments_by_tool.get(self.name_tool(label), (name,))

    def name_verb(self, name: str) -> str:
        """Return the name by which the reader calls a verb; "" if it cannot.

        A model calls only what it is offered.

        Raises:
            LookupError: if the verb does not exist.
        """
        names = _verbs.get(name)
        if names is None:
            raise LookupError(f"there is no verb {name}")
        match self.kind:
            case "person":
                return f"/{name}"
            case "tool caller":
                return names.tool
            case "model":
                tool = model_tool_name(names.label)
                return tool if tool in self._arguments_by_tool else ""
            case "MCP client":
                return names.mcp_tool
            case "API client":
                return names.path

    def name_call(self, name: str, /, **arguments: object) -> str:
        """Return a call of a verb as the reader makes it; "" if it cannot.

        A person types `/history 5 --before 22`; a program calls `history` with
        `{"n": 5, "before": 22}`. Arguments that are None are left out. A model makes no call with
        an argument that its list of tools does not have.

        Raises:
            LookupError: if the verb does not exist.
        """
        called = self.name_verb(name)
        values = {key: value for key, value in arguments.items() if value is not None}
        if self.is_person:
            return _verbs[name].write_line(values)
        if not all(self.knows_argument(_verbs[name].label, key) for key in values):
            return ""
        if not called or not values:
            return called
        return f"{called} {json.dumps(values, ensure_ascii=False)}"

    def name_flag(self, parameter: str) -> str:
        """Return an optional argument as the reader gives it: `--kind` or `kind`."""
        return f"--{parameter.replace('_', '-')}" if self.is_person else parameter

    def hint(self, sentence: str, name: str, /, **arguments: object) -> str:
        """Return a sentence with the call for its `{}`; "" if the reader cannot make it."""
        call = self.name_call(name, **arguments)
        return sentence.format(call) if call else ""


PERSON: Final = Reader("person")
TOOL_CALLER: Final = Reader("tool caller")
MCP_CLIENT: Final = Reader("MCP client")
API_CLIENT: Final = Reader("API client")

_PROGRAMS: Final = {"mcp": MCP_CLIENT, "api": API_CLIENT}


def reader_at(door: str) -> Reader:
    """Return the reader of the results at a door."""
    return PERSON if door in PEOPLE_DOORS else _PROGRAMS.get(door, TOOL_CALLER)


@dataclass(frozen=True)
class TextByReader:
    """A sentence in different words for people and programs; "" for no sentence."""

    person: str
    program: str = ""

    def text(self, reader: Reader) -> str:
        """Return the sentence for a reader."""
        return self.person if reader.is_person else self.program


@dataclass(frozen=True)
class NextCall:
    """A sentence about a call that the reader can make next; `{}` is the call.

    `also` is the sentence about another call, which follows it.
    """

    sentence: str
    verb: str
    arguments: Mapping[str, Any]
    also: NextCall | None = None

    def text(self, reader: Reader) -> str:
        """Return the sentence for a reader; "" if it cannot make the call.

        Nobody can in a process that declares no verbs, such as a command of the operator.
        """
        if self.verb not in _verbs:
            return ""
        first = reader.hint(self.sentence, self.verb, **self.arguments)
        second = self.also.text(reader) if self.also is not None else ""
        return f"{first} {second}".strip()


def add_next_call(text: str, call: NextCall | None, reader: Reader) -> str:
    """Return a text and the sentence about the next call, if the reader can make it."""
    sentence = call.text(reader) if call is not None else ""
    return " ".join(part for part in (text, sentence) if part).rstrip(" ")


@dataclass(frozen=True)
class SuggestedNames:
    """The question whether one of some names was meant.

    Those of `tools` are names of tools.
    """

    names: tuple[str, ...]
    tools: frozenset[str]

    def text(self, reader: Reader) -> str:
        """Return the question for a reader, with tools spelled as in its list."""
        return suggest_names(
            [reader.name_tool(name) if name in self.tools else name for name in self.names]
        )


Hint: TypeAlias = str | NextCall | TextByReader | SuggestedNames


def next_call(sentence: str, verb: str, /, **arguments: object) -> NextCall:
    """Make a sentence about a call: `next_call("{} loads it.", "load", room="git")`."""
    return NextCall(sentence, verb, arguments)


def hint_text(hint: Hint, reader: Reader) -> str:
    """Return the text of a hint for a reader."""
    return hint if isinstance(hint, str) else hint.text(reader)
