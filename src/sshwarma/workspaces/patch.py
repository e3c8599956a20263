"""Patches of several files in one text, in the form that models of OpenAI write.

A patch stands between `*** Begin Patch` and `*** End Patch` and consists of sections:
`*** Add File: PATH` with lines that begin with `+`; `*** Delete File: PATH`; and
`*** Update File: PATH`, which may have `*** Move to: PATH`, with chunks of lines that begin with a
space, `-` or `+`, each after a line `@@` that may name a line before it. Those of a chunk are whole
lines of the file, found as text_edit.py finds them. Nothing is done unless all of it can be.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from sshwarma.common.limits import MAX_PATCHED_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.workspaces.line_edit import insert_lines
from sshwarma.workspaces.paths import parse_path
from sshwarma.workspaces.text_edit import replace_lines
from sshwarma.workspaces.text_lines import count_lines
from sshwarma.world.errors import Conflict, Invalid, NotFound

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
END_OF_FILE: Final = "*** End of File"
_SECTION: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)")
_MOVE: Final = re.compile(r"\*\*\* Move to: (.+)")


@dataclass(slots=True)
class Chunk:
    """Lines to replace; `anchor` is a line before them, or ""."""

    anchor: str
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Section:
    """What a patch does to one file: `Add`, `Delete` or `Update`.

    Attributes:
        moved_to: the new path of an updated file; "" if it stays.
        lines: the lines of a new file.
    """

    action: str
    path: str
    moved_to: str = ""
    lines: list[str] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


def parse_patch(text: str) -> list[Section]:
    """Return the sections of a patch.

    Raises:
        Invalid: with the number of the line that does not fit.
    """
    lines = text.strip("\n").split("\n")
    if lines and lines[0].strip().startswith("```"):  # a fence around it means nothing
        lines = lines[1:-1] if lines[-1].strip() == "```" else lines[1:]
    if not lines or lines[0].strip() != BEGIN:
        raise Invalid(f"patch: must begin with {BEGIN!r}.")
    if lines[-1].strip() != END:
        raise Invalid(f"patch: must end with {END!r}.")
    sections: list[Section] = []
    numbered = enumerate(lines[1:-1], 2)
    for number, line in numbered:
        if found := _SECTION.fullmatch(line.rstrip()):
            sections.append(Section(found[1], parse_path(found[2].strip(), f"line {number}")))
        elif line.strip() or sections:
            if not sections:
                raise _line_error(number, line, "a section such as '*** Update File: PATH'")
            _take_line(sections[-1], number, line)
    if not sections:
        raise Invalid("patch: changes no file.")
    paths = [path for one in sections for path in (one.path, one.moved_to) if path]
    if twice := next((path for path, count in Counter(paths).items() if count > 1), None):
        raise Invalid(f"patch: has {shorten_name(twice)} twice. Put its chunks into one section.")
    for section in sections:
        section.chunks = [chunk for chunk in section.chunks if chunk.old or chunk.new]
        if section.action == "Update" and not section.chunks and not section.moved_to:
            raise Invalid(f"patch: the section of {shorten_name(section.path)} changes nothing.")
    return sections


def _take_line(section: Section, number: int, line: str) -> None:
    """Add a line to its section."""
    if section.action == "Add":
        if not line.startswith("+"):
            raise _line_error(number, line, "a line of the new file, which begins with +")
        section.lines.append(line[1:])
    elif section.action == "Delete":
        if line.strip():
            raise _line_error(number, line, "the next section: a deletion has no lines")
    elif (moved := _MOVE.fullmatch(line.rstrip())) and not section.chunks:
        section.moved_to = parse_path(moved[1].strip(), f"line {number}")
    elif line.startswith("@@"):
        section.chunks.append(Chunk(line[2:].strip().removesuffix("@@").strip()))
    elif line.strip() != END_OF_FILE:
        _take_chunk_line(section, number, line)


def _take_chunk_line(section: Section, number: int, line: str) -> None:
    if not section.chunks:
        section.chunks.append(Chunk(""))
    chunk = section.chunks[-1]
    sign, text = (line[0], line[1:]) if line else (" ", "")
    if sign not in " -+":
        raise _line_error(number, line, "a line that begins with a space, - or +")
    if sign != "+":
        chunk.old.append(text)
    if sign != "-":
        chunk.new.append(text)


def apply_chunks(text: str, section: Section) -> str:
    """Return the text of a file with the chunks of its section.

    Raises:
        NotFound, Conflict: if a chunk does not fit at one place, with its number.
        Invalid: if the chunks are too many for the size of the file.
    """
    if len(section.chunks) * len(text) > MAX_PATCHED_CHARACTERS:
        most = MAX_PATCHED_CHARACTERS // len(text)
        raise Invalid(
            f"patch: has {len(section.chunks)} chunks for {shorten_name(section.path)}, and a file"
            f" of its size takes at most {most}.",
            hint="Give several patches, or the whole file.",
        )
    for number, chunk in enumerate(section.chunks, 1):
        try:
            text = _apply_chunk(text, chunk)
        except (NotFound, Conflict) as error:
            where = f"chunk {number} of {shorten_name(section.path)}"
            raise type(error)(f"{where}: {error.message}", hint=error.hints) from error
    return text


def _apply_chunk(text: str, chunk: Chunk) -> str:
    start = _find_anchor(text, chunk.anchor) if chunk.anchor else 0
    if chunk.old == chunk.new:
        return text
    if chunk.old:
        return replace_lines(text, chunk.old, chunk.new, start=start).text
    # without an anchor nothing says where: at the end
    return insert_lines(text, start if chunk.anchor else count_lines(text), chunk.new)


def _find_anchor(text: str, anchor: str) -> int:
    """Return how many lines there are up to an anchor.

    Raises:
        NotFound: if no line is the anchor.
        Conflict: if several are.
    """
    places = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() == anchor]
    if not places:
        raise NotFound(f"no line is {shorten_name(anchor)!r}.")
    if len(places) > 1:
        raise Conflict(f"{len(places)} lines are {shorten_name(anchor)!r}.")
    return places[0]


def _line_error(number: int, line: str, expected: str) -> Invalid:
    return Invalid(f"patch: line {number} is {shorten_name(line)!r}, and must be {expected}.")
