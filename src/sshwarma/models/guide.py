"""The guide: a rule-based backend for machines without a model.

It answers from the help texts and its tools. If it finds no answer, it says that it is not a
language model.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from sshwarma.models.backend import (
    Backend,
    OfferedTool,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
)

GUIDE_GREETING: Final = (
    "I am the guide. I follow rules; I am not a language model. I can look around for you and"
    " answer from the help. Ask me who is here, where you can go, what is equipped, or how to do"
    " something."
)

MAX_HELP_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class GuideRule:
    """Maps questions to a tool: `pattern` matches one, `lead` begins the answer."""

    tool: str
    lead: str
    pattern: re.Pattern[str]


def _make_rule(tool: str, says: str, *ways: str) -> GuideRule:
    return GuideRule(f"sshwarma:{tool}", says, re.compile("|".join(ways), re.IGNORECASE))


GUIDE_RULES: Final = (
    _make_rule(
        "who",
        "",
        r"\bwho\b.*\b(here|there|around|online|connected)\b",
        r"\bwho\?$",
    ),
    _make_rule(
        "inventory",
        "",
        r"\bequip(ped|ment)?\b",
        r"\binventory\b",
        r"\b(what|which) tools\b",
    ),
    _make_rule("rooms", "", r"\b(which|what|list|other)\b.*\brooms?\b"),
    _make_rule(
        "exits",
        "",
        r"\bexits?\b",
        r"\bwhere (can|could) (i|we) go\b",
        r"\bway out\b",
    ),
    _make_rule(
        "look",
        "You are here:",
        r"\bwhere am i\b",
        r"\blook around\b",
        r"\bwhat is (here|this place|this room)\b",
        r"\bdescribe\b.*\broom\b",
    ),
    _make_rule("journal", "", r"\bdeci(ded|sions?)\b", r"\bjournal\b", r"\bnotes?\b"),
    _make_rule(
        "history",
        "Lately:",
        r"\bwhat (was|has been) said\b",
        r"\bwhat did i miss\b",
        r"\bcatch me up\b",
    ),
    _make_rule("vibe", "", r"\bvibe\b", r"\bmood\b"),
)

_WORD_PATTERN: Final = re.compile(r"[a-z]{3,}")
_COMMON_WORDS: Final = frozenset(
    """the and for you are how can does what who when where why with this that from have has was
    will would could should into about please guide there here not but all any get its""".split()  # noqa: SIM905 - a list of fifty strings reads worse
)


class GuideBackend(Backend):
    """Backend of the built-in guide; `topics` are help texts by name."""

    model = "guide"
    context_tokens = 0
    provider_kind = "guide"
    result_tokens = 0
    last_failure = None
    is_failing = False

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = topics

    @override
    async def retire(self) -> None:
        """Do nothing: the guide has no connections."""

    @override
    async def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            for result in request.completed_calls:
                for part in self._format_result(result.call.name, result.text, result.is_error):
                    yield part
            return
        offers = {offer.canonical: offer for offer in request.tools}
        for rule in GUIDE_RULES:
            if rule.pattern.search(request.text):
                offer = offers.get(rule.tool)
                if offer is None:
                    yield TextDelta(f"I need {rule.tool}, which is not equipped here.")
                    yield TextDelta(
                        f" Anyone with the build right can type /equip room {rule.tool}"
                    )
                else:
                    yield _make_call(offer, request.text)
                return
        answer = self._find_help(request.text)
        for word in re.findall(r"\S+\s*", answer):
            yield TextDelta(word)

    def _format_result(self, name: str, text: str, failed: bool) -> list[StreamPart]:
        if failed:
            return [TextDelta(f"That did not work: {text}")]
        intro = next((e.lead for e in GUIDE_RULES if e.tool.split(":")[1] in name), "")
        deltas = [TextDelta(f"{intro}\n")] if intro else []
        return [*deltas, *(TextDelta(line) for line in text.splitlines(keepends=True))]

    def _find_help(self, question: str) -> str:
        """Return the help paragraph that shares most uncommon words with the question.

        An example that follows the paragraph is included.
        """
        question_words = _stem_words(question) - _COMMON_WORDS
        best, best_score, best_topic = "", 0.0, ""
        for topic, text in self._topics.items():
            _title, *paragraphs = text.strip().split("\n\n")
            for paragraph, next_paragraph in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
                example = next_paragraph if next_paragraph.startswith("  ") else ""
                words = _stem_words(f"{paragraph} {example}")
                score = len(question_words & words) + 0.5 * (topic in question_words)
                if score > best_score:
                    best, best_score = (
                        f"{_unwrap_paragraph(paragraph)}\n{example}".strip("\n"),
                        score,
                    )
                    best_topic = topic
        if best_score < 1:
            return GUIDE_GREETING
        lines = best.splitlines()[:MAX_HELP_LINES]
        return "\n".join([*lines, f"(from /help {best_topic})"])


def _stem_words(text: str) -> set[str]:
    """Return a text's words without a final s: `add a key` matches `adds keys`."""
    return {word.rstrip("s") for word in _WORD_PATTERN.findall(text.lower())}


def _unwrap_paragraph(paragraph: str) -> str:
    """Join a paragraph into one line for the terminal to wrap; keep indented text."""
    if paragraph.startswith("  "):
        return paragraph
    return " ".join(paragraph.split("\n"))


def _make_call(offer: OfferedTool, question: str) -> ToolCall:
    arguments: dict[str, object] = {}
    if offer.canonical == "sshwarma:inventory" and re.search(
        r"\bcan\b|\bcould\b|\ball\b", question
    ):
        arguments["inventory"] = "all"
    return ToolCall("1", offer.name, arguments)
