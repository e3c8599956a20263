"""Syntax highlighting: code as lines of spans, by pygments in our theme's styles.

Only the languages listed here are highlighted, so that a name made up by a model loads no module.
Highlighting costs about 1 to 2.5 ms per kilobyte, so results are cached; `highlight_code` may be
called from any thread.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sshwarma.common.limits import MAX_HIGHLIGHTED_CHARACTERS
from sshwarma.terminal.text import Span, Style

_SLOW_CODE: Final = re.compile(r"[^\n]{300}|\s{60}|([^\w\s])\1{90}|(?:[^\n]{0,3}\n){60}")
"""Text that makes some of pygments' expressions far too slow: very long lines, long runs of spaces
or of one punctuation mark, and many nearly empty lines. Nobody writes such code by hand."""

CodeLines: TypeAlias = tuple[tuple[Span, ...], ...]

HIGHLIGHTED_LANGUAGES: Final = frozenset(
    """bash c c++ clojure cmake console cpp cs csharp css dart diff docker dockerfile elixir elm
    erlang fish fortran go golang graphql groovy haskell hs html http ini java javascript jinja js
    json jsonc jsx kotlin kt less lua make makefile nginx nim nix objective-c ocaml patch perl
    php pl powershell proto protobuf ps1 py pycon python python3 r rb rs ruby rust scala scheme scss
    sh shell sql sqlite3 svg swift tex toml ts tsx typescript vim xml yaml yml zig zsh""".split()  # noqa: SIM905 - a hundred strings
)
"""Language names of a fence whose code is highlighted."""

_LANGUAGE_ALIASES: Final = {
    "fish": "bash", "jsonc": "json", "kt": "kotlin", "patch": "diff", "svg": "xml",
    "cs": "ts", "csharp": "ts", "groovy": "ts", "java": "ts", "scala": "kotlin",
}  # fmt: skip
"""Languages highlighted as another one: pygments lacks the name, or its lexer takes seconds for
hostile text or 0.1 s to load, while a similar language's lexer does not."""

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
"""Pygments token kind -> style of it and of its sub-kinds."""


def draw_code_lines(code: str, language: str) -> CodeLines:
    """Draw lines of code, highlighted if the language is known and the code short."""
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
    """Highlight code in one of HIGHLIGHTED_LANGUAGES; keep every character of it."""
    # Imported late: most processes of this program never draw code.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    # One lexer per call: some lexers keep state, and several threads may run this.
    lexer = get_lexer_by_name(
        _LANGUAGE_ALIASES.get(language, language), stripnl=False, ensurenl=False
    )
    lines: list[list[Span]] = [[]]
    size = 0
    # Some lexers recognize a line only with its newline.
    for _, token_type, text in lexer.get_tokens_unprocessed(code + "\n"):
        size += len(text)
        style = style_of_token(token_type)
        first_line, *other_lines = text.split("\n")
        _append_span(lines[-1], style, first_line)
        for text_line in other_lines:
            lines.append([])
            _append_span(lines[-1], style, text_line)
    # A few lexers, of prompts and their output, lose or repeat text they do not understand.
    return tuple(map(tuple, lines[:-1])) if size == len(code) + 1 else _plain_code_lines(code)


def _append_span(spans: list[Span], style: Style, text: str) -> None:
    """Append text to a line: to its last span if the style is equal or it is space."""
    if not text:
        return
    if spans and (spans[-1][0] == style or text.isspace()):
        spans[-1] = (spans[-1][0], spans[-1][1] + text)
    else:
        spans.append((style, text))


@lru_cache(maxsize=512)
def style_of_token(kind: Any) -> Style:
    """Return the style of a pygments token kind, or of its nearest parent kind."""
    while kind is not None:
        style = _TOKEN_STYLES.get(str(kind))
        if style is not None:
            return style
        kind = kind.parent
    return ""
