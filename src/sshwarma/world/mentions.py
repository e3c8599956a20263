"""Mentions in a text: `@name`, or the start of a name that no other agent has.

A name in code or in a quotation mentions nobody. A model mentions somebody only with a line that
begins with the name: it repeats names that it has read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from sshwarma.common.limits import MAX_MENTION_SCAN_CHARACTERS, MIN_MENTION_PREFIX_CHARACTERS
from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.world.agents import Agent, AgentDirectory

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTED_LINE: Final = re.compile(r" {0,3}>")
_BACKTICKS: Final = re.compile("`++")
# No search for a closing mark goes beyond the next opening one, so that each is linear in the text.
_SPANS: Final = r"\u201c[^\u201c\u201d]++\u201d|\u00ab[^\u00ab\u00bb]++\u00bb"
_QUOTATION: Final = re.compile(rf'{_SPANS}|(?<!\w)"[^"]++"')
_LONG_QUOTATION: Final = re.compile(
    # A mark that opens has no white space after it, one that closes has none before it: so the
    # marks of two lines that are each alone make no quotation.
    rf'{_SPANS}|(?<!\w)"(?!\s)[^"]++(?<!\s)"(?!\w)'
)
_HTML_QUOTATION: Final = re.compile(
    r"<(code|pre|blockquote|q)\b[^<>]*+>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL
)
_MENTION: Final = re.compile(r"(?<![\w.@-])@([a-z][a-z0-9_-]*)", re.IGNORECASE)


def extract_mentions(text: str) -> tuple[str, ...]:
    """Return the words after `@` in order, lower-case, each once.

    In `a@b` there is no mention. Only the first MAX_MENTION_SCAN_CHARACTERS of the text are read.
    """
    return _extract_mentions(text[:MAX_MENTION_SCAN_CHARACTERS])


@lru_cache(maxsize=16)  # each viewer of a new row asks for the same text
def _extract_mentions(text: str) -> tuple[str, ...]:
    words = (word.lower().rstrip("-_") for word in _MENTION.findall(strip_quotations(text)))
    return tuple(dict.fromkeys(word for word in words if word))


def strip_quotations(text: str) -> str:
    """Return a text without Markdown code, block quotes and text in quotation marks.

    A quotation ends in its paragraph: an opening mark without a closing one there begins none.
    """
    if "@" not in text:
        return text
    paragraphs: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if match and (match[1][0] == "~" or "`" not in line[match.end() :]):
            fence = match[1]
            paragraphs.append([])
        elif _QUOTED_LINE.match(line) or not line.strip():
            paragraphs.append([])
        else:
            paragraphs[-1].append(_QUOTATION.sub(" ", _strip_code_spans(line)))
    return "\n".join(
        _LONG_QUOTATION.sub(" ", _strip_code_spans("\n".join(lines)))
        for lines in paragraphs
        if lines
    )


def _strip_code_spans(text: str) -> str:
    """Return a text without code, which as many backticks close as open it."""
    runs = [match.span() for match in _BACKTICKS.finditer(text)]
    closing: list[int | None] = []
    later: dict[int, int] = {}  # the next run of each length
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing.append(later.get(length))
        later[length] = number
    closing.reverse()
    parts, number, end = [], 0, 0
    while number < len(runs):
        last = closing[number]
        if last is not None:
            parts.append(text[end : runs[number][0]])
            end, number = runs[last][1], last
        number += 1
    return " ".join([*parts, text[end:]])


def find_called_agents(text: str, agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents that a model's text calls: a line of it begins with `@name`.

    An indented line and one in an HTML element of code or of a quotation call nobody.
    """
    plain = _HTML_QUOTATION.sub(" ", strip_quotations(text[:MAX_MENTION_SCAN_CHARACTERS]))
    calls = [match[0] for line in plain.split("\n") if (match := _MENTION.match(line))]
    return find_mentioned_agents("\n".join(calls), agents)


def write_names_plainly(text: str, agents: AgentDirectory) -> str:
    """Return a text without the `@` of agents' names: for models, which copy it."""
    if "@" not in text:
        return text

    def write(match: re.Match[str]) -> str:
        word = match[1].rstrip("-_")
        known = agents.find_by_name(match[1]) or agents.find_by_name(word)
        return match[1] if known or _find_by_prefix(word.lower(), agents) else match[0]

    return _MENTION.sub(write, text)


