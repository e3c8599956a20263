"""Results of `/mem`, and their views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from sshwarma.common.limits import (
    MAX_ROW_PART_CHARACTERS,
    MAX_SHOWN_MATCH_CHARACTERS,
    MAX_SHOWN_MEMORY_KEYS,
    MAX_SHOWN_VALUE_LINES,
)
from sshwarma.common.lines import number_text_lines, read_line_range
from sshwarma.common.shorten import count_rest, shorten_name
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.tools.text_search import MatchedLine, TextMatches
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.views import (
    draw_columns,
    draw_hint,
    format_clock,
    format_count,
    view,
    view_for_reader,
)
from sshwarma.world.memory import KeyEntry
from sshwarma.world.reader import Reader

CHARACTERS_BEFORE_MATCH: Final = 200
"""Characters before the first match in a long line that a terminal shows."""


@dataclass(frozen=True, slots=True)
class MemoryValue:
    """The value of a key; it is "" if the key was not found.

    Attributes:
        project: path of the project; None for session memory.
        by: who set it.
        set_at: when, in Unix milliseconds.
        version: number of the value: the key's first one is 1.
        sentence: a value that is not shown: where it went, or that it is missing.
    """

    key: str
    value: str
    found: bool
    project: str | None
    by: str | None = None
    set_at: int | None = None
    version: int | None = None
    number_lines: Annotated[SkipJsonSchema[bool], Field(exclude=True)] = False
    sentence: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""

    @property
    def exact_text(self) -> str:
        """The text for programs: the value as it is, or with the numbers of its lines."""
        if self.sentence:
            return self.sentence
        return number_text_lines(self.value) if self.number_lines else self.value


@view(MemoryValue)
def draw_memory_value(result: MemoryValue) -> Block:
    """Draw a value with the numbers of its lines, and who set it."""
    if result.sentence:
        return block(line(result.sentence, hang=2))
    facts = [format_size(len(result.value.encode()))]
    if result.by and result.set_at is not None:
        facts.append(f"set by {result.by} at {format_clock(result.set_at)}")
    if result.version is not None and result.version > 1:
        facts.append(f"version {result.version}")
    shown = read_line_range(result.value[:MAX_ROW_PART_CHARACTERS], 1, MAX_SHOWN_VALUE_LINES)
    numbered = number_text_lines(shown).removesuffix("\n")
    lines = list(text_lines(numbered, indent=2)) if shown else []
    excess = len(result.value) - len(shown)
    if excess:
        lines.append(line(("dim", f"… {excess:,} more characters; a pipe gets them all.")))
    head = line(("thing", result.key), ("dim", f"  {', '.join(facts)}"), hang=2)
    return block(head, *lines)


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A text about the value of a key: a part of it, a count, a report.

    `is_part`: whether it is a part of the value, which a pipe gets without a line end of ours.
    """

    key: str
    text: str
    is_part: Annotated[SkipJsonSchema[bool], Field(exclude=True)] = False

    @property
    def exact_text(self) -> str:
        """The text for programs."""
        return self.text


@view(MemoryText)
def draw_memory_text(result: MemoryText) -> Block:
    """Draw the text, up to MAX_ROW_PART_CHARACTERS."""
    excess = len(result.text) - MAX_ROW_PART_CHARACTERS
    lines = list(text_lines(result.text[:MAX_ROW_PART_CHARACTERS])) if result.text else []
    if excess > 0:
        lines.append(line(("dim", f"… {excess:,} more characters; a pipe gets them all.")))
    return block(*lines) if lines else block(line(("dim", "(empty)")))


@dataclass(frozen=True, slots=True)
class MemoryKeys:
    """Keys of a memory in their order.

    Attributes:
        keys: those asked for.
        total: how many there are, whatever the limit and offset.
        project: path of the project; None for session memory.
        offset: how many keys before them were left out.
    """

    keys: tuple[str, ...]
    total: int
    project: str | None
    offset: Annotated[SkipJsonSchema[int], Field(exclude=True)] = 0
    entries: Annotated[SkipJsonSchema[tuple[tuple[KeyEntry, str], ...]], Field(exclude=True)] = ()

    @property
    def exact_text(self) -> str:
        """The text for programs: a key a line."""
        if self.keys:
            return "\n".join(self.keys)
        rest = f" in this part: there are {self.total}" if self.total else ""
        return f"No keys were found{rest}."


@view_for_reader(MemoryKeys)
def draw_memory_keys(result: MemoryKeys, reader: Reader) -> Block:
    """Draw the keys with their sizes, and who set them."""
    where = (
        "Session memory" if result.project is None else f"Memory of the project {result.project}"
    )
    if not result.keys:
        return block(line(result.exact_text if result.total else f"{where} has no such keys."))
    lines = [line(("heading", f"{where}: {format_count(result.total, 'key')}"), hang=2)]
    lines += draw_key_table(result.entries[:MAX_SHOWN_MEMORY_KEYS])
    shown = min(len(result.keys), MAX_SHOWN_MEMORY_KEYS)
    if rest := count_rest(result.total - result.offset - shown):
        lines.append(line(("dim", rest)))
    return block(*lines)


def _shorten_key(key: str) -> str:
    short = shorten_name(key)
    return short if short == key else f"{short}…"


