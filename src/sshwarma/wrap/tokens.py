"""Estimates of tokens, where no tokenizer of the model is at hand."""

from __future__ import annotations

import re
from typing import Final

MESSAGE_OVERHEAD_TOKENS: Final = 4
"""Tokens of a message, a call or a result besides its text."""

_PIECES: Final = re.compile(
    r" ?(?:[A-Z]?[a-z]{1,6}|[A-Z]{1,2})"  # a word, or a part of a long one
    r"|[0-9]"  # Qwen, Gemma and Mistral have a token for each digit
    r"| +|\s+"
    r"|[!-/:-@\[-`{-~]{1,2}"
    r"| ?[\u0370-\u1fff]{1,2}"  # other alphabets
    r"|."
)
"""About one token each, for the tokenizers of several families; of Han characters each is one.

With o200k and cl100k this is 1.2 times the tokens of prose and code, 1.3 to 1.4 of JSON, logs and
tools, 1.0 to 1.6 of Chinese, 1.0 to 1.9 of Russian, and 0.9 of base64. So prose has 3.4 characters
for each, JSON and logs 1.8, code 3.8, Chinese 1.
"""

MAX_CHARACTERS_PER_TOKEN: Final = 8
"""Most characters of a piece of prose: a space, a capital and six letters."""

_RARE: Final = re.compile(r"[\U00010000-\U0010ffff]")
_RARE_EXTRA_TOKENS: Final = 2
"""Tokens of an emoji beyond the first."""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, by its characters; rather too many than too few.

    The one estimate of the program, for budgets, reports and usage that no provider counted.
    """
    count = len(_PIECES.findall(text))
    return count if text.isascii() else count + _RARE_EXTRA_TOKENS * len(_RARE.findall(text))


def count_fitting_characters(text: str, tokens: int) -> int:
    """Return how many characters of a text, from its start, have about `tokens` tokens at most."""
    if tokens <= 0:
        return 0
    kept = min(len(text), tokens * MAX_CHARACTERS_PER_TOKEN)
    while kept and (count := estimate_tokens(text[:kept])) > tokens:
        kept = min(kept - 1, kept * tokens // count)
    return kept


ANSWER_FRACTION: Final = 0.15
"""Fraction of the context window reserved for the answer."""

MIN_ANSWER_TOKENS: Final = 512


def count_answer_tokens(window: int, output_tokens: int | None) -> int:
    """Return how many tokens of a context window are reserved for the answer.

    A fraction of the window, but at least MIN_ANSWER_TOKENS and at most half of it; never more than
    the answer may have.
    """
    reserved = min(max(MIN_ANSWER_TOKENS, round(window * ANSWER_FRACTION)), window // 2)
    return reserved if output_tokens is None else min(reserved, output_tokens)
