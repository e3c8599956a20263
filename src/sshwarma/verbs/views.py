"""Views of results: one function for each result type, which draws it as a Block.

Pipes and models get the same Block as plain text, without styles. `log_rows` draws rows of a log.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from pydantic import Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema

from sshwarma.common.shorten import count_rest
from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS
from sshwarma.terminal.picture import Picture
from sshwarma.terminal.render import render_plain
from sshwarma.terminal.text import Block, Line, Span, Table, block, line
from sshwarma.world.reader import PERSON, NextCall, Reader, add_next_call

R = TypeVar("R")
_views: dict[type, Callable[[Any, Reader], Block]] = {}
_line_views: dict[type, Callable[[Any], Iterable[Line]]] = {}
_adapters: dict[type, TypeAdapter[Any]] = {}
_drawn: WeakKeyDictionary[object, dict[Reader, Block]] = WeakKeyDictionary()

EMPTY_BLOCK: Final = Block()


_USAGE_PART: Final = re.compile(r" +|\[[^]]*\]\S*|[^ ]+")

SHOWN_WAIT_SECONDS: Final = 1.0
"""A shorter wait of a call is not shown."""

MAX_SUMMARY_CHARACTERS: Final = 120
"""Characters of a description that stands for a longer one in a list."""

MAX_COLUMN_CHARACTERS: Final = 48
"""Characters of a column of a table; a wider cell shifts the rest of its own row."""

SHOWN_ID_CHARACTERS: Final = 18
"""Characters of an id that a list shows: the first ones, where ids of one moment are alike, and
enough of the rest to tell them apart."""

SHARED_VIEW_ATTRIBUTE: Final = "drawn_once"
"""A result type that has this attribute is given to many callers as one value, compared by
identity; its Block is kept, so that it is rendered once per width and theme for all of them."""


def view(of: type[R]) -> Callable[[Callable[[R], Block]], Callable[[R], Block]]:
    """Declare the function that draws a result type in the same way for all readers.

    It names no verb that can be called; `view_for_reader` declares one that does.
    """

    def declare(make: Callable[[R], Block]) -> Callable[[R], Block]:
        _views[of] = lambda result, reader: make(result)
        return make

    return declare


def view_by_lines(
    of: type[R],
) -> Callable[[Callable[[R], Iterable[Line]]], Callable[[R], Iterable[Line]]]:
    """Declare the function that draws a long result type line by line.

    A million lines at a time would be a million objects: to look for garbage among them holds the
    event loop for more than a tenth of a second.
    """

    def declare(make: Callable[[R], Iterable[Line]]) -> Callable[[R], Iterable[Line]]:
        _line_views[of] = make
        _views[of] = lambda result, reader: block(*make(result))
        return make

    return declare


def view_for_reader(
    of: type[R],
) -> Callable[[Callable[[R, Reader], Block]], Callable[[R, Reader], Block]]:
    """Declare the function that draws a result type, naming calls for the reader."""

    def declare(make: Callable[[R, Reader], Block]) -> Callable[[R, Reader], Block]:
        _views[of] = make
        return make

    return declare


def draw_result(result: object, reader: Reader = PERSON) -> Block:
    """Draw a verb's result with the view of its type."""
    if not hasattr(result, SHARED_VIEW_ATTRIBUTE):
        return _views[type(result)](result, reader)
    by_reader = _drawn.setdefault(result, {})
    cached_block = by_reader.get(reader)
    if cached_block is None:
        cached_block = by_reader[reader] = _views[type(result)](result, reader)
    return cached_block


def draw_lines(result: object) -> Iterable[Line | Table | Picture]:
    """Draw a result for a person; a long one line by line, as they are asked for."""
    make = _line_views.get(type(result))
    return draw_result(result).lines if make is None else make(result)


def draw_hint(reader: Reader, sentence: str, verb: str, /, **arguments: object) -> list[Line]:
    """Draw a sentence about a call of a verb (see `Reader.hint`); nothing if empty."""
    text = reader.hint(sentence, verb, **arguments)
    return [line(("dim", text))] if text else []


