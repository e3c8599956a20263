"""Estimates of tokens, where no tokenizer of the model is at hand."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MESSAGE_OVERHEAD_TOKENS: Final = 4
"""Tokens of a message, a call or a result besides its text."""

_CONSONANT: Final = "[bcdfghjklmnpqrstvwxz]"
_ONSET: Final = rf"(?:[bcdfgkpstw]?[hlr]|s[ckmnptw]|{_CONSONANT})?"
_VOWELS: Final = "(?:a[eiouy]?|e[aeiouy]?|i[aeou]?|o[aeiouy]?|u[aeio]?|y[aeou]?)"
_CODA: Final = rf"(?:n[gtdcks]|[lrs][tdkpmnsl]|c[kt]|ts|ff|tt|mp|{_CONSONANT})?"
_SUFFIX: Final = (
    "(?:[a-z]?(?:[aeiu]?tion(?:al|s)?|ments?|ings?|it(?:ies|y)|[ae]n(?:ce|t)|e[rd]s?|l?ly|[ai]ble"
    "|ive|ates?|ous|al|es?)(?![a-z]))?"
)
_WORD: Final = rf"{_ONSET}{_VOWELS}{_CODA}(?:{_ONSET}[aeiouy][dnrsty]?)?(?:(?=[a-z]){_SUFFIX})?"

_PIECES: Final = re.compile(
    # One or two syllables that many words have, with an ending of English; a letter where there is
    # no syllable, as in a random text. The lookaheads only make it faster.
    rf" ?(?:(?=[A-Za-z])(?:[A-Z]?{_WORD}|[A-Z]?{_CONSONANT}|[A-IL-PR-UW]{{1,2}}+|[A-Z]))"
    r"|[0-9]"  # Qwen, Gemma and Mistral have a token for each digit
    r"| {1,8}+|[\n\r]{1,3}+|\t{1,4}+"
    r"|-{3,8}+|={3,8}+|_{3,8}+|\*{3,8}+|#{3,8}+|[!-/:-@\[-`{-~]{1,2}+"
    r"| ?[\u0370-\u11ff\u13a0-\u1fff]{1,2}+"  # other alphabets
    r"|.",
    re.DOTALL,
)
"""About one token each, for the tokenizers of several families; of Han characters each is one.

With o200k this is 1.1 to 1.35 times the tokens of English, 1.0 to 1.8 of other European languages
(2.7 of Russian and Vietnamese), 1.3 to 1.7 of code, JSON and logs, 1.2 to 1.5 of Chinese, and 1.0
to 1.2 of base64 and random letters: tests/wrap/test_tokens.py. Only characters that are in few
texts, such as Han at random, have up to twice as many. A megabyte takes 0.15 to 0.25 s.
"""

MAX_REMEMBERED_LINES: Final = 2_000
"""Lines whose estimate is remembered: a few windows of talk."""

MAX_REMEMBERED_CHARACTERS: Final = 2_000
"""Maximum length of such a line, so that all of them take at most 4 MB of ASCII."""

MAX_CHARACTERS_PER_TOKEN: Final = 20
"""Maximum length of a piece of prose: a space, a capital, two syllables and an ending."""

_RARE: Final = re.compile(
    # Combining marks, alphabets with few texts, full width: two tokens each
    r"([\u0300-\u036f\u0700-\u08ff\u0e80-\u109f\u1200-\u137f\uff00-\uffef])"
    # Rare characters of three bytes, and emoji: three tokens
    r"|([\u1380-\u1dff\u2070-\u218f\u2c00-\u2fff\ua000-\uabff\ud7b0-\uf8ff\U0001f000-\U0001faff])"
    # Other characters of four bytes: four tokens
    r"|([\U00010000-\U0001efff\U0001fb00-\U0010ffff])"
)
"""Rare characters, in one group for each number of tokens beyond the first."""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, by its characters.

    It is rather too high than too low. The one estimate of the program, for budgets, reports and
    usage that no provider counted.
    """
    if len(text) <= MAX_REMEMBERED_CHARACTERS:
        return _estimate_line(text)
    return _estimate_tokens(text)


def _estimate_tokens(text: str) -> int:
    count = len(_PIECES.findall(text))
    if not text.isascii():
        count += sum(found.lastindex or 0 for found in _RARE.finditer(text))
    return count


# A context is composed of the same lines for each question and each step.
_estimate_line = lru_cache(MAX_REMEMBERED_LINES)(_estimate_tokens)


def count_fitting_characters(text: str, tokens: int) -> int:
    """Return how many first characters of a text have at most about `tokens` tokens."""
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