def _find_by_prefix(word: str, agents: Iterable[Agent]) -> Agent | None:
    """Return the only agent whose name begins with a word; None if it is too short."""
    if len(word) < MIN_MENTION_PREFIX_CHARACTERS:
        return None
    named = [agent for agent in agents if agent.name.startswith(word)]
    return named[0] if len(named) == 1 else None


def split_addressees(speaker: str, text: str, agents: AgentDirectory) -> tuple[str, str]:
    """Return who says a text to whom, and the text without the names at its start.

    "@m1 delete it" of alice is "alice to m1" and "delete it": written plainly, `m1` would read as
    the object. Only whole names count; a text that is only names stays.
    """
    names: list[str] = []
    rest = text
    while (match := _MENTION.match(rest)) and (agent := agents.find_by_name(match[1])):
        names.append(agent.name)
        rest = rest[match.end() :].lstrip(" ,:\n")
    if not names or not rest:
        return speaker, text
    return f"{speaker} to {', '.join(dict.fromkeys(names))}", rest


def strip_address(text: str, name: str) -> str:
    """Return a text without the mention of an agent at its start.

    "@qwen, hello" becomes "hello". A text that is only the mention stays.
    """
    match = _MENTION.match(text)
    if match is None or not name.startswith(match[1].lower().rstrip("-_")):
        return text
    return text[match.end() :].lstrip(" ,:\n") or text


def strip_own_name(text: str, name: str) -> str:
    """Return a model's text without its own name as the speaker's.

    "qwen: hello" becomes "hello". A text that is only the name stays.
    """
    own = rf"(?:\*\*)?@?{re.escape(name)}(?:\*\*)?:(?:\*\*)?(?=\s)\s*"
    return re.sub(rf"\A\s*(?:{own})+", "", text, flags=re.IGNORECASE) or text


def has_mention(text: str, name: str) -> bool:
    """Return whether a text mentions an agent of that name."""
    return any(
        word == name or (len(word) >= MIN_MENTION_PREFIX_CHARACTERS and name.startswith(word))
        for word in extract_mentions(text)
    )


def describe_unknown_mentions(text: str, agents: Iterable[Agent]) -> str:
    """Explain why mentions in a text call nobody; "" if none is in doubt.

    These are the one that begins the text, and any that is near the name of a model.
    """
    if "@" not in text:
        return ""
    known = list(agents)
    first = _describe_first_mention(text, known)
    if first:
        return first
    models = [agent.name for agent in known if agent.kind == "model"]
    for word in extract_mentions(text):
        near = [] if _is_known(word, known) else find_near_names(word, models)
        if near:
            return _describe_unknown(word, near)
    return ""


def _is_known(word: str, agents: Iterable[Agent]) -> bool:
    return any(agent.name.startswith(word) for agent in agents)


def _describe_unknown(word: str, near: Iterable[str]) -> str:
    suggestion = suggest_names([f"@{name}" for name in near])
    return f"Unknown agent {word}: nobody was called. {suggestion}".rstrip()


def _describe_first_mention(text: str, agents: Sequence[Agent]) -> str:
    match = _MENTION.match(text)
    word = match[1].lower().rstrip("-_") if match is not None else ""
    names = sorted(agent.name for agent in agents if word and agent.name.startswith(word))
    if not word or word in names:
        return ""
    if not names:
        return _describe_unknown(word, find_near_names(word, [agent.name for agent in agents]))
    if len(word) < MIN_MENTION_PREFIX_CHARACTERS:
        minimum = MIN_MENTION_PREFIX_CHARACTERS
        return f"@{word} is too short: type at least {minimum} letters of {' or '.join(names[:4])}."
    if len(names) > 1:
        return f"@{word} is ambiguous: type more of {' or '.join(names[:4])}."
    return ""


def find_mentioned_agents(text: str, agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents that a text mentions, in its order.

    A prefix of several names is ignored.
    """
    by_name = {agent.name: agent for agent in agents}
    matches: dict[str, Agent] = {}
    for word in extract_mentions(text):
        agent = by_name.get(word) or _find_by_prefix(word, by_name.values())
        if agent is not None:
            matches[agent.name] = agent
    return list(matches.values())
