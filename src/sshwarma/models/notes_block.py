"""The notes block of a model's reply: parsed, hidden from people, and stored.

A reply may hold a block between `---STATE---` and `---END STATE---`, or after a heading
`### STATE` up to the next heading. A block without an end extends to the end of the reply. The last
of several blocks counts. A block in a code fence is a quotation and does not count. A reply without
a block leaves the notes unchanged, and so does one that only copies the template; a copied line of
it is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_NOTES_CHARACTERS
from sshwarma.models.control_tokens import restore_control_tokens

_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_BEGIN: Final = re.compile(r"\s{0,3}-{3}\s*STATE\s*-{3}\s*", re.IGNORECASE)
_END: Final = re.compile(r"\s{0,3}-{3}\s*END[ _]STATE\s*-{3}\s*", re.IGNORECASE)
_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s*STATE\s*:?\s*", re.IGNORECASE)
_ANY_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s+\S.*")

# A line of the template that a model was sent, copied as it is.
_PLACEHOLDER: Final = re.compile(
    r"\s*(Goal: <one line>|Context: <facts>|Resolved: <points>"
    r"|Technical Anchors: <names, paths, numbers, commands>)\s*",
    re.IGNORECASE,
)

# Prefixes of a line that may become the beginning of a block while the line streams.
_MAY_BEGIN: Final = re.compile(
    r"\s{0,3}(-{1,2}|-{3}\s*(S(T(A(T(E\s*-{0,3})?)?)?)?)?|#{1,6}\s*(S(T(A(T(E\s*:?)?)?)?)?)?)\s*",
    re.IGNORECASE,
)


_BLANK_LINES: Final = re.compile(r"\A(?:[^\S\n]*\n)+")

CODE_INDENTS: Final = ("    ", "\t")
"""Beginnings of a line of code in Markdown."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply's visible text and the notes it sets, if any.

    Attributes:
        text: The reply without notes blocks.
        notes: The notes, or None if the reply leaves them unchanged.
        cut_characters: Characters of the notes over MAX_NOTES_CHARACTERS.
    """

    text: str
    notes: str | None = None
    cut_characters: int = 0


def parse_reply(reply: str) -> ParsedReply:
    """Split a whole reply into visible text and notes."""
    text, blocks, _ = _split_blocks(restore_control_tokens(reply))
    if not blocks:
        return ParsedReply(trim_answer(text))
    lines = blocks[-1].strip().split("\n")
    state = "\n".join(line for line in lines if not _PLACEHOLDER.fullmatch(line)).strip()
    if not state and any(map(_PLACEHOLDER.fullmatch, lines)):
        return ParsedReply(trim_answer(text))
    return ParsedReply(
        trim_answer(text), state[:MAX_NOTES_CHARACTERS], max(0, len(state) - MAX_NOTES_CHARACTERS)
    )


def strip_notes_block(reply: str) -> str:
    """Return the visible part of a streaming reply.

    It leaves out blocks, and a last line that may become the beginning of one.
    """
    text = reply
    blocks: list[str] = []
    is_open = False
    if "state" in reply.lower():  # called 30 times a second: skip the parser for most replies
        text, blocks, is_open = _split_blocks(reply)
    if is_open:
        return text.rstrip()
    head, newline, last_line = text.rpartition("\n")
    if last_line and _MAY_BEGIN.fullmatch(last_line):
        return head + newline if newline else ""
    return text if not blocks else text.rstrip("\n")


def _split_blocks(reply: str) -> tuple[str, list[str], bool]:
    """Return the text outside blocks, the blocks, and whether the last one is open."""
    visible_lines: list[str] = []
    blocks: list[list[str]] = []
    fence = ""
    end_pattern: re.Pattern[str] | None = None  # pattern that ends the current block
    for line in reply.split("\n"):
        if end_pattern is not None:
            if end_pattern.fullmatch(line):
                if end_pattern is _ANY_HEADING:
                    visible_lines.append(line)
                end_pattern = None
            else:
                blocks[-1].append(line)
            continue
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif match:
            fence = match[1]
        elif _BEGIN.fullmatch(line) or _HEADING.fullmatch(line):
            end_pattern = _END if _BEGIN.fullmatch(line) else _ANY_HEADING
            blocks.append([])
            continue
        visible_lines.append(line)
    return "\n".join(visible_lines), ["\n".join(block) for block in blocks], end_pattern is not None


def trim_answer(text: str) -> str:
    """Return an answer without the blanks around it.

    Indentation of the first line stays if it makes a block of code, which calls nobody.
    """
    text = _BLANK_LINES.sub("", text.rstrip())
    return text if text.startswith(CODE_INDENTS) else text.lstrip()
