"""Replacing a part of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import assume, event, given
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
        ("a\n\nc\n", "a \n\n", "b\n\n", "b\n\nc\n", "but for spaces at line ends"),
        ("a\nc\n", "a\n\n", "b\n\n", "b\nc\n", "without blank lines at its end"),
        ("a\n", "a\n\n", "b\n", "b\n", "without blank lines at its end"),
        ("a\nb", "b \n", "", "a\n", "but for spaces at line ends"),
        ("a\r\nb", "b \n", "c\nd\n", "a\r\nc\r\nd", "but for spaces at line ends"),
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


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "how"),
    [
        (CODE, "     2\t    x = 1", "     2\t    x = 9", CODE.replace("x = 1", "x = 9"), ""),
        (CODE, "     2\t    x = 1\n", "", CODE.replace("    x = 1\n", ""), ""),
        (CODE, "2\tx = 1", "x = 9", CODE.replace("x = 1", "x = 9"), "with another indent"),
        ("a \r\nb\r\n", "1→a\n2→b", "1→c\n2→d", "c\r\nd\r\n", "but for spaces at line ends"),
        ("a\nc\n", "1\ta\n\n", "1\tb\n\n", "b\nc\n", "without blank lines at its end"),
    ],
)  # fmt: skip
def test_line_numbers_of_a_listing_are_ignored(
    text: str, old: str, new: str, result: str, how: str
) -> None:
    made = replace_part(text, old, new)
    assert (made.text, made.how) == (
        result, ", ".join(filter(None, ("without its line numbers", how)))
    )  # fmt: skip


def test_lines_that_begin_with_numbers_are_searched_as_they_are() -> None:
    table = "1\tred\n2\tred\nred hat\n"
    for everywhere in (False, True):
        made = replace_part(table, "1\tred", "1\tblue", everywhere=everywhere)
        assert (made.text, made.count, made.how) == ("1\tblue\n2\tred\nred hat\n", 1, "")
    assert replace_part(table, "1\tred", "7\tred").text == "7\tred\n2\tred\nred hat\n"
    assert replace_part(table, "red hat", "3\tred").text == "1\tred\n2\tred\n3\tred\n"


def test_numbered_part_is_never_found_within_a_line() -> None:
    for everywhere in (False, True):
        with pytest.raises(NotFound, match="old is not in the file"):
            replace_part("concat\ncat food\n", "5\tcat", "5\tdog", everywhere=everywhere)
    made = replace_part("concat\ncat\n", "5\tcat", "5\tdog")
    assert (made.text, made.line, made.how) == ("concat\ndog\n", 2, "without its line numbers")


def test_numbered_lines_are_replaced_everywhere() -> None:
    made = replace_part("a\na\na\nab\na", "1\ta\n2\ta\n", "1\tb\n2\tb\n", everywhere=True)
    assert (made.text, made.count, made.line) == ("b\nb\na\nab\na", 1, 1)
    made = replace_part("a\na\r\nab\na", "7\ta", "7\tb", everywhere=True)
    assert (made.text, made.count) == ("b\nb\r\nab\nb", 3)
    with pytest.raises(Conflict, match="there 3 times: at lines 1, 2, 4"):
        replace_part("a\na\r\nab\na", "7\ta", "7\tb")


def test_lines_that_differ_are_not_replaced_everywhere() -> None:
    with pytest.raises(Conflict, match="there 2 times") as caught:
        replace_part("a \nb\na  \nb\n", "a\nb", "x", everywhere=True)
    assert "replace all" not in str(caught.value.hints)


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


LINES = st.lists(st.text("ab \t12", max_size=4), min_size=1, max_size=6).map("\n".join)


@given(LINES, LINES, LINES, LINES)
def test_only_the_part_changes(before: str, old: str, after: str, new: str) -> None:
    """Whatever surrounds a part that is there once stays as it is."""
    text = f"{before}{old}{after}"
    assume(old and text.count(old) == 1 and old != new)
    made = replace_part(text, old, new)
    start = text.index(old)
    assert made.text == f"{text[:start]}{new}{text[start + len(old) :]}"
    assert made.how == ""


@st.composite
def change_spacing(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a text, and some lines of it as a model may write them."""
    lines = draw(st.lists(st.text("ab \t12", max_size=4), min_size=1, max_size=6))
    start = draw(st.integers(0, len(lines) - 1))
    block = lines[start : draw(st.integers(start + 1, len(lines)))]
    spaces, indent = st.sampled_from(["", " ", "\t"]), draw(st.sampled_from(["", "  "]))
    block = [indent + line.rstrip() + draw(spaces) for line in block]
    if draw(st.booleans()):
        block = [f"{number:6}\t{line}" for number, line in enumerate(block, start + 1)]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n"]))
    return text, "\n".join(block) + "\n" * draw(st.integers(0, 3))


def split_part(part: str, *, ends: bool) -> list[str]:
    """Return the lines of a part, whose last newline begins no other if it ends one."""
    if ends:
        return part.removesuffix("\n").split("\n") if part else []
    return part.split("\n")


def without_numbers(lines: list[str]) -> list[str]:
    """Remove the numbers of a listing, if all lines but empty ones have one."""
    are_numbered = all(re.match(r"\s*\d+\t", line) for line in lines if line)
    return [re.sub(r"^\s*\d+\t", "", line) for line in lines] if are_numbered else lines


def count_blank_end(lines: Sequence[str]) -> int:
    return len(list(takewhile(lambda line: not line.strip(), reversed(lines))))


@given(change_spacing(), LINES, st.integers(0, 3))
def test_tolerant_passes_keep_the_other_lines(
    given: tuple[str, str], made_line: str, ends: int
) -> None:
    """The lines before and after stay, and as many change as should."""
    (text, old), new = given, made_line.rstrip("\n") + "\n" * ends
    try:
        made = replace_part(text, old, new)
    except (Conflict, Invalid, NotFound):
        return
    if not made.how:
        return
    event(made.how)
    old_lines, new_lines = (split_part(part, ends=old.endswith("\n")) for part in (old, new))
    if "numbers" in made.how:
        old_lines, new_lines = without_numbers(old_lines), without_numbers(new_lines)
    left_out = count_blank_end(old_lines) if "blank lines" in made.how else 0
    old_lines = old_lines[: len(old_lines) - left_out]
    new_lines = new_lines[: len(new_lines) - min(left_out, count_blank_end(new_lines))]
    had, has = text.split("\n"), made.text.split("\n")
    first = made.line - 1
    rest = had[first + len(old_lines) :]
    if not rest and not new_lines:  # the line before keeps its end
        rest = [""]
    assert made.lines == len(new_lines)
    assert (has[:first], has[first + len(new_lines) :]) == (had[:first], rest)
    assert [one.strip() for one in old_lines] == [
        one.strip() for one in had[first : first + len(old_lines)]
    ]


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
