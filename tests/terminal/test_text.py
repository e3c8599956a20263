"""Texts that authors broke into lines, drawn at other widths."""

from __future__ import annotations

import pytest

from sshwarma.terminal.render import DisplayOptions, render_block
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
def test_lines_of_a_paragraph_are_joined(text: str, lines: list[str]) -> None:
    assert block(*reflowed(text)).plain().split("\n") == lines


@pytest.mark.parametrize(
    ("text", "hang"),
    [
        ("  enter      be in the room", 13),
        ("  /room private  only members", 17),
        ("  no second column", 6),
        ("  one whose first column is very long, but has a second  one", 57),
        ("plain", 0),
    ],
)
def test_wrapped_text_aligns_with_the_second_column(text: str, hang: int) -> None:
    (line,) = reflowed(text)
    assert line.hang == hang
    (line,) = reflowed(text, indent=2)
    assert line.hang == hang + 2


def test_line_indented_to_the_second_column_continues_it() -> None:
    text = "  side    system, or\n          conversation\n\n  budget  tokens\n    more"
    drawn = block(*reflowed(text)).plain().split("\n")
    assert drawn == ["  side    system, or conversation", "", "  budget  tokens", "    more"]


def test_a_comment_in_code_stays_one_on_every_row() -> None:
    text = (
        "A script:\n\n  -- @param label string? Words to put before it\n  return 'a b c d e f g h'"
    )

    def draw(indent: int, width: int) -> list[str]:
        drawn = block(*reflowed(text, indent=indent))
        return render_block(drawn, DisplayOptions(width, "mono")).decode().splitlines()

    rows = draw(2, 30)
    assert rows[2:] == [
        "    -- @param label string?",
        "    --    Words to put before",
        "    --    it",
        "    return 'a b c d e f g h'",
    ]
    assert draw(0, 80)[2:] == text.split("\n")[2:]
