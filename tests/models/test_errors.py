"""Errors of providers: a context that is too long is known by their words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import exceptions

from sshwarma.models.errors import classify_error
from sshwarma.models.secrets import Secret
from sshwarma.settings import ModelSettings

KINDS: dict[int, Any] = {
    429: exceptions.ModelRateLimitError,
    500: exceptions.ModelServerError,
    400: exceptions.ModelRequestRejectedError,
}


@pytest.mark.parametrize(
    ("status", "text", "is_too_long"),
    [
        (400, "This model's maximum context length is 8192 tokens. However, you asked", True),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", True),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000", True),
        (400, "Your input exceeds the context window of this model.", True),
        (400, "The input token count (1200000) exceeds the maximum number of tokens", True),
        (400, "This model's maximum prompt length is 131072 but the request has 537812", True),
        (400, "Please reduce the length of the messages or completion.", True),
        (400, "Prompt has 40000 tokens, too large for model with 32768 maximum", True),
        (400, "Input is too long for requested model.", True),
        (500, "the request exceeds the available context size, try increasing it", True),
        (429, "Too many tokens, please wait before trying again.", False),
        (400, "max_tokens: 100000 > 8192, which is the maximum allowed number", False),
        (500, "the mock is on fire", False),
    ],
)
def test_context_that_is_too_long_is_known_by_the_words_of_providers(
    status: int, text: str, is_too_long: bool
) -> None:
    error = exceptions.ModelHTTPError.for_category(
        KINDS[status], status_code=status, model_name="m", body={"error": {"message": text}}
    )
    settings = ModelSettings(name="qwen", kind="openai", model="m")
    failure = classify_error(error, settings, Secret(""), has_begun=False)
    assert failure.error.is_context_too_long == is_too_long
    assert (failure.max_attempts == 1) or not is_too_long
