"""Estimated tokens of a whole request, where the provider has not counted them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sshwarma.models.backend import CompletedCall, StepRequest, ToolCall
from sshwarma.models.offered_tools import write_offers
from sshwarma.wrap.tokens import MESSAGE_OVERHEAD_TOKENS, estimate_tokens


def count_request_tokens(request: StepRequest, system: str = "") -> int:
    """Return an estimate of a request's tokens: system text, messages, tools, steps."""
    tokens = estimate_tokens(system or request.system) + MESSAGE_OVERHEAD_TOKENS
    tokens += estimate_tokens(write_offers(request.tools))
    texts = [message.text for message in request.conversation]
    texts += [step.text for step in request.steps]
    tokens += sum(estimate_tokens(text) + MESSAGE_OVERHEAD_TOKENS for text in texts)
    if not request.conversation:
        tokens += estimate_tokens(f"{request.asker}: {request.text}")
    done = [result for message in request.conversation for result in message.done]
    done += request.completed_calls
    return tokens + count_call_tokens(result.call for result in done) + count_result_tokens(done)


def count_call_tokens(calls: Iterable[ToolCall]) -> int:
    """Return an estimate of the tokens of tool calls."""
    return sum(
        estimate_tokens(call.name + json.dumps(call.arguments, ensure_ascii=False))
        + MESSAGE_OVERHEAD_TOKENS
        for call in calls
    )


def count_result_tokens(results: Iterable[CompletedCall]) -> int:
    """Return an estimate of the tokens of tool results."""
    return sum(estimate_tokens(result.text) + MESSAGE_OVERHEAD_TOKENS for result in results)
