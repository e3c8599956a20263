"""The types verbs take: what an argument is, so that parsing, schemas and completion all know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

ArgumentKind = Literal[
    "text", "room", "direction", "exit", "agent", "thing", "pattern", "tool", "context", "verb",
    "topic", "word", "setting", "number", "command", "namespace", "state",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arg:
    """How an argument is typed on a line.

    `rest` takes all that remains, as it stands. A `command` is one word, or `--` and all that
    remains, as it stands. `particle` is a little word that may come before
    it and means nothing by itself: `to`, `=`.
    """

    what: ArgumentKind
    rest: bool = False
    particle: str = ""


Text: TypeAlias = Annotated[str, Arg("text", rest=True)]
"""Free text to the end of the line."""

Words: TypeAlias = Annotated[str, Arg("word", rest=True)]
"""All the words that remain, with flags anywhere among them."""

Word: TypeAlias = Annotated[str, Arg("word")]
RoomName: TypeAlias = Annotated[str, Arg("room")]
Direction: TypeAlias = Annotated[str, Arg("direction")]
ExitName: TypeAlias = Annotated[str, Arg("exit")]
AgentName: TypeAlias = Annotated[str, Arg("agent")]
ThingName: TypeAlias = Annotated[str, Arg("thing")]
ToolName: TypeAlias = Annotated[str, Arg("tool")]
NamespaceName: TypeAlias = Annotated[str, Arg("namespace")]
StateName: TypeAlias = Annotated[str, Arg("state")]
"""The name of a state, or of a model that keeps notes."""

Patterns: TypeAlias = Annotated[str, Arg("pattern", rest=True)]
Context: TypeAlias = Annotated[str, Arg("context")]
"""`room`, `me`, or `@agent`."""

Flag: TypeAlias = bool
RepeatedWord: TypeAlias = Annotated[tuple[str, ...], Arg("word"), Field(max_length=32)]
"""A flag that may be given again: each value once more."""

Priority: TypeAlias = Annotated[float, Arg("number"), Field(allow_inf_nan=False)]
RowNumber: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=2**53)]
Offset: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=2**53)]
Count: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=1000)]
Days: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=36_500)]
Minutes: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=5_256_000)]
