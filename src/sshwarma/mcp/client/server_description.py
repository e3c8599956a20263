"""Description and keywords of a server, from its instructions and tool texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from sshwarma.common.limits import MAX_SERVER_SUMMARY_CHARACTERS
from sshwarma.tools.stemming import STOP_WORDS, extract_words, split_camel_case, stem

MAX_KEYWORDS: Final = 8
"""Keywords taken from the texts of a server."""

MAX_TOOL_SENTENCE_CHARACTERS: Final = 100

TOOL_NAME_COUNT: Final = 3
"""Count of a word in a tool's name or in the instructions; 1 is a word of a tool's description."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n")

_MARKDOWN_FRAME: Final = re.compile(
    r"^[ \t]*(?:#{1,6}(?:[ \t].*)?|[-*_=`~]{3,}.*|>)$"
    r"|^[ \t]*(?:[-*+>]|\d+\.)[ \t]+"
    r"|(?<!\S)[*`]+(?=\S)|(?<=\S)[*`]+(?!\w)",
    re.MULTILINE,
)
"""Headings, rules, fences, and the marks of lists, quotes, code and emphasis."""

_COMMON_WORDS: Final = """
    add append apply batch call change check clear close convert copy count create delete describe
    download edit execute export fetch find generate get import insert list load make manage
    modify move open perform put query read remove rename replace request reset restore retrieve
    return run save search send set show start stop store submit switch turn update upload use view
    write

    api argument available based by complete containing content current data default detail
    different entire existing first following format given id information input instance item json
    last like mcp multiple name new object option optional output parameter provided result returned
    server single specific specified string support text type user value via within
"""
"""Words of many tools, which say little about a server."""

_COMMON_ROOTS: Final = frozenset(stem(word) for word in _COMMON_WORDS.split())


def describe_server(name: str, instructions: str, tools: Sequence[tuple[str, str]]) -> str:
    """Describe a server in a line: by its instructions, or by what its tools do.

    Args:
        name: what to call a server that says nothing.
        instructions: the server's own, or an empty text.
        tools: names and descriptions of its tools.
    """
    text = " ".join(_MARKDOWN_FRAME.sub("", instructions).split())
    if not text:
        sentences = (_first_sentence(description) or tool for tool, description in tools)
        text = "; ".join(dict.fromkeys(sentence.rstrip(".") for sentence in sentences if sentence))
    return _cut_to_summary(text) if text else f"Tools of {name}"


def choose_keywords(
    name: str, instructions: str, tools: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """Choose the words that a server's tools are about, the most frequent first.

    Words that occur only in descriptions of tools do not count.
    """
    counts: Counter[str] = Counter()
    forms: dict[str, Counter[str]] = {}
    telling: set[str] = set()
    texts = [(name, TOOL_NAME_COUNT), (instructions, TOOL_NAME_COUNT)]
    for tool, description in tools:
        texts.append((split_camel_case(tool), TOOL_NAME_COUNT))
        texts.append((_first_sentence(description), 1))
    for text, count in texts:
        for word in extract_words(text):
            root = stem(word)
            if len(word) > 2 and word.isalpha() and not _is_common(word, root):
                counts[root] += count
                telling |= {root} if count == TOOL_NAME_COUNT else set()
                forms.setdefault(root, Counter())[word] += 1
    return tuple(
        forms[root].most_common(1)[0][0] for root, _ in counts.most_common() if root in telling
    )[:MAX_KEYWORDS]


def _is_common(word: str, root: str) -> bool:
    return word in STOP_WORDS or root in _COMMON_ROOTS


def _first_sentence(text: str) -> str:
    sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0].strip()
    return sentence[:MAX_TOOL_SENTENCE_CHARACTERS]


def _cut_to_summary(text: str) -> str:
    """Cut a line after a whole sentence, or else after a whole word."""
    if len(text) <= MAX_SERVER_SUMMARY_CHARACTERS:
        return text
    cut = text[: MAX_SERVER_SUMMARY_CHARACTERS - 1]
    end = max(cut.rfind(". "), cut.rfind("; "))
    if end >= MAX_SERVER_SUMMARY_CHARACTERS // 3:
        return cut[: end + (cut[end] == ".")]
    return f"{cut.rpartition(' ')[0] or cut}…"