def draw_key_table(entries: tuple[tuple[KeyEntry, str], ...]) -> list[Line]:
    """Draw keys with size, author and time."""
    return draw_columns(
        (
            ("thing", _shorten_key(entry.key)),
            format_size(entry.size),
            author,
            ("dim", format_clock(entry.set_at)),
        )
        for entry, author in entries
    )


@dataclass(frozen=True, slots=True)
class MemoryOverview:
    """The memories that a room uses.

    Attributes:
        project: path of the project.
        pinned: whether all rooms use the same one.
        has_directory: whether the room has a directory of its own.
        project_keys, session_keys: the first keys of each, and `*_total` how many there are.
    """

    project: str
    pinned: bool
    has_directory: bool
    project_keys: tuple[str, ...]
    project_total: int
    session_keys: tuple[str, ...]
    session_total: int
    of_project: Annotated[SkipJsonSchema[tuple[tuple[KeyEntry, str], ...]], Field(exclude=True)]
    of_session: Annotated[SkipJsonSchema[tuple[tuple[KeyEntry, str], ...]], Field(exclude=True)]


@view_for_reader(MemoryOverview)
def draw_memory_overview(result: MemoryOverview, reader: Reader) -> Block:
    """Draw both memories with their first keys."""
    lines: list[Line] = []
    note = "of this room's directory" if result.has_directory else "this room has no directory"
    note = "of all rooms" if result.pinned else note
    for title, hint, total, entries in (
        ("Project memory", f"  {result.project}, {note}", result.project_total, result.of_project),
        ("Session memory", "  of this room", result.session_total, result.of_session),
    ):
        lines.append(line(("heading", title), ("dim", hint), hang=2))
        lines += draw_key_table(entries)
        if not total:
            lines.append(line(("dim", "  empty")))
        elif rest := count_rest(total - len(entries)):
            lines.append(line(("dim", f"  {rest}")))
    lines += draw_hint(reader, "{} shows a value.", "mem project get", key="KEY")
    return block(*lines)


@dataclass(frozen=True, slots=True)
class MemoryMatches:
    """Lines of a value that match a pattern.

    Attributes:
        matches: the lines: number, text, and the places that match, start and end.
        cut_at: characters of a line that were searched, if some line is longer.
    """

    key: str
    pattern: str
    found: bool
    matches: tuple[MatchedLine, ...] = ()
    cut_at: int | None = None
    lines: Annotated[SkipJsonSchema[int], Field(exclude=True)] = 0
    sentence: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""

    @property
    def header(self) -> str:
        """The sentence before the lines."""
        if self.sentence:
            return self.sentence
        if not self.matches:
            quoted = self.pattern[:1] in "\"'" and self.pattern[-1:] == self.pattern[:1]
            hint = " The quotes are part of the pattern." if quoted and self.pattern[1:] else ""
            where = "" if self.cut_at is None else "what was searched of "
            return f'No matches were found in {where}"{self.key}".{hint}'
        count = len(self.matches)
        return f'{count} {"match" if count == 1 else "matches"} in "{self.key}":'

    @property
    def exact_text(self) -> str:
        """The text for programs: lines with numbers, and what matches in bold."""
        width = len(str(self.lines))
        numbered = (f"{one.number:>{width}} | {one.highlighted}" for one in self.matches)
        note = () if self.cut_at is None else (_note_cut(self.cut_at),)
        return "\n".join((self.header, *numbered, *note))


@view(MemoryMatches)
def draw_memory_matches(result: MemoryMatches) -> Block:
    """Draw the lines that match, with the matches marked."""
    width = len(str(result.lines))
    lines = [line(result.header, hang=2)]
    for one in result.matches[:MAX_SHOWN_MEMORY_KEYS]:
        spans = [("dim", f"{one.number:>{width}} | "), *_draw_part(one)]
        lines.append(line(*spans, hang=width + 3))
    if rest := count_rest(len(result.matches) - MAX_SHOWN_MEMORY_KEYS):
        lines.append(line(("dim", rest)))
    if result.cut_at is not None:
        lines.append(line(("dim", _note_cut(result.cut_at))))
    return block(*lines)


def _draw_part(found: MatchedLine) -> list[Span]:
    """Return a line with its matches marked; of a long one, the part at the first."""
    first = max(0, found.spans[0][0] - CHARACTERS_BEFORE_MATCH) if found.spans else 0
    if len(found.text) <= MAX_SHOWN_MATCH_CHARACTERS:
        first = 0
    end = min(len(found.text), first + MAX_SHOWN_MATCH_CHARACTERS)
    spans: list[Span] = [("dim", "… ")] if first else []
    last = first
    for start, stop in found.spans:
        if start >= end:
            break
        spans += [("", found.text[last:start]), ("strong", found.text[start : min(stop, end)])]
        last = min(stop, end)
    spans.append(("", found.text[last:end]))
    if end < len(found.text):
        spans.append(("dim", f" … ({len(found.text):,} characters)"))
    return spans


def make_memory_matches(key: str, pattern: str, matches: TextMatches) -> MemoryMatches:
    """Return the result of a search."""
    cut_at = matches.max_characters if matches.has_cut_lines else None
    return MemoryMatches(key, pattern, True, matches.found, cut_at, matches.lines)


def _note_cut(characters: int) -> str:
    return f"(Of longer lines, the first {characters:,} characters were searched.)"
