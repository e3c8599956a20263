"""Lines of a text, by number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.lines import (
    count_text_lines,
    insert_before_line,
    number_text_lines,
    read_line_range,
    replace_line_range,
    split_text_lines,
)

TEXTS = st.text(alphabet="ab\n\r\u2028 ", max_size=30)


@given(TEXTS)
def test_lines_join_to_the_text(text: str) -> None:
    lines = split_text_lines(text)
    assert "".join(lines) == text and all(lines)
    assert count_text_lines(text) == len(lines)
    assert read_line_range(text, 1, None) == text
    for number in range(1, len(lines) + 1):
        assert read_line_range(text, number, number) == lines[number - 1]


@given(TEXTS, st.integers(1, 12), st.integers(0, 4))
def test_replacing_changes_only_its_lines(text: str, first: int, more: int) -> None:
    lines, last = split_text_lines(text), first + more
    if first > len(lines):
        with pytest.raises(IndexError):
            replace_line_range(text, first, last, "new")
        return
    assert replace_line_range(text, first, last, "") == "".join(lines[: first - 1] + lines[last:])
    made = split_text_lines(replace_line_range(text, first, last, "new"))
    assert made[first - 1].rstrip("\r\n") == "new"
    assert made[: first - 1] == lines[: first - 1] and made[first:] == lines[last:]


@given(TEXTS, st.integers(1, 12))
def test_inserted_lines_are_whole(text: str, number: int) -> None:
    before = [line.rstrip("\r\n") for line in split_text_lines(text)]
    after = [
        line.rstrip("\r\n") for line in split_text_lines(insert_before_line(text, number, "new"))
    ]
    at = min(number - 1, len(before))
    assert after == [*before[:at], "new", *before[at:]]


def test_ends_are_those_of_the_text() -> None:
    assert insert_before_line("a\r\nb", 3, "c") == "a\r\nb\r\nc\r\n"
    assert replace_line_range("a\r\nb\r\n", 1, 1, "x\ny") == "x\ny\r\nb\r\n"
    assert replace_line_range("a\nb", 2, 2, "c") == "a\nc"
    assert insert_before_line("", 1, "a") == "a\n"


def test_numbers_stand_to_the_right() -> None:
    assert number_text_lines("a\nb\n", 9) == " 9 | a\n10 | b\n"
    assert number_text_lines("a", separator="\t") == "1\ta"
    assert number_text_lines("") == ""
