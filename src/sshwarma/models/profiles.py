"""Defaults of a model by kind, size and context: profile, tools, answer length."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.limits import (
    DEFAULT_FULL_OUTPUT_TOKENS,
    DEFAULT_SMALL_OUTPUT_TOKENS,
    MAX_ANSWER_CHARACTERS,
    MAX_CHARACTERS_PER_OUTPUT_TOKEN,
    MAX_SMALL_BILLIONS,
    MAX_SMALL_CONTEXT_TOKENS,
)
from sshwarma.models.local_files import PACKAGED_MODEL
from sshwarma.settings import ModelSettings, OfferedTools, ProfileName
from sshwarma.wrap.profiles import ContextProfile
from sshwarma.wrap.tokens import ANSWER_FRACTION

OWN_SERVER_KINDS: Final = frozenset(("ollama", "llamacpp", "compatible"))
"""Kinds whose models run on servers of the operator, so that small ones are common."""

PACKAGED_OUTPUT_TOKENS: Final = 300
"""Tokens of an answer of the packaged model, which says little that is worth more."""

_SIZE: Final = re.compile(
    r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE
)


def find_size(model: str) -> float | None:
    """Return the billions of parameters that the name of a model states, or None.

    The largest counts: `qwen3:30b-a3b` has 30. `mixtral:8x7b` has 56.
    """
    sizes = [
        int(times or 1) * float(number) / (1 if unit in "bB" else 1_000)
        for times, number, unit in _SIZE.findall(model)
    ]
    return max(sizes, default=None)


def find_profile(settings: ModelSettings, context_tokens: int) -> ContextProfile:
    """Return what a model with a context window of `context_tokens` is sent."""
    name = settings.profile or _default_profile(settings, context_tokens)
    default_tools: OfferedTools = "all" if name == "full" else "few"
    if settings.kind == "local" and settings.model == PACKAGED_MODEL:
        default_tools = "none"  # its chat template has no place for tools
    return ContextProfile(name, settings.tools or default_tools)


def _default_profile(settings: ModelSettings, context_tokens: int) -> ProfileName:
    if settings.kind == "local":
        return "small"
    if settings.kind not in OWN_SERVER_KINDS:
        return "full"
    size = find_size(settings.model)
    is_small = (
        context_tokens <= MAX_SMALL_CONTEXT_TOKENS if size is None else size <= MAX_SMALL_BILLIONS
    )
    return "small" if is_small else "full"


def find_output_tokens(settings: ModelSettings, context_tokens: int) -> int:
    """Return the most tokens of an answer of one step.

    The default is not over the share of the context that is kept for the answer, because some
    servers refuse a request whose answer would not fit.
    """
    if settings.max_output_tokens is not None:
        return settings.max_output_tokens
    if settings.kind == "local" and settings.model == PACKAGED_MODEL:
        return PACKAGED_OUTPUT_TOKENS
    is_small = find_profile(settings, context_tokens).name == "small"
    default = DEFAULT_SMALL_OUTPUT_TOKENS if is_small else DEFAULT_FULL_OUTPUT_TOKENS
    return min(default, round(context_tokens * ANSWER_FRACTION))


def find_max_characters(output_tokens: int | None) -> int:
    """Return the most characters of one step: text, reasoning and tool arguments."""
    tokens = output_tokens or MAX_ANSWER_CHARACTERS
    return min(MAX_ANSWER_CHARACTERS, tokens * MAX_CHARACTERS_PER_OUTPUT_TOKEN)
