"""Streams without end, closed at the longest answer, and broken ones."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from sshwarma.models.backend import AnswerCut, ReasoningDelta, RequestSent, TextDelta
from support.provider_wires import Ask

from .test_provider_faults import CHAT, END, Server, calling, chat, server
from .test_providers import heard, question

__all__ = ["server"]

ENDLESS: dict[str, Any] = {
    "text": lambda number: chat(content=f"word {number} of a tale "),
    "reasoning": lambda number: chat(reasoning_content=f"word {number} of a thought "),
    "arguments": lambda number: calling("look", f'{{"at": "door {number}'),
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_stream_without_end_is_closed_at_the_limit(
    server: Server,
    backend: Ask,
    kind: str,
) -> None:
    server.endless = ENDLESS[kind]
    qwen = backend(CHAT, server.url, max_output_tokens=100)
    received = 0
    async with asyncio.timeout(30):
        async with aclosing(qwen.stream(question("hello"))) as stream:
            async for part in stream:
                if isinstance(part, TextDelta | ReasoningDelta):
                    received += len(part.delta)
                    if received > 1_000:  # where the turn's guard ends it
                        break
                elif not isinstance(part, RequestSent):
                    assert part == AnswerCut()
        await server.was_closed.wait()
    assert len(server.bodies) == 1


async def test_broken_stream_is_called_so(server: Server, backend: Ask) -> None:
    server.script = ["{broken", END]
    _, failed = await heard(backend(CHAT, server.url), question("hello"))
    assert str(failed).startswith("the stream of its provider is damaged: an event is not")
