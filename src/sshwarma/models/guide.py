"""The guide: a rule-based backend that answers newcomers.

It works also on machines without a model. It looks around with tools for questions about the
present, and answers how-to questions from `embedded/how-to.md`, then from the help. If it finds no
answer, it says that it is not a language model.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from typing_extensions import override

from sshwarma.models.backend import (
    GUIDE_KIND,
    Backend,
    OfferedTool,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
)
from sshwarma.models.how_to import HowTo, HowToSearch
from sshwarma.wrap.profiles import ContextProfile

GUIDE_GREETING: Final = """\
Hello {name}. I am the guide: I follow rules, I am not a language model. Three things to try:
  /look                                who is in this room, and where you can go
  hello everybody                      what you type without a slash is said to the room
  @guide how do I make a room          ask me, in your own words
/help start has the first verbs."""

GUIDE_NO_ANSWER: Final = """\
I found no answer to that; I follow rules and am not a language model. Ask in a few words:
  @guide how do I invite a friend
  @guide what does equip mean
  @guide who is here
/help lists all verbs, /models the language models that answer here."""

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
        r"\b(any|some)(one|body) (else )?(here|there|around|online)\b",
        r"^(is|are) [\w@-]+( \w+)? (here|there|around|online|connected)\b",
        r"^who\W*$",
    ),
    _make_rule(
        "inventory",
        "",
        r"\bwhat( can \w+| is| do \w+ have)? (equip|equipped)\b",
        r"\b(what|which|list|show)\b.*\btools\b",
        r"^inv(entory)?\W*$",
    ),
    _make_rule("rooms", "", r"\b(which|what|list|show|other|all)\b.*\brooms\b(?! (for|mean))"),
    _make_rule(
        "exits",
        "",
        r"\b(what|which|list|show)\b.*\bexits?\b",
        r"\bwhere (can|could) (i|we) go\b",
        r"\bway out\b",
    ),
    _make_rule(
        "look",
        "You are here:",
        r"\bwhere am i\b",
        r"\blook around\b",
        r"\bwhat is (here|this room)\b",
        r"^describe\b.*\broom\b",
    ),
    _make_rule(
        "journal",
        "",
        r"\bwhat\b.*\bdecided\b",
        r"\b(which|what|list|show)\b.*\b(decisions|notes|ideas|milestones)\b",
        r"^(journal|notes)\W*$",
    ),
    _make_rule(
        "history",
        "Lately:",
        r"\bwhat (was|has been) said\b",
        r"\bwhat (did|have) i miss",
        r"\bcatch (me|us) up\b",
    ),
    _make_rule("vibe", "", r"\bwhat.* (vibe|mood)\b(?! (is|mean))"),
)

_ASKS_HOW: Final = re.compile(
    r"\b(how|why|explain|means?|meaning|find out|what(s|'s| is| are| does) (an?|the)? ?\w+\W*$)"
    r"|\bcan i\b(?! (go|equip|see who))",
    re.IGNORECASE,
)
"""A question for a text: how to do something, or what something is. It is not for a tool."""

_MENTION: Final = re.compile(r"(?<!\S)@guide\b[,:]?", re.IGNORECASE)

_GREETING: Final = re.compile(
    r"\W*(hello|hi|hey|hej|hallo|hola|moin|yo|help( me)?|good (morning|evening|day))\b"
    r"( (there|guide|all|everyone|everybody))?\W*",
    re.IGNORECASE,
)

MIN_SHARED_WORDS: Final = 2
"""Words that a paragraph of the help must share with a question to answer it."""

# Few words and a plain plural, where tools/stemming.py has many and stems: with those, 170 of the
# 271 questions of the tests share too few words with each paragraph of the help, 146 with these.
_WORD_PATTERN: Final = re.compile(r"[a-z]{3,}")
_COMMON_WORDS: Final = frozenset(
    """the and for you are how can does what who when where why with this that from have has was
    will would could should into about please guide there here not but all any get its""".split()  # noqa: SIM905 - a list of fifty strings reads worse
)


class GuideBackend(Backend):
    """Backend of the built-in guide; `topics` are help texts by name."""

    model = "guide"
    context_tokens = 0
    provider_kind = GUIDE_KIND
    result_tokens = 0
    last_failure = None
    is_failing = False
    profile = ContextProfile(has_covered_tools=True)

    def __init__(self, topics: Mapping[str, str], how_tos: Sequence[HowTo] = ()) -> None:
        self._topics = topics
        self._how_tos = how_tos

    @cached_property
    def _search(self) -> HowToSearch:
        """Built at the first question, in its thread: that takes tens of milliseconds."""
        return HowToSearch(self._how_tos)

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
        rule = find_rule(request.text)
        if rule is None:
            answer = await asyncio.to_thread(self._find_answer, request.text, request.asker)
            for word in re.findall(r"\S+\s*|\s+", answer):
                yield TextDelta(word)
            return
        offer = next((tool for tool in request.tools if tool.canonical == rule.tool), None)
        if offer is None:
            yield TextDelta(f"I need {rule.tool}, which is not equipped here.")
            yield TextDelta(f" Anyone with the build right can type /equip room {rule.tool}")
        else:
            yield _make_call(offer, request.text)

    def _format_result(self, name: str, text: str, failed: bool) -> list[StreamPart]:
        if failed:
            return [TextDelta(f"That did not work: {text}")]
        intro = next((e.lead for e in GUIDE_RULES if e.tool.split(":")[1] in name), "")
        deltas = [TextDelta(f"{intro}\n")] if intro else []
        return [*deltas, *(TextDelta(line) for line in text.splitlines(keepends=True))]

    def _find_answer(self, text: str, asker: str) -> str:
        """Return the how-to that answers a question, or else a paragraph of the help."""
        question = _strip_mentions(text)
        if not question.strip() or _GREETING.fullmatch(question):
            return GUIDE_GREETING.format(name=asker)
        how_to = self._search.find(question)
        return how_to.text if how_to is not None else self._find_help(question)

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
        if best_score < MIN_SHARED_WORDS:
            return GUIDE_NO_ANSWER
        lines = best.splitlines()[:MAX_HELP_LINES]
        return "\n".join([*lines, f"(from /help {best_topic})"])


def find_rule(text: str) -> GuideRule | None:
    """Return the rule for a question that a tool answers; None for other questions."""
    question = _strip_mentions(text)
    if _ASKS_HOW.search(question):
        return None
    return next((rule for rule in GUIDE_RULES if rule.pattern.search(question)), None)


def _strip_mentions(text: str) -> str:
    """Return a question without the name that it begins or ends with."""
    return _MENTION.sub(" ", text).strip()


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
