"""Estimates of tokens, where no tokenizer of the model is at hand."""

from __future__ import annotations

from typing import Final

CHARACTERS_PER_TOKEN: Final = 3.6
"""Characters per token. Measured over prose, chat and JSON Schema with cl100k: 3.1 to 4.7; set a
little low, to be safe.
"""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text."""
    return -(-len(text) * 10 // int(CHARACTERS_PER_TOKEN * 10)) if text else 0
