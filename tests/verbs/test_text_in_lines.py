"""Where the text of a line begins: after a name, `=`, `--`, or from a pipe."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.grammar import find_text_form, parse_call
from sshwarma.verbs.verb import quote_word
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import PERSON


def parsed(line: str) -> dict[str, Any]:
    verb, start = split_verb(line)
    return parse_call(verb, line, start)[1]


@pytest.mark.parametrize(("line", "hint"), [
    ("/mem session set a b = v", "'a b' = …"),
    ("/mem project set plan --project /srv/x release = v", "'plan release' = …"),
    ("/mem session append a b c = d", "'a b c' = …"),
])  # fmt: skip
def test_name_with_spaces_is_not_cut_at_its_first_word(line: str, hint: str) -> None:
    with pytest.raises(Invalid, match="not clear where the text begins") as caught:
        parsed(line)
    assert hint in caught.value.hint_for(PERSON)


@pytest.mark.parametrize(("line", "text"), [
    ("/mem session insert code 3 x = 1", "x = 1"),
    ("/tool new dice local n = 1 return n", "local n = 1 return n"),
    ("/put cfg key = value", "key = value"),
    ("/mem session set a x=1", "x=1"),
    ("/mem session set a = b = c", "b = c"),
    ("/mem session set a one\ntwo = 2", "one\ntwo = 2"),
])  # fmt: skip
def test_text_without_equals_may_have_one_where_nothing_else_is_meant(line: str, text: str) -> None:
    assert text in parsed(line).values()


def test_what_follows_two_dashes_is_no_flag() -> None:
    for key in ("-dash", "--long", "--"):
        given = parsed(f"/mem session set -- {key} = v")
        assert (given["key"], given["value"]) == (key, "v")
        assert parsed(f"/mem session set {quote_word(key)} = v")["key"] == key
    with pytest.raises(Invalid, match="needs KEY"):
        parsed("/mem session set --")


@pytest.mark.parametrize(("line", "form"), [
    ("/mem session set -- -key", "missing"),
    ('/mem session set "a b"', "missing"),
    ("/mem session set", "marked"),
    ("/mem session set key =", "marked"),
    ("/mem session set key v", "words"),
    ("/mem session set a b = v", "marked"),
    ("/mem project set key", "missing"),
    ("/mem project set key = v", "marked"),
    ("/mem project set key --from other", "marked"),
    ("/mem session insert key 3", "missing"),
])  # fmt: skip
def test_line_says_whether_its_text_is_to_come_by_a_pipe(line: str, form: str) -> None:
    verb, start = split_verb(line)
    assert find_text_form(verb, line, start) == form
