"""The wires, and the mock at their end: @copilotkit/aimock, by others (MIT)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sshwarma.models.pydantic_ai_backend import PydanticAIBackend

KEYS = {"OPENAI_API_KEY": "sk-openai-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}


@dataclass(frozen=True)
class Wire:
    """A way to speak to models, and what one says over it."""

    name: str
    kind: Any
    model: str
    root: str
    too_long: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def refused(status: int, message: str, **more: Any) -> dict[str, Any]:
    kind = more.pop("type", "invalid_request_error")
    return {"status": status, "error": {"message": message, "type": kind, **more}}


OPENAI_TOO_LONG = refused(400, "Too many tokens in messages.", code="context_length_exceeded")
WIRES = (
    Wire("chat", "openai", "gpt-5.6-luna", "/v1", OPENAI_TOO_LONG),
    Wire("responses", "openai-responses", "gpt-5.6-luna", "/v1", OPENAI_TOO_LONG),
    Wire(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        "",
        refused(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    Wire(
        "ollama",
        "ollama",
        "qwen3:8b",
        "/v1",
        refused(400, "request (9000 tokens) exceeds the available context size (8192 tokens)"),
    ),
)


def scripts(wire: Wire) -> Iterator[dict[str, Any]]:
    """Answers of the mock by question; each wire has its own, since the mock counts."""

    def on(question: str, response: dict[str, Any], **more: Any) -> dict[str, Any]:
        match = {"userMessage": f"{question} {wire}", **more.pop("match", {})}
        return {"match": match, "response": response, **more}

    look = {"name": "look", "arguments": '{"at": "door"}', "id": "call_a"}
    say = {"name": "say", "arguments": '{"text": "hi"}', "id": "call_b"}
    both = {"content": "Let me look.", "toolCalls": [look, say]}
    busy = refused(429, "slow down", type="rate_limit_error") | {"retryAfter": 0}
    counted = (
        {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        if wire.name in ("chat", "ollama")
        else {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    )
    yield on("hello", {"content": "Hello from the mock.", "usage": counted}, chunkSize=4)
    first = {"hasToolResult": False}
    yield on("look and say", both, match=first, latency=2, chunkSize=6)
    yield on("look and say", {"content": "I did."}, match={"hasToolResult": True})
    yield on("try again", busy, match={"sequenceIndex": 0})
    yield on("try again", {"content": "There."}, match={"sequenceIndex": 1})
    yield on("never", busy)
    yield on("later", busy | {"retryAfter": 600})
    yield on("trouble", refused(500, "the mock is on fire", type="server_error"))
    cut = {"truncateAfterChunks": 9, "latency": 10, "chunkSize": 3}
    yield on("cut text", {"content": "a text that is long enough to be cut midway"}, **cut)
    long = {"name": "look", "arguments": json.dumps({"at": "door " * 20}), "id": "call_a"}
    yield on("cut call", {"toolCalls": [long]}, **cut)
    yield on("slow", {"content": "a word or two " * 200}, latency=50, chunkSize=6)
    yield on("broken", {"toolCalls": [{**look, "arguments": '{"at": '}, say]})
    wrong_key = f"Incorrect API key provided: {KEYS['OPENAI_API_KEY'][:12]}****."
    yield on("locked", refused(401, wrong_key, type="authentication_error"))
    yield on("much too long", wire.too_long)
    fits = {"content": "Now it fits."}
    yield on("first too long", wire.too_long, match={"sequenceIndex": 0})
    yield on("first too long", fits, match={"sequenceIndex": 1})
    who = {"toolCalls": [{"name": "sshwarma__who", "arguments": "{}", "id": "call_w"}]}
    yield on("then too long", who, match={"hasToolResult": False})
    late = {"hasToolResult": True}
    yield on("then too long", wire.too_long, match=late | {"sequenceIndex": 0})
    yield on("then too long", fits, match=late | {"sequenceIndex": 1})
    yield on("always too long", wire.too_long)
    yield on("no such", refused(404, "no such model", code="model_not_found"))


Ask = Callable[..., PydanticAIBackend]
"""Makes the backend of a wire at an address."""
