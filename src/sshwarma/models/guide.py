"""The guide: answers without a model, so that the whole path runs on a fresh machine.

It knows the help texts and the tools it has, looks things up with them, and says that it is no
model when it has nothing to say.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

from sshwarma.models.backend import Call, Offer, Part, Request, Text

GREETING: Final = (
    "I am the guide: no model, only rules. I can look around for you and answer from the help."
    " Ask me who is here, where you could go, what is equipped, or how to do something."
)

MOST_HELP_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Errand:
    """A kind of question: the tool that answers it, how the answer begins, and how people ask."""

    tool: str
    says: str
    asks: re.Pattern[str]


def _errand(tool: str, says: str, *ways: str) -> Errand:
    return Errand(f"sshwarma:{tool}", says, re.compile("|".join(ways), re.IGNORECASE))


ERRANDS: Final = (
    _errand(
        "who",
        "Connected now:",
        r"\bwho\b.*\b(here|there|around|online|connected)\b",
        r"\bwho\?$",
    ),
    _errand(
        "inventory",
        "Here is what there is:",
        r"\bequip(ped|ment)?\b",
        r"\binventory\b",
        r"\b(what|which) tools\b",
    ),
    _errand("rooms", "The rooms:", r"\b(which|what|list|other)\b.*\brooms?\b"),
    _errand(
        "exits",
        "From here:",
        r"\bexits?\b",
        r"\bwhere (can|could) (i|we) go\b",
        r"\bway out\b",
    ),
    _errand(
        "look",
        "You are here:",
        r"\bwhere am i\b",
        r"\blook around\b",
        r"\bwhat is (here|this place|this room)\b",
        r"\bdescribe\b.*\broom\b",
    ),
    _errand("journal", "From the journal:", r"\bdeci(ded|sions?)\b", r"\bjournal\b", r"\bnotes?\b"),
    _errand(
        "history",
        "Lately:",
        r"\bwhat (was|has been) said\b",
        r"\bwhat did i miss\b",
        r"\bcatch me up\b",
    ),
    _errand("vibe", "", r"\bvibe\b", r"\bmood\b"),
)

_WORDS: Final = re.compile(r"[a-z]{3,}")
_COMMON: Final = frozenset(
    """the and for you are how can does what who when where why with this that from have has was
    will would could should into about please guide there here not but all any get its""".split()  # noqa: SIM905 - a list of fifty strings reads worse
)


class Guide:
    """The backend of the built-in agent. `topics` are help texts by name."""

    model = "guide"
    context_tokens = 0

    def __init__(self, topics: Mapping[str, str]) -> None:
        self._topics = topics

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.done:
            for done in request.done:
                for part in self._report(done.call.name, done.text, done.failed):
                    yield part
            return
        offers = {offer.canonical: offer for offer in request.offers}
        for errand in ERRANDS:
            if errand.asks.search(request.text):
                offer = offers.get(errand.tool)
                if offer is None:
                    yield Text(f"I would need {errand.tool}, which is not equipped here.")
                    yield Text(f" Somebody who may build can say /equip room {errand.tool}")
                else:
                    yield _call(offer, request.text)
                return
        answer = self._from_help(request.text)
        for piece in re.findall(r"\S+\s*", answer):
            yield Text(piece)

    def _report(self, name: str, text: str, failed: bool) -> list[Part]:
        if failed:
            return [Text(f"That did not work: {text}")]
        says = next((e.says for e in ERRANDS if e.tool.split(":")[1] in name), "")
        lead = [Text(f"{says}\n")] if says else []
        return [*lead, *(Text(line) for line in text.splitlines(keepends=True))]

    def _from_help(self, question: str) -> str:
        """The paragraph of the help that has most of the question's rarer words, with the example
        that follows it."""
        asked = _stems(question) - _COMMON
        best, best_score, best_topic = "", 0.0, ""
        for topic, text in self._topics.items():
            _title, *paragraphs = text.strip().split("\n\n")
            for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
                example = following if following.startswith("  ") else ""
                found = _stems(f"{paragraph} {example}")
                score = len(asked & found) + 0.5 * (topic in asked)
                if score > best_score:
                    best, best_score = f"{_unwrapped(paragraph)}\n{example}".strip("\n"), score
                    best_topic = topic
        if best_score < 1:
            return GREETING
        lines = best.splitlines()[:MOST_HELP_LINES]
        return "\n".join([*lines, f"(from /help {best_topic})"])


def _stems(text: str) -> set[str]:
    """The words of a text, singular: enough to match `add a key` with `adds keys`."""
    return {word.rstrip("s") for word in _WORDS.findall(text.lower())}


def _unwrapped(paragraph: str) -> str:
    """A paragraph on one line, for the room to wrap; what is indented keeps its lines."""
    if paragraph.startswith("  "):
        return paragraph
    return " ".join(paragraph.split("\n"))


def _call(offer: Offer, question: str) -> Call:
    arguments: dict[str, object] = {}
    if offer.canonical == "sshwarma:inventory" and re.search(
        r"\bcan\b|\bcould\b|\ball\b", question
    ):
        arguments["what"] = "all"
    return Call("1", offer.name, arguments)
