"""Words of a line that is still typed, for Tab: split, and written with quotes.

Arguments are quoted as `grammar` reads them, words of a command of a shell as bash reads them; in
other text a quote is a letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sshwarma.verbs.verb import quote_word

WordStyle: TypeAlias = Literal["argument", "shell", "text"]
"""How the words of a part of a line are quoted."""

_ARGUMENT: Final = re.compile(
    r"""
    (?<!,) (?P<flag> --[^\s=,'"]+= )? (?P<quote> ["'] )
    (?P<text> (?: (?!(?P=quote))[^\\] | \\.? )*+ ) (?P=quote)?
    | [^\s,]+ ,?
    | ,
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN: Final = re.compile(r"[^\s,]+,?|,")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

_SHELL_PART: Final = re.compile(
    r"""
    (?P<between> [\ \t\n;|&<>()]++ )
    | ' (?P<single> [^']*+ ) '?
    | " (?P<double> (?: [^"\\] | \\.? )*+ ) "?
    | \\ (?P<escaped> .? )
    | (?P<plain> [^\ \t\n;|&<>()'"\\]++ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED_IN_SHELL: Final = re.compile(r'\\([\\"$`])')
_SPECIAL_IN_SHELL: Final = re.compile(r"[^\w@%+=:,./-]")


@dataclass(frozen=True, slots=True)
class TypedWord:
    """A word of a line that is still typed.

    Attributes:
        text: the word without its quotes.
        raw: the word as it is typed.
        start: its place in the line.
        quote: the quote that it begins with, closed or not; "" without one.
    """

    text: str
    raw: str
    start: int
    quote: str = ""


def split_words(line: str, start: int, style: WordStyle) -> list[TypedWord]:
    """Split a line from `start`, up to the cursor at its end.

    The last word is the one under the cursor: empty after a blank. A comma ends a word, except one
    that is quoted or of a shell.
    """
    words = _split_shell(line, start) if style == "shell" else _split_line(line, start, style)
    is_typed = bool(words) and words[-1].start + len(words[-1].raw) == len(line)
    if not is_typed or (style != "shell" and not words[-1].quote and words[-1].raw.endswith(",")):
        words.append(TypedWord("", "", len(line)))
    return words


def write_word(word: str, style: WordStyle, quote: str, *, closed: bool) -> str:
    """Write a word so that it is read as one, in quotes if it needs them.

    Args:
        word: the word.
        style: how it will be read.
        quote: the quote to use in any case; "" for none or a single one.
        closed: whether a quote is closed after it.
    """
    if style == "text":
        return word
    if style == "argument" and not quote:
        quoted = word if word.startswith("--") else quote_word(word)  # flags are offered, too
        return quoted if closed or quoted == word else quoted[:-1]
    if style == "argument":
        inner = re.sub(rf"([{quote}\\])", r"\\\1", word)
    elif quote == '"':
        inner = re.sub(r'([\\"$`])', r"\\\1", word)
    elif quote or _SPECIAL_IN_SHELL.search(word):
        quote, inner = "'", word.replace("'", "'\\''")
    else:
        return word
    return f"{quote}{inner}{quote if closed else ''}"


def _split_line(line: str, start: int, style: WordStyle) -> list[TypedWord]:
    if style == "text":
        return [TypedWord(at[0], at[0], at.start()) for at in _PLAIN.finditer(line, start)]
    words = []
    for at in _ARGUMENT.finditer(line, start):
        if at["quote"] is None:
            words.append(TypedWord(at[0], at[0], at.start()))
            continue
        text = (at["flag"] or "") + _ESCAPED.sub(r"\1", at["text"])
        words.append(TypedWord(text, at[0], at.start(), at["quote"]))
    return words


def _split_shell(line: str, start: int) -> list[TypedWord]:
    """Split a command as bash does, without what it expands."""
    words: list[TypedWord] = []
    texts: list[str] = []
    first = start
    for at in _SHELL_PART.finditer(line, start):
        if at["between"] is None:
            texts.append(_read_shell_part(at))
            continue
        if texts:
            words.append(_make_shell_word(line[first : at.start()], texts, first))
        texts, first = [], at.end()
    if texts:
        words.append(_make_shell_word(line[first:], texts, first))
    return words


def _read_shell_part(part: re.Match[str]) -> str:
    if part["double"] is not None:
        return _ESCAPED_IN_SHELL.sub(r"\1", part["double"])
    return next(part[name] for name in ("single", "escaped", "plain") if part[name] is not None)


def _make_shell_word(raw: str, texts: list[str], start: int) -> TypedWord:
    return TypedWord("".join(texts), raw, start, raw[0] if raw[0] in "'\"" else "")
