"""Quotes that Tab writes: an inserted value is read as one word."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sshwarma.terminal.completion import Candidate, common_prefix
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.completion import complete
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.grammar import parse_call
from sshwarma.verbs.typed_words import WordStyle, split_words, write_word
from support.people import Someone, do

PATHS = ("sp ace.txt", "my dir/in.txt", "my dir/deep er/x", "plain.txt", "it's", 'say "x".md')
VALUES = st.text(alphabet="ab'\"\\ $`,*~-é\u00a0", min_size=1)


async def store(someone: Someone, *paths: str) -> None:
    for path in paths:
        await invoke(someone.caller, "file put", {"path": path, "content": "x"})


async def find(someone: Someone, line: str, after: str = "") -> Sequence[Candidate]:
    return await complete(someone.caller, line + after, len(line))


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("/file show sp", ["/file show 'sp ace.txt' "]),
        ("/file show 'sp", ["/file show 'sp ace.txt' "]),
        ('/file show "sp', ['/file show "sp ace.txt" ']),
        ("/file show 'sp ace.txt'", ["/file show 'sp ace.txt' "]),
        ("/file show my", ["/file show 'my dir/"]),
        ("/file show 'my dir/", ["/file show 'my dir/deep er/", "/file show 'my dir/in.txt' "]),
        ("/file show 'my dir/deep er/", ["/file show 'my dir/deep er/x' "]),
        ("/file show 'pl", ["/file show 'plain.txt' "]),
        ("/file show it", ["/file show it's "]),
        ("/file show 'it", [r"/file show 'it\'s' "]),
        ("/file show say", ["/file show 'say \"x\".md' "]),
        ('/file show "say', [r'/file show "say \"x\".md" ']),
        ("/file mv 'sp ace.txt' pl", ["/file mv 'sp ace.txt' plain.txt "]),
        ("/file mv 'sp ace.txt' 'my dir/i", ["/file mv 'sp ace.txt' 'my dir/in.txt' "]),
        ("/shell --cwd my", ["/shell --cwd 'my dir/"]),
        ("/shell cat sp", ["/shell cat 'sp ace.txt' "]),
        ("/shell cat 'sp", ["/shell cat 'sp ace.txt' "]),
        ('/shell cat "sp', ['/shell cat "sp ace.txt" ']),
        (r"/shell cat sp\ a", ["/shell cat 'sp ace.txt' "]),
        ("/shell cat <sp", ["/shell cat <'sp ace.txt' "]),
        ("/shell cat 'my dir/i", ["/shell cat 'my dir/in.txt' "]),
        ("/shell cat my", ["/shell cat 'my dir/"]),
        ("/shell cat it", ["/shell cat 'it'\\''s' "]),
        ("/shell cat 'my dir/in.txt' pl", ["/shell cat 'my dir/in.txt' plain.txt "]),
        ("/file 'sh", []),
        ("/file show '--o", []),
    ],
)
async def test_values_with_blanks_are_completed_in_quotes(
    bob: Someone, typed: str, lines: list[str]
) -> None:
    await store(bob, *PATHS)
    found = await find(bob, typed)
    assert [
        typed[: candidate.start] + candidate.text + " " * candidate.space for candidate in found
    ] == lines


async def test_completed_line_is_accepted(bob: Someone) -> None:
    await store(bob, "sp ace.txt")
    (candidate,) = await find(bob, "/file show sp")
    assert candidate.label == "sp ace.txt"
    shown = await do(bob, "/file show sp"[: candidate.start] + candidate.text)
    assert shown.path == "sp ace.txt"


async def test_quote_after_the_cursor_is_not_doubled(bob: Someone) -> None:
    await store(bob, "sp ace.txt")
    (candidate,) = await find(bob, "/file show 'sp", after="'")
    assert (candidate.text, candidate.space) == ("'sp ace.txt", False)


async def test_common_beginning_of_quoted_values_is_inserted(bob: Someone) -> None:
    await store(bob, "sp ace.txt", "sp ice.txt")
    assert common_prefix(await find(bob, "/file show s")) == "'sp "


async def test_alias_may_begin_the_command_of_a_shell(bob: Someone) -> None:
    await store(bob, "sp ace.txt")
    await do(bob, "/alias show = /shell cat")
    (candidate,) = await find(bob, "/show 'sp")
    assert candidate.text == "'sp ace.txt'"


@given(VALUES, st.sampled_from(["", "'", '"']))
@example(r"a\'b c", '"')
def test_written_argument_is_read_as_the_value(value: str, quote: str) -> None:
    line = f"/file show {write_word(value, 'argument', quote, closed=True)}"
    verb, start = split_verb(line)
    if value.startswith("-") and not quote and line.endswith(f" {value}"):
        return  # a flag
    assert parse_call(verb, line, start)[1]["path"] == value
    if quote or "," not in value or line.endswith("'"):
        assert [word.text for word in split_words(line, start, "argument")] == [value]


@given(VALUES, st.sampled_from(["", "'", '"']))
def test_written_word_of_a_shell_is_read_as_the_value(value: str, quote: str) -> None:
    written = write_word(value, "shell", quote, closed=True)
    if quote != '"' or not {"$", "`"} & {*value}:  # shlex keeps the backslash before these
        assert shlex.split(written) == [value]
    assert [word.text for word in split_words(f"x {written}", 2, "shell")] == [value]


@given(VALUES, st.sampled_from(["'", '"']), st.sampled_from(["argument", "shell"]))
def test_open_quote_keeps_the_value(value: str, quote: str, style: WordStyle) -> None:
    line = write_word(value, style, quote, closed=False)
    (word,) = split_words(line, 0, style)
    assert (word.text, word.start) == (value, 0)


@given(st.text(alphabet="ab'\"\\ ,;=-\n"), st.sampled_from(["argument", "shell", "text"]))
def test_last_word_is_at_the_end_of_the_line(line: str, style: WordStyle) -> None:
    words = split_words(line, 0, style)
    for word in words:
        assert line[word.start :].startswith(word.raw)
    assert words[-1].start + len(words[-1].raw) == len(line)
