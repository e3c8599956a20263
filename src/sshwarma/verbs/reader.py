"""Readers of results: how calls of verbs are named to people, to models and to programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sshwarma.verbs.registry import Verb, VerbGroup, find_entry, find_verb
from sshwarma.world.presence import PEOPLE_DOORS


@dataclass(frozen=True)
class Reader:
    """Who reads a result: a person, who types lines, or a caller of tools or of the HTTP API."""

    kind: Literal["person", "tool caller", "API client"]

    @property
    def is_person(self) -> bool:
        """Whether the reader types lines."""
        return self.kind == "person"

    def name_verb(self, verb: Verb) -> str:
        """Return the name by which the reader calls a verb; "" if it cannot."""
        match self.kind:
            case "person":
                return f"/{verb.name}"
            case "tool caller":
                return verb.tool or ""
            case "API client":
                return "" if verb.ssh_only else verb.path

    def name_call(self, name: str, /, **arguments: object) -> str:
        """Return a call of a verb as the reader makes it; "" if it cannot.

        A person types `/history 5 --before 22`; a program calls `history` with
        `{"n": 5, "before": 22}`. Arguments that are None are left out.
        """
        verb = find_verb(name)
        if verb is None:
            raise LookupError(f"there is no verb {name}")
        values = {key: value for key, value in arguments.items() if value is not None}
        if self.is_person:
            return _name_line(verb, values)
        tool_name = self.name_verb(verb)
        if not tool_name or not values:
            return tool_name
        return f"{tool_name} {json.dumps(values, ensure_ascii=False)}"

    def hint(self, sentence: str, name: str, /, **arguments: object) -> str:
        """Return a sentence with the call in place of its `{}`; "" if the reader cannot make it."""
        call = self.name_call(name, **arguments)
        return sentence.format(call) if call else ""


PERSON: Final = Reader("person")
TOOL_CALLER: Final = Reader("tool caller")
API_CLIENT: Final = Reader("API client")


def reader_at(door: str) -> Reader:
    """Return the reader of the results at a door."""
    if door in PEOPLE_DOORS:
        return PERSON
    return API_CLIENT if door == "web" else TOOL_CALLER


@dataclass(frozen=True)
class NextCall:
    """A sentence about a call that the reader can make next; `{}` stands for the call.

    `also` is the sentence about another call, which follows it.
    """

    sentence: str
    verb: str
    arguments: Mapping[str, Any]
    also: NextCall | None = None

    def text(self, reader: Reader) -> str:
        """Return the sentence for a reader; "" if it cannot make the call."""
        first = reader.hint(self.sentence, self.verb, **self.arguments)
        second = self.also.text(reader) if self.also is not None else ""
        return f"{first} {second}".strip()


def next_call(sentence: str, verb: str, /, **arguments: object) -> NextCall:
    """Make a sentence about a call: `next_call("{} loads it.", "load", room="git")`."""
    return NextCall(sentence, verb, arguments)


def _name_line(verb: Verb, given: Mapping[str, object]) -> str:
    entry = find_entry(verb.group) if verb.group else None
    is_short = (
        isinstance(entry, VerbGroup)
        and entry.default == verb.action
        and (not given or entry.default_takes_words)
    )
    words = [f"/{verb.group if is_short else verb.name}"]
    for parameter in (*verb.positional, *verb.flags.values()):
        value = given.get(parameter.name)
        if value is None or value is False:
            continue
        if parameter.flag:
            words.append(f"--{parameter.option}")
        elif parameter.arg.particle:
            words.append(parameter.arg.particle)
        if not parameter.boolean:
            words.append(str(value))
    return " ".join(words)
