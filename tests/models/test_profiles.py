"""Defaults of a model by its kind, size and context."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.models.profiles import find_output_tokens, find_profile, find_size
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.settings import ModelSettings
from sshwarma.wrap.profiles import ContextProfile

SMALL = ContextProfile("small", "few")
FULL = ContextProfile("full", "all")
HERE = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("qwen3:8b", 8),
        ("llama3.2:1b-instruct-q4_K_M", 1),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", 0.135),
        ("qwen2.5-0.5b", 0.5),
        ("qwen3:30b-a3b", 30),
        ("mixtral:8x7b", 56),
        ("gpt-5.6-luna", None),
        ("phi4", None),
        ("claude-4b1", None),
    ],
)
def test_size_is_read_from_the_name_of_a_model(model: str, size: float | None) -> None:
    assert find_size(model) == size


@pytest.mark.parametrize(
    ("given", "profile"),
    [
        ({"kind": "ollama", "model": "qwen3:8b"}, SMALL),
        ({"kind": "ollama", "model": "qwen3:32b"}, FULL),
        ({"kind": "ollama", "model": "phi4"}, SMALL),  # its context is 8,000 unless it says more
        ({"kind": "ollama", "model": "phi4", "context_tokens": 32_000}, FULL),
        ({"kind": "llamacpp", "model": "qwen3-4b", "context_tokens": 32_000}, SMALL),
        ({"kind": "compatible", "model": "m", "base_url": HERE}, FULL),
        ({"kind": "compatible", "model": "gemma-3-1b", "base_url": HERE}, SMALL),
        ({"kind": "openai", "model": "tiny-1b"}, FULL),
        ({"kind": "ollama", "model": "qwen3:8b", "profile": "full"}, FULL),
        ({"kind": "ollama", "model": "qwen3:8b", "tools": "all"}, ContextProfile("small", "all")),
        ({"kind": "anthropic", "model": "claude", "profile": "small"}, SMALL),
        ({"kind": "local", "model": "/m/big-70b.gguf"}, SMALL),
        ({"kind": "local", "model": "smollm2"}, ContextProfile("small", "none")),
        ({"kind": "local", "model": "smollm2", "tools": "few"}, SMALL),
    ],
)
def test_profile_follows_kind_size_context_and_settings(
    given: dict[str, Any], profile: ContextProfile
) -> None:
    settings = ModelSettings(name="m", **given)
    assert PydanticAIBackend(settings, {}).profile == profile


@pytest.mark.parametrize(
    ("given", "context", "tokens"),
    [
        ({"kind": "openai", "model": "gpt"}, 120_000, 8_000),
        ({"kind": "compatible", "model": "m", "base_url": HERE}, 32_000, 4_800),
        ({"kind": "ollama", "model": "qwen3:8b"}, 32_000, 1_500),
        ({"kind": "ollama", "model": "qwen3:8b"}, 8_000, 1_200),
        ({"kind": "local", "model": "smollm2"}, 8_000, 300),
        ({"kind": "local", "model": "smollm2", "max_output_tokens": 9_000}, 8_000, 9_000),
    ],
)
def test_every_model_has_a_longest_answer(given: dict[str, Any], context: int, tokens: int) -> None:
    assert find_output_tokens(ModelSettings(name="m", **given), context) == tokens


def test_profile_of_the_settings_wins_over_everything() -> None:
    settings = ModelSettings(name="m", kind="local", model="smollm2", profile="full")
    assert find_profile(settings, 8_000).name == "full"
