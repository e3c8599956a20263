"""Rendering of blocks to HTML, for pages of the console.

The only place that makes HTML of what people, models and tools have written: all of it is text, as
on a terminal, with the same characters made visible. Styles become classes, which `app.css` draws.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.picture import Picture, encode_picture
from sshwarma.terminal.text import PLAIN_ONLY_STYLE, Block, Line, Span, Table

MAX_HANG_COLUMNS: Final = 40
"""Columns by which `app.css` can indent the rest of a wrapped line."""

_ADDRESS: Final = re.compile(r"(?:https?://[^\s<>\"'`]+|mailto:[^\s<>\"'`]+@[^\s<>\"'`]+)\Z")


def render_html(block: Block) -> str:
    """Return a block as HTML: an element for each line, table and picture."""
    return "".join(_render_item(item) for item in block.lines)


def _render_item(item: Line | Table | Picture) -> str:
    match item:
        case Line():
            hang = min(item.hang, MAX_HANG_COLUMNS)
            return f'<div class="line hang-{hang}">{_render_spans(item.spans) or "<br>"}</div>'
        case Table():
            return _render_table(item)
        case Picture():
            return _render_picture(item)


def _render_spans(spans: Sequence[Span]) -> str:
    return "".join(map(_render_span, spans))


def _render_span(span: Span) -> str:
    style, text = span
    names = style.split()
    if not text or PLAIN_ONLY_STYLE in names:
        return ""
    shown = escape(escape_controls(text))
    classes = " ".join(f"s-{name}" for name in names)
    if "link" in names and _ADDRESS.match(text):
        return f'<a class="{classes}" href="{escape(text)}" rel="noopener noreferrer">{shown}</a>'
    return f'<span class="{classes}">{shown}</span>' if classes else shown


def _render_table(table: Table) -> str:
    names, *body = table.rows
    head = "".join(_render_cells(names, table.right, "th"))
    rows = "".join(f"<tr>{''.join(_render_cells(row, table.right, 'td'))}</tr>" for row in body)
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _render_cells(
    cells: Sequence[Sequence[Span]], right: Sequence[bool], tag: str
) -> Iterator[str]:
    for cell, is_right in zip(cells, right, strict=True):
        yield f"<{tag}{' class=right' if is_right else ''}>{_render_spans(cell)}</{tag}>"


def _render_picture(picture: Picture) -> str:
    data = base64.b64encode(encode_picture(picture)).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    words = escape(picture.plain().strip(" []"))
    return f'<img class="picture" {size} alt="{words}" src="data:image/png;base64,{data}">'
