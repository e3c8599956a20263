"""How-to texts of the guide, and the search for the one that answers a question.

A text has a list of phrases in which people ask for it. A question is compared with them by the
stems of its words: rare words count more, and a phrase that occurs as a whole counts most. The
texts are few and the phrases are English, so no index and no vectors are needed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from sshwarma.tools.stemming import extract_words, stem

MIN_SCORE: Final = 0.45
"""Score of a text that answers a question; a question in the words of a phrase has 1.5 and more."""

UNION_WEIGHT: Final = 0.8
"""Weight of the words that a text shares with a question, whichever phrases they are from."""

BODY_WEIGHT: Final = 0.3
"""Weight of a word that occurs only in the body of a text; 1 for a word of its phrases."""

COMMON_WEIGHT: Final = 0.5
"""Weight of verbs that say little: `make`, `get`; 1 for other words."""

MIN_CORRECTED_LETTERS: Final = 5
"""Letters of a word whose spelling is corrected: shorter words are too near to others."""

MIN_CORRECTION_SIMILARITY: Final = 0.8
"""Similarity, from 0 to 1, of a word and its correction."""

MAX_QUESTION_WORDS: Final = 60
"""Words of a question that are compared, the first ones."""

# Shorter than the stop words of tools/stemming.py: `help`, `give`, `no` and `more` tell texts apart
# here. With those, 61, 74 and 114 of the 65, 86 and 120 questions of the tests get the right text,
# and 64, 82 and 119 with these.
_IGNORED_WORDS: Final = frozenset(
    """a an the i im id ill ive me my mine we us our you your it its is are was were be been being
    am do does did done doing how can could would should will shall may might must to of in on at
    for with as and or but if then than so just please want wants need like any that this these
    those there here have has had hello hi hey thanks thank let lets into from by about guide
    theres what whats s t m re ve much way possible able what which who when where why mean means
    meaning explain exactly actually really some same too also now
    yet still ever maybe one ones thing things""".split()  # noqa: SIM905 - a long list of strings reads worse
)

_COMMON_WORDS: Final = frozenset(
    stem(word)
    for word in """make get use add give put take set go see show find new one other work start
    people thing somebody someone something know know change my""".split()  # noqa: SIM905
)

_SAME_WORDS: Final = {
    word: canonical
    for canonical, words in {
        "model": "llm llms ai ais bot bots gpt qwen opus sonnet assistant chatbot models",
        "friend": "friends colleague colleagues coworker coworkers teammate teammates buddy buddies"
        " mate mates stranger strangers guest guests team members",
        "message": "messages msg msgs",
        "delete": "remove erase trash discard wipe",
        "picture": "image images photo photos pictures png jpeg jpg gif",
        "colour": "color colors colours",
        "server": "servers",
        "answer": "reply respond response answers replies responds",
        "command": "commands verb verbs",
        "directory": "folder",
        "people": "humans human persons person users user bob alice",
    }.items()
    for word in words.split()
}

_HEADING: Final = re.compile(r"^## ([a-z-]+): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HowTo:
    """A text of the guide: how to do something here, or what something is.

    Attributes:
        name: its name, such as `private-room`.
        title: its heading.
        phrases: the words in which people ask for it.
        text: the answer, with lines of commands indented by two columns.
    """

    name: str
    title: str
    phrases: tuple[str, ...]
    text: str


def parse_how_tos(source: str) -> tuple[HowTo, ...]:
    """Read the texts of `embedded/how-to.md`.

    Each has a heading `## name: Title`, lines of phrases that begin with `?`
    and are separated by semicolons, and the answer.
    """
    parts = _HEADING.split(source)[1:]
    how_tos = []
    for name, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = body.strip("\n").split("\n")
        asked = ";".join(line.removeprefix("?") for line in lines if line.startswith("?"))
        phrases = tuple(phrase.strip() for phrase in asked.split(";"))
        text = _unwrap_text([line for line in lines if not line.startswith("?")])
        if text.startswith(" "):
            text = f"{title}:\n{text}"
        how_tos.append(HowTo(name, title, tuple(filter(None, phrases)), text))
    return tuple(how_tos)


def _unwrap_text(lines: Sequence[str]) -> str:
    """Join a paragraph's lines, for the terminal to wrap; keep the indented lines."""
    joined: list[str] = []
    for line in lines:
        if joined and not line.startswith(" ") and not joined[-1].startswith(" "):
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return "\n".join(joined)


