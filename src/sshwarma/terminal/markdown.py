"""Markdown as lines: headings, emphasis, code, lists, quotes, links, tables.

Text of models is chat, not a page: line breaks, empty lines and indentation are kept, and only the
parsed marks disappear. Work is bounded: callers cut long texts; paragraphs with too many marks and
deep nesting are shown unparsed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from sshwarma.common.limits import MAX_MARKDOWN_LEVELS, MAX_TABLE_CELLS
from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.text import PLAIN_ONLY_STYLE, Line, Span, Style, Table, text_lines

MAX_PARAGRAPH_STARS: Final = 400
MAX_PARAGRAPH_BRACKETS: Final = 100
"""Stars and underscores, and opening brackets, in one parsed paragraph: parsing time grows faster
than their number. A paragraph with more is shown unparsed."""

MAX_CACHED_TEXTS: Final = 64
"""Texts whose lines are cached for other viewers."""

INDENT_COLUMNS: Final = 2
"""Indentation of all lines of an answer but the first."""

_FENCED: Final = re.compile(r"^```([\w+#.-]*)[^\n`]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)
_SCHEME: Final = re.compile(r"(?:^|[^a-z0-9+.-])(https?)$", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"://[^\s<>`\"|]+")
_BULLET: Final = "• "


def render_markdown(*head: Span, text: str) -> list[Line | Table]:
    """Render Markdown after a head, as `lines_with_head` does for plain text.

    A first paragraph begins beside the head; any other block begins below it.
    """
    first_line, other_lines = _parse_body(text)
    head_line = (
        Line((*head, *first_line.spans), INDENT_COLUMNS, first_line.edge)
        if first_line
        else Line(head, INDENT_COLUMNS)
    )
    return [head_line, *other_lines]


def highlight_newest_code(text: str) -> None:
    """Highlight the newest complete code block of a growing text, to fill the cache.

    May be called from any thread.
    """
    matches = deque(_FENCED.finditer(text), maxlen=1)
    if matches:
        draw_code_lines(matches[0][2], matches[0][1])


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def _parse_body(text: str) -> tuple[Line | None, tuple[Line | Table, ...]]:
    """Return the line that may stand beside a head, or None, and the lines below."""
    tokens = _make_parser().parse(text)
    if any(token.level >= MAX_MARKDOWN_LEVELS for token in tokens):
        first_line, *other_lines = text_lines(text, indent=INDENT_COLUMNS)
        return Line(first_line.spans[1:], INDENT_COLUMNS), tuple(other_lines)
    page = _MarkdownPage(text)
    page.draw(tokens)
    if tokens and tokens[0].type == "paragraph_open":
        head, *tail = page.lines
        if isinstance(head, Line):
            return head, tuple(tail)
    return None, tuple(page.lines)


class _MarkdownPage:
    """The lines drawn so far, and the marks of open lists and quotes.

    `_levels` has, for the answer itself and each open list item and quote, the span that begins its
    first line (None once used) and the span that begins its other lines.
    """

    def __init__(self, text: str) -> None:
        self.lines: list[Line | Table] = []
        self._source = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._levels: list[tuple[Span | None, Span]] = [(None, ("", " " * INDENT_COLUMNS))]
        self._numbers: list[int | None] = []  # of each open list: its next number, None if bullets

    def draw(self, tokens: Sequence[Token]) -> None:
        """Draw the blocks of a text."""
        at, size = 0, len(tokens)
        if tokens and tokens[0].type == "paragraph_open":
            self._levels[0] = (("", ""), self._levels[0][1])
        while at < size:
            token = tokens[at]
            match token.type:
                case "paragraph_open" | "heading_open":
                    self._add_blank_line(token)
                    self._inline(token, tokens[at + 1])
                    at += 2
                case "fence" | "code_block":
                    self._add_blank_line(token)
                    self._code(token)
                case "hr":
                    self._add_blank_line(token)
                    self._add((("dim", "* * *"),))
                case "table_open":
                    end = next(n for n in range(at, size) if tokens[n].type == "table_close")
                    self._add_blank_line(token)
                    self._table(token, tokens[at:end])
                    at = end
                case _ if token.nesting < 0:
                    self._close_level(token)
                case _:
                    self._open_level(token)
            at += 1

    def _open_level(self, token: Token) -> None:
        """Begin a list, a list item or a quote."""
        match token.type:
            case "bullet_list_open":
                self._add_blank_line(token)
                self._numbers.append(None)
            case "ordered_list_open":
                self._add_blank_line(token)
                self._numbers.append(int(token.attrs.get("start", 1)))
            case "list_item_open":
                self._add_blank_line(token)
                self._open_item()
            case "blockquote_open":
                self._add_blank_line(token)
                self._levels.append((("dim", "> "), ("dim", "> ")))

    def _close_level(self, token: Token) -> None:
        """End a list, a list item or a quote."""
        match token.type:
            case "list_item_close" | "blockquote_close":
                if self._levels[-1][0] is not None:
                    self._add(())  # an empty item: draw its mark alone
                self._levels.pop()
            case "bullet_list_close" | "ordered_list_close":
                self._numbers.pop()

    def _open_item(self) -> None:
        number = self._numbers[-1]
        if number is None:
            mark = _BULLET
        else:
            mark = f"{number}. "
            self._numbers[-1] = number + 1
        self._levels.append((("mark", mark), ("", " " * len(mark))))

    def _add_blank_line(self, token: Token) -> None:
        """Add the empty line that the source has before a block, except after a mark."""
        if not self.lines or not token.map or self._levels[-1][0] is not None:
            return
        row = token.map[0] - 1
        last_line = self.lines[-1]
        empty = isinstance(last_line, Line) and not last_line.plain().strip(" >")
        if row >= 0 and not empty and not self._source[row].strip(" \t>"):
            self.lines.append(Line(_trim_trailing_spaces(self._quote_edge())))

    def _quote_edge(self) -> tuple[Span, ...]:
        """Return the start of a line that is not the first of its level."""
        return tuple(rest for _, rest in self._levels)

    def _begin(self) -> tuple[Span, ...]:
        """Return the start of the next line and mark its list marks as used."""
        begin = tuple(rest if first is None else first for first, rest in self._levels)
        self._levels = [(None, rest) for _, rest in self._levels]
        return begin

    def _add(self, spans: Sequence[Span], hang: int = 0) -> None:
        """Add one line; when it is wrapped, each row repeats the quote marks."""
        edge = self._quote_edge()
        edge_width = sum(len(text) for _, text in edge)
        is_quoted = any(style for style, _ in edge)
        line_spans = (*self._begin(), *spans)
        self.lines.append(
            Line(
                line_spans if spans else _trim_trailing_spaces(line_spans),
                edge_width + hang,
                edge if is_quoted else (),
            )
        )

    def _inline(self, opening: Token, inline: Token) -> None:
        """Draw a paragraph or a heading."""
        heading = opening.type == "heading_open"
        indent = "" if heading else self._indent(opening)
        for number, spans in enumerate(_inline_lines(inline, "heading" if heading else "text")):
            is_first = number == 0
            if heading:
                self._add(
                    ((PLAIN_ONLY_STYLE, "#" * len(opening.markup) + " "), *spans)
                    if is_first
                    else spans
                )
            else:
                self._add((("", indent), *spans) if is_first and indent else spans)

    def _indent(self, opening: Token) -> str:
        """Return the source indentation of a top-level paragraph."""
        if opening.level or not opening.map or not self.lines:
            return ""
        source_line = self._source[opening.map[0]]
        return source_line[: len(source_line) - len(source_line.lstrip(" "))]

    def _code(self, token: Token) -> None:
        """Draw indented code, without marks in front that would be copied with it."""
        language = token.info.split()[0] if token.info.strip() else ""
        pad = ("", " " * INDENT_COLUMNS)
        for spans in draw_code_lines(token.content.removesuffix("\n"), language):
            text = spans[0][1] if spans else ""
            hang = 2 * INDENT_COLUMNS + len(text) - len(text.lstrip(" "))
            self._add((pad, *spans) if spans else (), hang)

    def _table(self, opening: Token, tokens: Sequence[Token]) -> None:
        cells = [token for token in tokens if token.type == "inline"]
        names = [token for token in tokens if token.type == "th_open"]
        if self._levels[-1][0] is not None:
            self._add(())
        if len(cells) > MAX_TABLE_CELLS:
            start, end = opening.map or (0, 0)
            for text in self._source[start:end]:
                self._add((("text", text.strip()),))
            return
        styled = [
            _flatten_inline(cell, "heading" if n < len(names) else "text")
            for n, cell in enumerate(cells)
        ]
        self.lines.append(
            Table(
                tuple(tuple(styled[n : n + len(names)]) for n in range(0, len(styled), len(names))),
                tuple("right" in str(name.attrs.get("style", "")) for name in names),
                self._quote_edge(),
            )
        )


def _trim_trailing_spaces(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return spans without trailing spaces."""
    result = list(spans)
    while result and not result[-1][1].strip():
        result.pop()
    if result:
        result[-1] = (result[-1][0], result[-1][1].rstrip())
    return tuple(result)