def dump_json(result: object) -> Any:
    """Convert a verb's result to JSON values, for programs."""
    adapter = _adapters.get(type(result))
    if adapter is None:
        adapter = _adapters[type(result)] = TypeAdapter(type(result))
    return adapter.dump_python(result, mode="json")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A result that is one sentence; `next` says what the caller can do now."""

    text: str
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(Confirmation)
def draw_confirmation(confirmation: Confirmation, reader: Reader) -> Block:
    """Draw the sentence of a confirmation, and what the reader can do next."""
    return block(line(add_next_call(confirmation.text, confirmation.next, reader), hang=2))


@dataclass(frozen=True, slots=True)
class SkippedSetting:
    """A model or server of the settings that is not in force, and why."""

    name: str
    reason: str


def list_skipped(reasons: Mapping[str, str]) -> tuple[SkippedSetting, ...]:
    """Return what is not in force, by name with the reason."""
    return tuple(SkippedSetting(name, reason) for name, reason in reasons.items())


def draw_skipped(skipped: Iterable[SkippedSetting]) -> list[Line]:
    """Draw what the settings have and is not in force, with the reasons."""
    lines = [line("  ", ("warn", f"{one.name}: {one.reason}"), hang=4) for one in skipped]
    heading = "In the settings, and not in force:"
    return [line(("heading", heading)), *lines] if lines else []


def join_names(items: Iterable[str], style: str, limit: int | None = None) -> list[Span]:
    """Join names with commas, each in a style: `a, b`; count those beyond a limit."""
    names = list(items)
    spans: list[Span] = []
    for item in names[:limit]:
        if spans:
            spans.append(("", ", "))
        spans.append((style, item))
    if limit is not None and (rest := count_rest(len(names) - limit)):
        spans.append(("", f" {rest}"))
    return spans


def draw_columns(
    rows: Iterable[tuple[str | Span, ...]], *, indent: int = 2, cut_last: bool = False
) -> list[Line]:
    """Draw a table; columns are as wide as their cells, up to MAX_COLUMN_CHARACTERS.

    A wider cell shifts only the rest of its own row; the last column is not padded. Use it for
    names and numbers, one screen column a character; free text belongs in the last column, which
    `cut_last` cuts to the rest of the row.
    """
    cells = [[cell if isinstance(cell, tuple) else ("", cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [
        max((len(row[i][1]) for row in cells if len(row[i][1]) <= MAX_COLUMN_CHARACTERS), default=0)
        for i in range(len(cells[0]) - 1)
    ]
    hang = indent + sum(widths) + 2 * len(widths)
    span_rows = [_join_cells(row, widths, indent) for row in cells]
    widest = max(sum(len(text) for _, text in spans) for spans in span_rows)
    last_column = 1 + 2 * len(widths)
    return [
        Line(
            spans,
            hang=hang,
            fold=last_column if cut_last and len(spans) > last_column else None,
            last_column=last_column if widths else None,
            widest=widest,
        )
        for spans in span_rows
    ]


def _join_cells(row: list[Span], widths: list[int], indent: int) -> tuple[Span, ...]:
    """Join the cells of a row, padded to the widths of their columns."""
    spans: list[Span] = [("", " " * indent)]
    for (style, text), width in zip(row[:-1], widths, strict=True):
        spans += [(style, text), ("", " " * (max(width - len(text), 0) + 2))]
    spans.append(row[-1])
    while spans and not spans[-1][1].strip():
        spans.pop()
    return tuple(spans)


def split_usage(usage: str) -> Iterator[Span]:
    """Yield a usage line as spans, so that no row breaks inside an option's brackets."""
    for part in _USAGE_PART.findall(usage):
        yield ("verb", part)


def format_kind(kind: str) -> str:
    """Name the kind of a thing for people: `toolset` is a namespace."""
    return {"toolset": "namespace", "mcp": "MCP server"}.get(kind, kind)


def format_call_time(seconds: float, waited: object = 0.0) -> str:
    """Format how long a call ran, and waited before: `0.2s, waited 31.0s`."""
    ran = f"{seconds:.1f}s"
    is_long = isinstance(waited, (int, float)) and waited >= SHOWN_WAIT_SECONDS
    return f"{ran}, waited {waited:.1f}s" if is_long else ran


def format_count(count: int, thing: str) -> str:
    """Format a number with its noun: `1 row`, `2 rows`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def cut_to_line(text: str) -> str:
    """Return a text's first line, at most MAX_SUMMARY_CHARACTERS, … for the rest."""
    first = text.strip().partition("\n")[0].rstrip()[:MAX_SUMMARY_CHARACTERS]
    return first if len(first) == len(text.strip()) else f"{first}…"


def format_clock(at_ms: int) -> str:
    """Format a time as hours and minutes, server time; with the date if not today."""
    moment = time.localtime(at_ms / 1000)
    today = time.localtime()
    if moment[:3] == today[:3]:
        return time.strftime("%H:%M", moment)
    return time.strftime("%Y-%m-%d %H:%M", moment)


def format_duration(seconds: float) -> str:
    """Format a time span in its largest unit: `12s`, `5m`, `3h`, `2d`."""
    for unit, size in (("d", DAY_SECONDS), ("h", HOUR_SECONDS), ("m", MINUTE_SECONDS)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(max(0, seconds))}s"


async def render_in_thread(reader: Reader, result: object) -> tuple[str, Any]:
    """Return a result as plain text and as JSON.

    A text of megabytes takes seconds to draw.
    """
    return await asyncio.to_thread(lambda: (render_for(reader, result), dump_json(result)))


EXACT_TEXT_ATTRIBUTE: Final = "exact_text"
"""The attribute of results that programs get as they are: a view would change them, as it escapes
control characters. Its value is the text."""


def render_for(reader: Reader, result: object) -> str:
    """Draw a result as plain text, with calls named as the reader makes them.

    Programs get the text of a result that has an exact one.
    """
    text = None if reader.is_person else getattr(result, EXACT_TEXT_ATTRIBUTE, None)
    return render_plain(draw_result(result, reader)) if text is None else str(text)
