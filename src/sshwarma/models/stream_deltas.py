"""What an event of a provider's stream adds: text, reasoning, call arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sshwarma.common.limits import MAX_STREAMED_CALLS
from sshwarma.common.messages import with_limit
from sshwarma.models.backend import ReasoningDelta, TextDelta, TextFold
from sshwarma.models.profiles import find_max_characters
from sshwarma.models.stream_errors import StreamDamaged
from sshwarma.models.think_tags import ThinkTagSplitter

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent


def split_reasoning(
    parts: Iterator[TextDelta | ReasoningDelta], thinking: ThinkTagSplitter
) -> Iterator[TextDelta | ReasoningDelta | TextFold]:
    """Yield the parts, with reasoning that is written into the text as reasoning."""
    for part in parts:
        if isinstance(part, ReasoningDelta):
            yield part
        else:
            yield from thinking.split(part.delta)


def read_deltas(event: ModelResponseStreamEvent) -> Iterator[TextDelta | ReasoningDelta]:
    """Yield the text or reasoning that an event adds.

    Raises:
        StreamDamaged: if it is not a string; the SDKs do not check that.
    """
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    if isinstance(event, PartStartEvent):
        if isinstance(event.part, TextPart) and event.part.content:
            yield TextDelta(_require_text(event.part.content))
        elif isinstance(event.part, ThinkingPart) and event.part.content:
            yield ReasoningDelta(_require_text(event.part.content))
    elif isinstance(event, PartDeltaEvent):
        if isinstance(event.delta, TextPartDelta) and event.delta.content_delta:
            yield TextDelta(_require_text(event.delta.content_delta))
        elif isinstance(event.delta, ThinkingPartDelta) and event.delta.content_delta:
            yield ReasoningDelta(_require_text(event.delta.content_delta))


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise StreamDamaged("the text of an event is not a string")
    return value


class ArgumentCounter:
    """Counts the characters of tool calls' arguments, which nobody sees meanwhile."""

    def __init__(self, output_tokens: int | None) -> None:
        self._left = find_max_characters(output_tokens)
        self._calls = 0

    def exceeds_limit(self, event: ModelResponseStreamEvent) -> bool:
        """Count what an event adds; return whether it is more than the limit now.

        Raises:
            StreamDamaged: if there are over MAX_STREAMED_CALLS calls.
        """
        from pydantic_ai.messages import (
            PartDeltaEvent,
            PartStartEvent,
            ToolCallPart,
            ToolCallPartDelta,
        )

        added: object = None
        if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
            added = event.part.args
            self._calls += 1
            if self._calls > MAX_STREAMED_CALLS:
                raise StreamDamaged(with_limit("it has too many tool calls", MAX_STREAMED_CALLS))
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ToolCallPartDelta):
            added = event.delta.args_delta
        self._left -= len(added) if isinstance(added, str) else 0
        return self._left < 0
