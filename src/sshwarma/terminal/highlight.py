"""Program text as lines of styled spans: what pygments finds in it, in styles of our own theme.

Only languages that are named here are looked for, so that no name a model makes up loads anything.
Highlighting is dear, about 1 to 2.5 ms a kilobyte, so what was highlighted is kept for a while;
`highlight_code` may be called from any thread.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sshwarma.common.limits import MAX_HIGHLIGHTED_CHARACTERS
from sshwarma.terminal.text import Span, Style

_SLOW_CODE: Final = re.compile(r"[^\n]{300}|\s{60}|([^\w\s])\1{90}|(?:[^\n]{0,3}\n){60}")
"""What nobody writes by hand, and what some of pygments' expressions take far too long over: lines
too long, long runs of space or of one mark, and of lines that have next to nothing."""

CodeLines: TypeAlias = tuple[tuple[Span, ...], ...]

HIGHLIGHTED_LANGUAGES: Final = frozenset(
    """bash c c++ clojure cmake console cpp cs csharp css dart diff docker dockerfile elixir elm
    erlang fish fortran go golang graphql groovy haskell hs html http ini java javascript jinja js
    json jsonc jsx kotlin kt less lua make makefile nginx nim nix objective-c ocaml patch perl
    php pl powershell proto protobuf ps1 py pycon python python3 r rb rs ruby rust scala scheme scss
    sh shell sql sqlite3 svg swift tex toml ts tsx typescript vim xml yaml yml zig zsh""".split()  # noqa: SIM905 - a hundred strings
)
"""What a fence may name for its code to be highlighted."""

_LANGUAGE_ALIASES: Final = {
    "fish": "bash", "jsonc": "json", "kt": "kotlin", "patch": "diff", "svg": "xml",
    "cs": "ts", "csharp": "ts", "groovy": "ts", "java": "ts", "scala": "kotlin",
}  # fmt: skip
"""What is read as another language: names pygments does not have, and languages near enough to one
whose expressions do not take seconds over texts made for that, or a tenth of one to load."""

_TOKEN_STYLES: Final[dict[str, Style]] = {
    "Token.Keyword": "code-keyword",
    "Token.Keyword.Constant": "code-number",
    "Token.Keyword.Type": "code-type",
    "Token.Operator.Word": "code-keyword",
    "Token.Literal.String": "code-string",
    "Token.Literal.String.Doc": "code-comment",
    "Token.Literal.Number": "code-number",
    "Token.Literal.Date": "code-number",
    "Token.Comment": "code-comment",
    "Token.Comment.Preproc": "code-type",
    "Token.Name.Function": "code-name",
    "Token.Name.Class": "code-name",
    "Token.Name.Tag": "code-name",
    "Token.Name.Decorator": "code-type",
    "Token.Name.Builtin": "code-type",
    "Token.Name.Exception": "code-type",
    "Token.Name.Attribute": "code-type",
    "Token.Name.Variable": "code-type",
    "Token.Generic.Deleted": "code-removed",
    "Token.Generic.Inserted": "code-added",
    "Token.Generic.Heading": "heading",
    "Token.Generic.Subheading": "code-type",
    "Token.Generic.Prompt": "dim",
    "Token.Generic.Output": "dim",
}
"""A pygments token kind -> the style of it and of the kinds below it."""


def draw_code_lines(code: str, language: str) -> CodeLines:
    """The lines of a piece of code, highlighted if its language is known and it is not too long."""
    language = language.lower()
    if (
        language in HIGHLIGHTED_LANGUAGES
        and len(code) <= MAX_HIGHLIGHTED_CHARACTERS
        and not _SLOW_CODE.search(code)
    ):
        return highlight_code(code, language)
    return _plain_code_lines(code)


def _plain_code_lines(code: str) -> CodeLines:
    return tuple((("code", text),) if text else () for text in code.split("\n"))


@lru_cache(maxsize=256)
def highlight_code(code: str, language: str) -> CodeLines:
    """The lines of code in one of LANGUAGES; together they hold every character of it."""
    # Imported late: most who start this program never see a piece of code in this process.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    # One lexer a call: some keep state in themselves, and several threads may be here.
    lexer = get_lexer_by_name(
        _LANGUAGE_ALIASES.get(language, language), stripnl=False, ensurenl=False
    )
    lines: list[list[Span]] = [[]]
    size = 0
    # Some only know a line by the newline after it.
    for _, kind, text in lexer.get_tokens_unprocessed(code + "\n"):
        size += len(text)
        style = style_of_token(kind)
        first, *others = text.split("\n")
        _append_span(lines[-1], style, first)
        for other in others:
            lines.append([])
            _append_span(lines[-1], style, other)
    # A few lexers, of prompts and their output, lose or repeat what they do not understand.
    return tuple(map(tuple, lines[:-1])) if size == len(code) + 1 else _plain_code_lines(code)


def _append_span(spans: list[Span], style: Style, text: str) -> None:
    """Put text at the end of a line; spaces join whatever is there, equal styles are one span."""
    if not text:
        return
    if spans and (spans[-1][0] == style or text.isspace()):
        spans[-1] = (spans[-1][0], spans[-1][1] + text)
    else:
        spans.append((style, text))


@lru_cache(maxsize=512)
def style_of_token(kind: Any) -> Style:
    """The style of a pygments token kind: its own, or that of the nearest kind above it."""
    while kind is not None:
        style = _TOKEN_STYLES.get(str(kind))
        if style is not None:
            return style
        kind = kind.parent
    return ""
