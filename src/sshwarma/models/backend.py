"""Backend interface: the requests to a model and the parts of its response."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from sshwarma.world.usage import TokenUsage
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile

GUIDE_KIND: Final = "guide"
"""The kind of provider of the guide, which answers without a model."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call; `name` is the name it must use."""

    name: str
    canonical: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A tool call of an earlier step or turn, with its result.

    Attributes:
        seq: number of the row that holds the whole result, or 0 without one.
        length: characters of the whole result, if `text` has only its start.
        is_private: whether only who asked may see the call.
    """

    call: ToolCall
    text: str
    is_error: bool
    seq: int = 0
    length: int = 0
    is_private: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the composed conversation.

    All speakers but the model itself have the role `user`; their lines begin with their names.
    `done` are the tool calls that followed a message of the model, with their results. `ends_log`
    marks the last message that the next request is likely to have, too.
    """

    role: Literal["user", "assistant"]
    text: str
    done: tuple[CompletedCall, ...] = ()
    ends_log: bool = False


@dataclass(frozen=True, slots=True)
class TurnStep:
    """An earlier step of this turn: the model's text, its calls and their results."""

    text: str
    done: tuple[CompletedCall, ...]


@dataclass(frozen=True, slots=True)
class StepRequest:
    """Request for one step: question, room, context, tools and earlier steps.

    `wrap()` composes `system` and `conversation`; the conversation ends with the question. In the
    last step (`is_last`) the model must answer without calling a tool.
    """

    room: str
    asker: str
    text: str
    tools: tuple[OfferedTool, ...]
    steps: tuple[TurnStep, ...] = ()
    system: str = ""
    conversation: tuple[Message, ...] = ()
    is_last: bool = False

    @property
    def completed_calls(self) -> tuple[CompletedCall, ...]:
        """All completed calls of this turn."""
        return tuple(result for step in self.steps for result in step.done)

    @property
    def has_private_calls(self) -> bool:
        """Whether a call of this turn is for nobody but who asked."""
        return any(result.is_private for result in self.completed_calls)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Next part of the answer's text."""

    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Next part of the model's reasoning, which is separate from the answer."""

    delta: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the model.

    `id` is the backend's own. `parse_error` describes invalid arguments; then `arguments` is empty.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    parse_error: str = ""


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """Announces a retry after `seconds`; `reason` is the reason for people."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerCut:
    """The answer ended at the provider's limit of its length."""


@dataclass(frozen=True, slots=True)
class RequestSent:
    """The request left for the provider with this body: JSON without headers and key."""

    body: bytes


@dataclass(frozen=True, slots=True)
class TextFold:
    """The text of the step so far was reasoning."""


StreamPart: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | TextFold
    | ToolCall
    | TokenUsage
    | RetryDelay
    | AnswerCut
    | RequestSent
)


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A model's last failure and its time in Unix seconds."""

    message: str
    failed_at: float


class Backend(Protocol):
    """Interface of a model backend."""

    @property
    def model(self) -> str:
        """The provider's name of the model, for usage records and for people."""

    @property
    def context_tokens(self) -> int:
        """Size of the context window in tokens, answer included.

        0 if the backend reads neither `StepRequest.system` nor `StepRequest.conversation`.
        """

    @property
    def result_tokens(self) -> int:
        """Tokens of the context window that results of tools may take in a turn."""

    @property
    def provider_kind(self) -> str:
        """The kind of provider.

        Tool calls of earlier turns are sent as calls to the same kind.
        """

    @property
    def profile(self) -> ContextProfile:
        """How much the model is sent, and which tools it is offered."""
        return FULL_PROFILE

    @property
    def output_tokens(self) -> int | None:
        """Maximum output tokens of one step; None if there is no limit."""
        return None

    @property
    def last_failure(self) -> FailureRecord | None:
        """The last failure since the start, if any."""

    @property
    def is_failing(self) -> bool:
        """Whether no request has succeeded since the last failure."""

    async def retire(self) -> None:
        """Close the connections when no answer is streaming."""

    def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        """Run one step and stream its text and tool calls.

        A step without calls ends the turn. Closing the iterator early cancels the request.

        Raises:
            BackendError: if the model cannot answer, with a reason for people.
        """


@runtime_checkable
class PreviewBackend(Protocol):
    """A backend that can tell the body of a request without sending it."""

    async def preview(self, request: StepRequest) -> bytes:
        """Return the body of the request as JSON.

        Raises:
            BackendError: if it cannot be written, because a key or a package is missing.
        """


@runtime_checkable
class MeteredBackend(Protocol):
    """A backend whose interrupted answers cost tokens too."""

    def estimate_usage(self, request: StepRequest, text: str) -> TokenUsage | None:
        """Estimate the usage of an interrupted step after its text.

        Returns None if the request cannot have been sent.
        """


class BackendError(Exception):
    """A backend could not answer; the text says why.

    Args:
        message: The reason for people.
        cause: The reason in a few words, for models.
        is_context_too_long: Whether the context exceeds the model's window.
    """

    def __init__(
        self, message: str, *, cause: str = "provider error", is_context_too_long: bool = False
    ) -> None:
        super().__init__(message)
        self.cause = "the context is too long" if is_context_too_long else cause
        self.is_context_too_long = is_context_too_long