class HowToSearch:
    """Finds the text that answers a question."""

    def __init__(self, how_tos: Sequence[HowTo]) -> None:
        self._how_tos = tuple(how_tos)
        phrase_words = [
            [_stem_words(extract_words(phrase)) for phrase in (how_to.title, *how_to.phrases)]
            for how_to in self._how_tos
        ]
        self._sequences = [
            [tuple(extract_words(phrase)) for phrase in how_to.phrases] for how_to in self._how_tos
        ]
        self._words = [frozenset().union(*phrases) for phrases in phrase_words]
        self._body_words = [_stem_words(extract_words(how_to.text)) for how_to in self._how_tos]
        spellings: dict[str, set[str]] = {}
        for word in (*_SAME_WORDS, *(word for seq in self._sequences for p in seq for word in p)):
            spellings.setdefault(word[0], set()).add(word)
        self._spellings = spellings
        counts = Counter(word for words in self._words for word in words)
        total = len(self._how_tos)
        self._weights = {word: math.log(1 + total / count) for word, count in counts.items()}
        self._unknown_weight = math.log(1 + total)
        self._weighed_phrases = [
            [(phrase, sum(map(self._weight, phrase))) for phrase in phrases]
            for phrases in phrase_words
        ]

    def find(self, question: str) -> HowTo | None:
        """Return the text that answers a question best; None if none is near enough.

        It takes some milliseconds, and up to a third of a second for MAX_QUESTION_WORDS unknown
        words: call it in a thread.
        """
        said = tuple(extract_words(question))
        words = _stem_words(map(self._correct_spelling, said[:MAX_QUESTION_WORDS]))
        for number, sequences in enumerate(self._sequences):
            if said in sequences:
                return self._how_tos[number]
        if not words:
            return None
        scores = [self._score(number, words) for number in range(len(self._how_tos))]
        best = max(range(len(scores)), key=lambda number: scores[number], default=None)
        if best is None or scores[best] < MIN_SCORE:
            return None
        return self._how_tos[best]

    def _correct_spelling(self, word: str) -> str:
        """Return the nearest word of the phrases for a longer word that none has."""
        if len(word) < MIN_CORRECTED_LETTERS or word in _IGNORED_WORDS:
            return word
        known = self._spellings.get(word[0], set())
        if word in known:
            return word
        return next(
            iter(get_close_matches(word, sorted(known), 1, MIN_CORRECTION_SIMILARITY)), word
        )

    def _score(self, number: int, words: frozenset[str]) -> float:
        """Return the nearest phrase's similarity, and the share of words that occur."""
        asked = sum(map(self._weight, words))
        nearest = max(
            2 * sum(map(self._weight, words & phrase)) / (asked + weight)
            for phrase, weight in self._weighed_phrases[number]
        )
        shared = sum(self._weight_in(number, word) for word in words)
        return nearest + UNION_WEIGHT * shared / asked

    def _weight_in(self, number: int, word: str) -> float:
        if word in self._words[number]:
            return self._weight(word)
        return BODY_WEIGHT * self._weight(word) if word in self._body_words[number] else 0.0

    def _weight(self, word: str) -> float:
        weight = self._weights.get(word, self._unknown_weight)
        return COMMON_WEIGHT * weight if word in _COMMON_WORDS else weight


def _stem_words(words: Iterable[str]) -> frozenset[str]:
    kept = (_SAME_WORDS.get(word, word) for word in words if word not in _IGNORED_WORDS)
    return frozenset(map(stem, kept))
