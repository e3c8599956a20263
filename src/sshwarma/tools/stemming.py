"""Words of a text: tokens, inflections and stems.

English only, because names and descriptions of tools nearly always are; words of other languages
match only as they are written.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from sshwarma.tools.stop_words import STOP_WORD_LIST

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+[+#]*")
"""Letters and digits, with the signs of `c++` and `c#`; each character of unspaced scripts."""

_APOSTROPHE: Final = re.compile(r"(?<=\w)['’](?=\w)")

_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_VOWELS: Final = frozenset("aeiouy")

MAX_WORD_LETTERS: Final = 64
"""Letters of a word that are compared."""

MAX_CACHED_WORDS: Final = 8_192
"""Words whose forms are cached; a world has a few thousand."""

STOP_WORDS: Final = frozenset(STOP_WORD_LIST.split())
"""Words that say nothing of what one is after."""


def extract_words(text: str) -> list[str]:
    """Return the words of a text, in order, normalized: case and width are ignored.

    Letters after the first MAX_WORD_LETTERS of a word are ignored too.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [word[:MAX_WORD_LETTERS] for word in _WORD.findall(_APOSTROPHE.sub("", plain))]


def split_camel_case(name: str) -> str:
    """Return a name with a space before each inner capital: `getUser` as `get User`."""
    return _INNER_CAPITAL.sub(" ", name)


@lru_cache(maxsize=MAX_CACHED_WORDS)
def inflections(word: str) -> frozenset[str]:
    """Return the word with its plural, past and -ing forms.

    Forms are generated, not stripped: `plan` gives `plans`, `planned`, `planning`, so that words
    which only share a prefix, such as `plane` or `planet`, do not count as forms of it.
    """
    forms = {word}
    if not (word.isascii() and word.isalpha()):
        return frozenset(forms)
    if len(word) < 3:  # `prs` is a plural, `its` and `has` are not
        is_short = len(word) == 2 and word[-1] not in _VOWELS and word not in STOP_WORDS
        return frozenset({word, word + "s"} if is_short else forms)
    if singular := _singular_of(word):
        forms.add(singular)
    elif word not in ("new", "news"):
        forms.add(_plural_of(word))
    last, before = word[-1], word[-2]
    if last == "e" and before != "e":
        forms |= {word + "d", word[:-1] + "ing"}
    elif last == "y" and before not in _VOWELS:
        forms |= {word[:-1] + "ied", word + "ing"}
    elif _VOWELS & set(word):
        is_closed = last not in "aeiouwxy" and before in "aeiou" and word[-3] not in "aeiou"
        if is_closed:
            forms |= {word + last + "ed", word + last + "ing"}
        if not is_closed or len(word) > 4:
            forms |= {word + "ed", word + "ing"}
    return frozenset(forms)


def _singular_of(word: str) -> str:
    """Return the singular of a likely plural; empty for other words."""
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return ""
    if word == "news":  # not the plural of `new`
        return ""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


def _plural_of(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


_ENDINGS: Final = ("ation", "ition", "ement", "ment", "ion", "ness", "able", "er", "or", "ly", "al")


@lru_cache(maxsize=MAX_CACHED_WORDS)
def stem(word: str) -> str:
    """Return the stem of a word, common to `deploy`, `deployed` and `deployment`.

    It overstems here and there. That is good enough for similarity; use `inflections` for whole
    words.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    word = _singular_of(word) or word
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWELS & set(rest) and not word.endswith("eed"):
            word = rest
            break
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    word = word.removesuffix("e") if len(word) > 3 else word
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word
