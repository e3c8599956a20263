"""Texts that authors broke into lines, drawn at other widths."""

from __future__ import annotations

import pytest

from sshwarma.terminal.text import block, reflowed


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo\n\nthree", ["one two", "", "three"]),
        ("one\n  /look  what is here\ntwo", ["one", "  /look  what is here", "two"]),
        ("# Title\n\n- first\n  more\n- second", ["# Title", "", "- first", "  more", "- second"]),
        ("", [""]),
    ],
)
def test_lines_of_a_paragraph_become_one(text: str, lines: list[str]) -> None:
    assert block(*reflowed(text)).plain().split("\n") == lines


@pytest.mark.parametrize(
    ("text", "hang"),
    [
        ("  enter      be in the room", 13),
        ("  /room private  only members", 17),
        ("  no second column", 2),
        ("  one whose first column is far too long  for that", 2),
        ("plain", 0),
    ],
)
def test_what_wraps_is_aligned_with_the_second_column(text: str, hang: int) -> None:
    (line,) = reflowed(text)
    assert line.hang == hang
    (line,) = reflowed(text, indent=2)
    assert line.hang == hang + 2