def _flatten_inline(inline: Token, style: Style) -> tuple[Span, ...]:
    """Return inline text as one line of spans."""
    return tuple(span for spans in _inline_lines(inline, style) for span in spans)


def _inline_lines(inline: Token, base: Style) -> Iterator[list[Span]]:
    """Yield lines of inline text as spans: `base` style, emphasis, code and links."""
    line = _InlineLine(base)
    for token in inline.children or ():
        if token.type in ("softbreak", "hardbreak"):
            yield line.spans
            line.break_line()
        else:
            line.add(token)
    yield line.spans


class _InlineLine:
    """The spans of one line of inline text, and the marks that are open in it."""

    __slots__ = ("_base", "_links", "_open_styles", "spans")

    def __init__(self, base: Style) -> None:
        self.spans: list[Span] = []
        self._base = base
        self._open_styles: list[Style] = []
        self._links: list[tuple[str, int]] = []  # open links: address and start of the text

    def break_line(self) -> None:
        """Begin the next line; open marks and links continue on it."""
        self.spans = []
        self._links = [(address, 0) for address, _ in self._links]

    def add(self, token: Token) -> None:
        """Draw a token of the line."""
        match token.type:
            case "text" | "text_special":
                if token.content:
                    self.spans.append((self._style(), token.content))
            case "code_inline":
                self.spans.append((self._style("code"), token.content))
            case "strong_open":
                self._open_styles.append("strong")
            case "em_open":
                self._open_styles.append("emphasis")
            case "strong_close":
                self._open_styles.remove("strong")
            case "em_close":
                self._open_styles.remove("emphasis")
            case "link_open":
                self._links.append((str(token.attrs.get("href", "")), len(self.spans)))
                self._open_styles.append("link")
            case "link_close":
                self._close_link()
            case "image":
                label = "".join(child.content for child in token.children or ())
                self.spans.append((self._style(), f"[image: {label}]"))
                self.spans.append(("dim", f" ({token.attrs.get('src', '')})"))

    def _style(self, *more: Style) -> Style:
        """Return the base style and the open ones, each once, and `more`."""
        styles = dict.fromkeys((*self._open_styles, *more))
        if self._base != "text":
            styles = {self._base: None, **styles}
        return " ".join(styles) or self._base

    def _close_link(self) -> None:
        """Draw the address after the text of a link, unless the text is the address."""
        self._open_styles.remove("link")
        address, start = self._links.pop()
        text = "".join(part for _, part in self.spans[start:])
        if not text:
            self.spans.append(("link", address))
        elif address not in (text, f"mailto:{text}"):
            self.spans.append(("dim", f" ({address})"))


