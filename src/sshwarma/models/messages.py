"""A request as pydantic-ai's messages: system text, conversation, and the steps of this turn."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from sshwarma.models.backend import Call, Message, Request, Step, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import ModelRequestParameters

PROSE: Final = 3.8
SCHEMA: Final = 4.7
CHAT: Final = 3.1
"""Characters a token, measured with cl100k on READMEs, tool schemas and chat lines."""

MESSAGE_TOKENS: Final = 4
"""What a message costs besides its text."""

Key: TypeAlias = tuple[str, tuple[tuple[str, str, str], ...]]


class Given:
    """Answers as the provider gave them, for the next step of their turn: reasoning models want
    theirs back as it was, signatures and all. The newest are kept; a step without one is sent as
    text and calls."""

    MOST: Final = 256

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, ModelResponse] = OrderedDict()

    def keep(self, text: str, calls: Iterable[Call], answer: ModelResponse) -> None:
        self._answers[_key(text, calls)] = answer
        while len(self._answers) > self.MOST:
            self._answers.popitem(last=False)

    def of(self, step: Step) -> ModelResponse | None:
        return self._answers.get(_key(step.text, (done.call for done in step.done)))


def _key(text: str, calls: Iterable[Call]) -> Key:
    return text.strip(), tuple(
        (call.id, call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls
    )


def messages(request: Request, system: str, given: Given, *, plain: bool) -> list[ModelMessage]:
    """What is sent. pydantic-ai takes the instructions of the last request; they are on each, so
    that every prefix says the same."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolReturnPart,
        UserPromptPart,
    )

    instructions = system or None
    found: list[ModelMessage] = []
    for role, texts in _said(request):
        parts = ["\n".join(texts)] if plain else texts
        if role == "assistant":
            found.append(ModelResponse(parts=[TextPart(text) for text in parts]))
        else:
            prompts = [UserPromptPart(text) for text in parts]
            found.append(ModelRequest(parts=prompts, instructions=instructions))
    for step in request.steps:
        found.append(given.of(step) or ModelResponse(parts=list(_step(step))))
        returns = [
            ToolReturnPart(
                tool_name=done.call.name,
                content=done.text,
                tool_call_id=done.call.id,
                outcome="failed" if done.failed else "success",
            )
            for done in step.done
        ]
        found.append(ModelRequest(parts=returns, instructions=instructions))
    return found


def _said(request: Request) -> Iterator[tuple[str, list[str]]]:
    """The conversation by turns of speaking, without what is blank; a person begins it."""
    question = Message("user", f"{request.asker}: {request.text}")
    spoken = [one for one in request.conversation if one.text.strip()] or [question]
    if spoken[0].role == "assistant":
        spoken.insert(0, Message("user", "(what was said before is left out)"))
    for role, group in groupby(spoken, key=lambda one: one.role):
        yield role, [one.text for one in group]


def _step(step: Step) -> Iterator[ModelResponsePart]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    if step.text.strip():
        yield TextPart(step.text)
    for done in step.done:
        yield ToolCallPart(
            tool_name=done.call.name, args=done.call.arguments, tool_call_id=done.call.id
        )


def parameters(request: Request) -> ModelRequestParameters:
    """The tools on offer. Never strict: schemas of others have what strict mode refuses."""
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
            for offer in request.offers
        ],
        allow_text_output=True,
    )


def estimate(request: Request, system: str, text: str, calls: Iterable[Call]) -> Usage:
    """Tokens of a step that the provider did not count."""
    prompt = len(system) / PROSE
    for _, texts in _said(request):
        prompt += sum(len(one) / CHAT + MESSAGE_TOKENS for one in texts)
    for offer in request.offers:
        shown = json.dumps(offer.input_schema)
        prompt += (len(offer.name) + len(offer.description) + len(shown)) / SCHEMA
    for step in request.steps:
        prompt += len(step.text) / CHAT
        for done in step.done:
            prompt += _call_tokens(done.call) + len(done.text) / PROSE + MESSAGE_TOKENS
    completion = len(text) / CHAT + sum(map(_call_tokens, calls))
    return Usage(max(1, round(prompt)), max(1, round(completion)), estimated=True)


def _call_tokens(call: Call) -> float:
    return (len(call.name) + len(json.dumps(call.arguments))) / SCHEMA + MESSAGE_TOKENS
