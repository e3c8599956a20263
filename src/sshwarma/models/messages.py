"""Conversion of a request (system text, conversation, steps) for pydantic-ai."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from cachetools import LRUCache

from sshwarma.models.backend import CompletedCall, Message, StepRequest, ToolCall, TurnStep
from sshwarma.models.control_tokens import break_control_tokens
from sshwarma.models.request_size import count_call_tokens, count_request_tokens
from sshwarma.world.usage import TokenUsage
from sshwarma.wrap.tokens import estimate_tokens
from sshwarma.wrap.transcript import indent_heads

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
    )
    from pydantic_ai.models import ModelRequestParameters

LAST_STEP_PROMPT: Final = (
    "[This is the last step of this turn: no more tools can be called. Answer the request now with"
    " what you have, and say what is missing.]"
)

ResponseKey: TypeAlias = tuple[str, tuple[tuple[str, str, str], ...]]


class ResponseCache:
    """Cache of the provider's original responses, for the next step of their turn.

    Reasoning models require their response back unchanged, with signatures. The cache holds the
    newest responses; a step that is not in it is sent as text and calls.
    """

    MAX_RESPONSES: Final = 256

    def __init__(self) -> None:
        self._responses: LRUCache[ResponseKey, ModelResponse] = LRUCache(self.MAX_RESPONSES)

    def store(self, text: str, calls: Iterable[ToolCall], answer: ModelResponse) -> None:
        """Store the response of a step that produced this text and these calls."""
        self._responses[_response_key(text, calls)] = answer

    def find(self, step: TurnStep) -> ModelResponse | None:
        """Return the stored response of a step, or None."""
        return self._responses.get(_response_key(step.text, (result.call for result in step.done)))


def _response_key(text: str, calls: Iterable[ToolCall]) -> ResponseKey:
    return text.strip(), tuple(
        (call.id, call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls
    )


def build_messages(
    request: StepRequest,
    system: str,
    cache: ResponseCache,
    *,
    plain: bool,
    marks_cache: bool = False,
) -> list[ModelMessage]:
    """Build the messages of a request.

    pydantic-ai uses the instructions of the last request. Every request has them, so that the
    prefixes of successive steps are equal. With `plain`, neighbouring messages of one role are
    joined. With `marks_cache` the provider is asked to cache what precedes the present request.
    """
    from pydantic_ai.messages import (
        CachePoint,
        ModelRequest,
        ModelResponse,
        TextPart,
        UserPromptPart,
    )

    instructions = break_control_tokens(system) or None
    messages: list[ModelMessage] = []
    received: list[ModelRequestPart] = []  # what the model was given since its last message

    def answer(response: ModelResponse, done: Iterable[CompletedCall]) -> None:
        if received:
            messages.append(ModelRequest(parts=list(received), instructions=instructions))
        messages.append(response)
        received[:] = [_tool_return(result) for result in done]

    log_ended = False
    for role, group in _group_by_speaker(request):
        shown = [one for one in group if one.text.strip()]
        texts = [break_control_tokens(one.text) for one in shown]
        texts = ["\n".join(texts)] if plain and texts else texts
        if role == "user":
            for text, one in zip(texts, shown, strict=False):
                # A mark is put on what precedes it.
                received.append(UserPromptPart([CachePoint(), text] if log_ended else text))
                log_ended = marks_cache and one.ends_log
        else:
            done = group[-1].done
            answer(ModelResponse(parts=[*map(TextPart, texts), *map(_call_part, done)]), done)
            log_ended = marks_cache and group[-1].ends_log
    for step in request.steps:
        answer(cache.find(step) or ModelResponse(parts=list(_step_parts(step))), step.done)
    if request.is_last and (request.steps or request.tools):
        received.append(UserPromptPart(LAST_STEP_PROMPT))
    if received:
        messages.append(ModelRequest(parts=received, instructions=instructions))
    return messages


def _group_by_speaker(request: StepRequest) -> Iterator[tuple[str, list[Message]]]:
    """Group the conversation by role, without blank messages and with a user first.

    A message with tool calls ends its group, because their results follow it.
    """
    question = Message("user", f"{request.asker}: {request.text}")
    messages = [one for one in request.conversation if one.text.strip() or one.done] or [question]
    if messages[0].role == "assistant":
        messages.insert(0, Message("user", "[Earlier messages are not shown]"))
    group: list[Message] = []
    for message in messages:
        if group and (message.role != group[-1].role or group[-1].done):
            yield group[-1].role, group
            group = []
        group.append(message)
    yield group[-1].role, group


def _call_part(result: CompletedCall) -> ModelResponsePart:
    from pydantic_ai.messages import ToolCallPart

    call = result.call
    return ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)


def _tool_return(result: CompletedCall) -> ModelRequestPart:
    from pydantic_ai.messages import ToolReturnPart

    return ToolReturnPart(
        tool_name=result.call.name,
        content=indent_heads(break_control_tokens(result.text)),
        tool_call_id=result.call.id,
        outcome="failed" if result.is_error else "success",
    )


def _step_parts(step: TurnStep) -> Iterator[ModelResponsePart]:
    from pydantic_ai.messages import TextPart

    if step.text.strip():
        yield TextPart(step.text)
    yield from map(_call_part, step.done)


def build_parameters(request: StepRequest, *, with_tools: bool = True) -> ModelRequestParameters:
    """Build the tool parameters; not strict, because external schemas fail that."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=offer.name,
                description=offer.description,
                parameters_json_schema=offer.input_schema,
                strict=False,
            )
            for offer in (request.tools if with_tools else ())
        ],
        allow_text_output=True,
    )


def estimate_usage(
    request: StepRequest, system: str, text: str, calls: Iterable[ToolCall]
) -> TokenUsage:
    """Estimate the token usage of a step that the provider did not count."""
    prompt = count_request_tokens(request, system)
    completion = estimate_tokens(text) + count_call_tokens(calls)
    return TokenUsage(max(1, prompt), max(1, completion), estimated=True)
