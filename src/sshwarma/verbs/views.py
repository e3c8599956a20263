"""Views of results: one view for each result type. A view makes a Block; pipes and models get the
same Block as plain text, without styles. Rows of a log are in `log_rows`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from sshwarma.terminal.text import Block, Line, Span, block

R = TypeVar("R")
_views: dict[type, Callable[[Any], Block]] = {}
_adapters: dict[type, TypeAdapter[Any]] = {}
_drawn: WeakKeyDictionary[object, Block] = WeakKeyDictionary()

EMPTY_BLOCK: Final = Block()


MAX_COLUMN_CHARACTERS: Final = 48
"""Characters of a column of a table; a wider cell shifts the rest of its own row."""

SHARED_VIEW_ATTRIBUTE: Final = "drawn_once"
"""A result type that has this attribute is given to many callers as one value, compared by
identity; its Block is kept, so that it is rendered once per width and theme for all of them."""


def view(of: type[R]) -> Callable[[Callable[[R], Block]], Callable[[R], Block]]:
    """Declare how a result type looks."""

    def declare(make: Callable[[R], Block]) -> Callable[[R], Block]:
        _views[of] = make
        return make

    return declare


def has_view(of: type) -> bool:
    return of in _views


def draw_result(result: object) -> Block:
    """The Block of a verb's result."""
    if not hasattr(result, SHARED_VIEW_ATTRIBUTE):
        return _views[type(result)](result)
    known = _drawn.get(result)
    if known is None:
        known = _drawn[result] = _views[type(result)](result)
    return known


def dump_json(result: object) -> Any:
    """A verb's result as JSON values, for doors that programs use."""
    adapter = _adapters.get(type(result))
    if adapter is None:
        adapter = _adapters[type(result)] = TypeAdapter(type(result))
    return adapter.dump_python(result, mode="json")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A result that is one sentence."""

    text: str


@view(Confirmation)
def draw_done(done: Confirmation) -> Block:
    return block(done.text)


def join_names(items: Iterable[str], style: str) -> list[Span]:
    """`a, b, c` with each name in a style."""
    spans: list[Span] = []
    for item in items:
        if spans:
            spans.append(("", ", "))
        spans.append((style, item))
    return spans


def draw_columns(rows: Iterable[tuple[str | Span, ...]], *, indent: int = 2) -> list[Line]:
    """Draw a table: each column as wide as its widest cell, up to MAX_COLUMN_CHARACTERS; the last
    one is left as it is. A wider cell shifts only the rest of its own row. For names and numbers,
    which are one cell a character; free text belongs in the last column."""
    cells = [[cell if isinstance(cell, tuple) else ("", cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [
        max((len(row[i][1]) for row in cells if len(row[i][1]) <= MAX_COLUMN_CHARACTERS), default=0)
        for i in range(len(cells[0]) - 1)
    ]
    pad = " " * indent
    hang = indent + sum(widths) + 2 * len(widths)
    made = []
    for row in cells:
        spans: list[Span] = [("", pad)]
        for (style, text), width in zip(row[:-1], widths, strict=True):
            spans += [(style, text), ("", " " * (max(width - len(text), 0) + 2))]
        spans.append(row[-1])
        while spans and not spans[-1][1].strip():
            spans.pop()
        made.append(Line(tuple(spans), hang=min(hang, 30)))
    return made


def format_count(count: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def format_clock(at_ms: int) -> str:
    """Hours and minutes of the server's day; the date too if it was not today."""
    then = time.localtime(at_ms / 1000)
    today = time.localtime()
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def format_duration(seconds: float) -> str:
    """`12s`, `5m`, `3h`, `2d`: a length of time as short as people say it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(max(0, seconds))}s"
