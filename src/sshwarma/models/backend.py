"""What a backend is asked and what it answers: the one port, whoever is behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from sshwarma.world.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool the model may call, by the name it is to use."""

    name: str
    canonical: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation as it was composed. Speakers other than the model itself
    are `user`, each line begun by its speaker's name."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call of an earlier step of this turn, and what it gave. `seq` is the number of the row
    that holds the whole of it, 0 if there is none."""

    call: ToolCall
    text: str
    failed: bool
    seq: int = 0


@dataclass(frozen=True, slots=True)
class TurnStep:
    """An earlier step of this turn: what the model said, what it called, what came of it."""

    text: str
    done: tuple[CompletedCall, ...]


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One step of a turn: who asks what in which room, the context, the tools, and the steps
    before. `system` and `conversation` are what wrap() composed; the conversation ends with the
    question."""

    room: str
    asker: str
    text: str
    offers: tuple[OfferedTool, ...]
    steps: tuple[TurnStep, ...] = ()
    system: str = ""
    conversation: tuple[Message, ...] = ()

    @property
    def done(self) -> tuple[CompletedCall, ...]:
        """All calls of this turn so far."""
        return tuple(done for step in self.steps for done in step.done)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more of the answer."""

    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Some more of the model's reasoning, which is kept apart from the answer."""

    delta: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model wants a tool called. `id` is the backend's own. `broken` says what is wrong with
    arguments that could not be read; then `arguments` is empty."""

    id: str
    name: str
    arguments: dict[str, Any]
    broken: str = ""


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """The model will be asked again after this many seconds; `why` says what it waits for."""

    seconds: float
    why: str


StreamPart: TypeAlias = TextDelta | ReasoningDelta | ToolCall | TokenUsage | RetryDelay


class Backend(Protocol):
    """Something that answers."""

    @property
    def model(self) -> str:
        """The model's name, as its provider calls it: for usage and for people."""

    @property
    def context_tokens(self) -> int:
        """How many tokens it takes in all, answer included; 0 if it reads neither
        `StepRequest.system` nor `StepRequest.conversation`."""

    def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        """One step: text as it comes, and calls. A step without calls ends the turn. Closing the
        iterator early ends the request.

        Raises:
            BackendError: with words for people.
        """


@runtime_checkable
class MeteredBackend(Protocol):
    """A backend whose answers cost something even if they are broken off."""

    def owed(self, request: StepRequest, said: str) -> TokenUsage | None:
        """What a step that was broken off has probably taken, after it had said so much; None if
        it cannot have been asked yet."""


class BackendError(Exception):
    """A backend could not answer; the words say why. `too_long`: the context did not fit."""

    def __init__(self, message: str, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.too_long = too_long