@lru_cache(maxsize=1)
def _make_parser() -> MarkdownIt:
    """Return a CommonMark parser with tables.

    HTML and link reference definitions are parsed as text, so that no text of a model disappears.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_MARKDOWN_LEVELS + 1})
    parser.enable("table").disable(["html_block", "html_inline", "reference"])
    parser.inline.ruler.at("newline", _parse_line_break)
    parser.inline.ruler.after("newline", "address", _parse_address)
    parser.core.ruler.at("inline", _parse_tame_inline)
    return parser


def _parse_tame_inline(state: StateCore) -> None:
    """Parse inline marks in every paragraph with an acceptable number of them."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        text = token.content
        stars = text.count("*") + text.count("_")
        if stars <= MAX_PARAGRAPH_STARS and text.count("[") <= MAX_PARAGRAPH_BRACKETS:
            state.md.inline.parse(text, state.md, state.env, token.children)
            continue
        for number, line in enumerate(text.split("\n")):
            if number:
                token.children.append(Token("softbreak", "br", 0))
            token.children.append(Token("text", "", 0, content=line))


def _parse_line_break(state: StateInline, silent: bool) -> bool:
    """Keep a line break and the spaces after it: in chat they are intended."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.pending = state.pending.rstrip(" ")
        state.push("softbreak", "br", 0)
    state.pos += 1
    return True


def _parse_address(state: StateInline, silent: bool) -> bool:
    """Parse a URL as a link, so that underscores in it are not emphasis."""
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = _SCHEME.search(state.pending[-8:])
    match = _ADDRESS.match(state.src, state.pos, state.posMax) if scheme else None
    if scheme is None or match is None:
        return False
    address = match[0].rstrip(".,;:!?*_'")
    while address.endswith((")", "]")) and address.count(address[-1]) > address.count(
        "(["[address[-1] == "]"]
    ):
        address = address[:-1].rstrip(".,;:!?*_'")
    if len(address) <= len("://"):
        return False
    if not silent:
        name = scheme[1]
        state.pending = state.pending[: -len(name)]
        state.push("link_open", "a", 1).attrs = {"href": name + address}
        state.push("text", "", 0).content = name + address
        state.push("link_close", "a", -1)
    state.pos += len(address)
    return True
