"""How results look: one view a result type, and the rows of a log. A view makes a Block; what is
plain text for pipes and models is the same Block without styles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from sshwarma.terminal.text import Block, Line, Span, block, headed, line
from sshwarma.world import mentions
from sshwarma.world.agents import Directory
from sshwarma.world.events import Row

R = TypeVar("R")
_views: dict[type, Callable[[Any], Block]] = {}
_adapters: dict[type, TypeAdapter[Any]] = {}
_drawn: WeakKeyDictionary[object, Block] = WeakKeyDictionary()

ROW_LINES: Final = 40
"""Lines of one row that are shown; the rest is read with /history --row."""

ROW_CHARACTERS: Final = 6_000

FOLDED_CHARACTERS: Final = 100
"""Characters of a tool call or its result that the room sees at once."""

NOTHING: Final = Block()


SHARED: Final = "drawn_once"
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


def draw(result: object) -> Block:
    """The Block of a verb's result."""
    if not hasattr(result, SHARED):
        return _views[type(result)](result)
    known = _drawn.get(result)
    if known is None:
        known = _drawn[result] = _views[type(result)](result)
    return known


def as_json(result: object) -> Any:
    """A verb's result as JSON values, for doors that programs use."""
    adapter = _adapters.get(type(result))
    if adapter is None:
        adapter = _adapters[type(result)] = TypeAdapter(type(result))
    return adapter.dump_python(result, mode="json")


def listed(items: Iterable[str], style: str) -> list[Span]:
    """`a, b, c` with each name in a style."""
    spans: list[Span] = []
    for item in items:
        if spans:
            spans.append(("", ", "))
        spans.append((style, item))
    return spans


def columns(rows: Iterable[tuple[str | Span, ...]], *, indent: int = 2) -> list[Line]:
    """A table: each column as wide as its widest cell, the last one left as it is. For names and
    numbers, which are one cell a character; free text belongs in the last column."""
    cells = [[cell if isinstance(cell, tuple) else ("", cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(len(row[i][1]) for row in cells) for i in range(len(cells[0]) - 1)]
    pad = " " * indent
    hang = indent + sum(widths) + 2 * len(widths)
    made = []
    for row in cells:
        spans: list[Span] = [("", pad)]
        for (style, text), width in zip(row[:-1], widths, strict=True):
            spans += [(style, text), ("", " " * (width - len(text) + 2))]
        spans.append(row[-1])
        while spans and not spans[-1][1].strip():
            spans.pop()
        made.append(Line(tuple(spans), hang=min(hang, 30)))
    return made


def clock(at_ms: int) -> str:
    """Hours and minutes of the server's day; the date too if it was not today."""
    then = time.localtime(at_ms / 1000)
    today = time.localtime()
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def ago(seconds: float) -> str:
    """`12s`, `5m`, `3h`, `2d`: a length of time as short as people say it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(max(0, seconds))}s"


def row_block(
    row: Row, agents: Directory, viewer_id: str | None, *, timestamps: bool = False
) -> Block:
    """A row of a log as one viewer sees it."""
    author = agents.name_of(row.author_id)
    mine = row.author_id is not None and row.author_id == viewer_id
    stamp: list[Span] = [("time", clock(row.created_at)), ("", " ")] if timestamps else []
    viewer = agents.get(viewer_id)
    mentioned = viewer is not None and not mine and mentions.calls(row.content, viewer.name)
    text_style = "mention" if mentioned else "text"
    match row.kind:
        case "chat":
            known = agents.get(row.author_id)
            style = "self" if mine else "model" if known and known.kind == "model" else "name"
            return _spoken([*stamp, (style, author), ("", ": ")], row, text_style)
        case "emote":
            return _spoken([*stamp, ("emote", f"* {author} ")], row, "emote")
        case "tell":
            other = agents.name_of(row.meta.get("to"))
            ends = f"you → {other}" if mine else f"{author} → you"
            return _spoken([*stamp, ("private", ends), ("", ": ")], row, "private")
        case "presence":
            return block(line(*stamp, ("presence", f"· {author} {row.content}"), hang=2))
        case kind if kind.startswith("journal."):
            label = kind.removeprefix("journal.")
            return _spoken(
                [*stamp, ("heading", f"[{label}] "), ("name", author), ("", ": ")], row, "text"
            )
        case "thought":
            return _folded([*stamp, ("dim", f"… {author} thought: ")], row, "dim")
        case "tool.call":
            head = [*stamp, ("tool", f"⚙ {author} → {row.meta.get('tool', '')} ")]
            return _folded(head, row, "dim")
        case "tool.result":
            return _folded([*stamp, ("ok", f"  ✓ {_took(row)}")], row, "dim")
        case "tool.error" | "tool.timeout":
            return _folded([*stamp, ("error", f"  ✗ {_took(row)}")], row, "warn")
        case _:
            who = f"{author} " if row.author_id is not None else ""
            return _spoken([*stamp, ("notice", f"· {who}")], row, "notice")


def _spoken(head: list[Span], row: Row, style: str) -> Block:
    text = row.content
    cut = text[:ROW_CHARACTERS]
    first, *more = cut.split("\n")
    kept = more[: ROW_LINES - 1]
    made = headed(*head, text="\n".join((first, *kept)), style=style)
    if len(cut) < len(text) or len(kept) < len(more):
        left = len(text) - len(first) - sum(len(part) + 1 for part in kept)
        made.append(line("  ", ("dim", f"… {left} more characters: /history --row {row.seq}")))
    return block(*made)


def _folded(head: list[Span], row: Row, style: str) -> Block:
    """A call or its result on one line; the whole of it is a verb away."""
    flat = " ".join(row.content.split())
    whole = len(flat) <= FOLDED_CHARACTERS and "\n" not in row.content.strip()
    shown = flat if len(flat) <= FOLDED_CHARACTERS else flat[: FOLDED_CHARACTERS - 1] + "…"
    more: list[Span] = [] if whole else [("", " "), ("verb", f"/expand {row.seq}")]
    return block(line(*head, (style, shown), *more, hang=4))


def _took(row: Row) -> str:
    seconds = row.meta.get("seconds")
    return f"{seconds:.1f}s " if isinstance(seconds, (int, float)) else ""
