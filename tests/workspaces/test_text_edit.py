"""Replacing a part of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.text_edit import replace_part
from sshwarma.world.errors import Conflict, Invalid, NotFound

CODE = "def f():\n    x = 1\n    return x\n\n\ndef g():\n    y = 2\n    return y\n"


def test_exact_part_is_replaced() -> None:
    made = replace_part(CODE, "x = 1", "x = 3")
    assert made.text == CODE.replace("x = 1", "x = 3")
    assert (made.count, made.line, made.lines, made.how) == (1, 2, 1, "")


def test_part_at_several_places_names_their_lines() -> None:
    with pytest.raises(Conflict, match="2 times: at lines 3, 8"):
        replace_part(CODE, "    return", "    yield")
    assert replace_part(CODE, "    return", "    yield", everywhere=True).count == 2


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "how"),
    [
        ("a  \nb\n", "a\nb", "c\nd", "c\nd\n", "but for spaces at line ends"),
        ("if x:\n        a\n        b\n", "a\nb", "c\n  d", "if x:\n        c\n          d\n",
         "with another indent"),
        ("a\nb\n", "    a\n    b", "    c\n      d", "c\n  d\n", "with another indent"),
        ("say “hi”\n", 'say "hi"', "say 'ho'", "say 'ho'\n", "but for quotes and dashes"),
    ],
)  # fmt: skip
def test_part_is_found_but_for_spacing(
    text: str, old: str, new: str, result: str, how: str
) -> None:
    made = replace_part(text, old, new)
    assert (made.text, made.how) == (result, how)


def test_uneven_indent_is_refused() -> None:
    with pytest.raises(NotFound):
        replace_part("  a\n b\n", "a\nb", "c")


def test_windows_line_ends_stay() -> None:
    made = replace_part("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n")
    assert made.text == "x\r\ny\r\nc\r\n"
    made = replace_part("a  \r\nb\r\n", "a\nb", "x\ny")
    assert made.text == "x\r\ny\r\n"


def test_line_numbers_of_a_listing_are_ignored() -> None:
    made = replace_part(CODE, "     2\t    x = 1", "     2\t    x = 9")
    assert "    x = 9\n" in made.text


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(Invalid, match="must not be empty"):
        replace_part(CODE, "", "x")
    with pytest.raises(Invalid, match="the same"):
        replace_part(CODE, "x = 1", "x = 1")
    with pytest.raises(NotFound, match="new is, at line 7: it may be done already"):
        replace_part(CODE, "z = 1", "y = 2")
    with pytest.raises(NotFound, match=r"nearest lines are:(.|\n)*2\t    x = 1"):
        replace_part(CODE, "    x = 12", "")
    with pytest.raises(NotFound, match="Read the file again"):
        replace_part(CODE, "zzzzzzzzzzzz", "")


LINES = st.lists(st.text("ab \t", max_size=4), min_size=1, max_size=6).map("\n".join)


@given(LINES, LINES, LINES, LINES)
def test_only_the_part_changes(before: str, old: str, after: str, new: str) -> None:
    """Whatever surrounds a part that is there once stays as it is."""
    text = f"{before}<{old}>{after}"
    made = replace_part(text, f"<{old}>", f"[{new}]")
    assert made.text == f"{before}[{new}]{after}"


@given(LINES, LINES, LINES)
def test_tolerant_passes_keep_the_other_lines(text: str, old: str, new: str) -> None:
    try:
        made = replace_part(text, old, new)
    except (Conflict, Invalid, NotFound):
        return
    if made.how:
        kept = text.split("\n")
        assert made.text.split("\n")[: made.line - 1] == kept[: made.line - 1]


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("x\n" * 100_000, "x", "there 100000 times: at lines 1, 2, .* and 99990 more"),
        ("x \n" * 100_000, "x\n" * 50_000 + "y\n", "not in the file"),
        ("x \n" * 100_000, "x\n" * 50_000, "there 20 times: at lines 1, 2"),
        ("  x\n" * 100_000, "x\n" * 50_000 + " y\nx\n", "not in the file"),
        (("abcdefghij" * 12 + "\n") * 8_000, "jihgfedcba" * 12, "not in the file"),
        ("ab" * 500_000, "ba" * 499_999 + "c", "not in the file"),
    ],
    ids=["same", "same-but-the-last", "same-with-spaces", "indented", "alike", "one-line"],
)  # fmt: skip
def test_large_hostile_texts_take_no_longer_than_reading_them(
    text: str, old: str, said: str
) -> None:
    """Line by line, or place by place, each would take minutes."""
    with pytest.raises((Conflict, NotFound), match=said):
        replace_part(text, old, "new")
