"""Results of commands, as people see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.verbs.shell import CommandResult, draw_command_result


def draw(output: str) -> list[str]:
    result = CommandResult("", 0, output, 0, 0.0, "", (), ())
    *lines, _ = draw_command_result(result).lines
    return ["".join(text for _, text in line.spans) for line in lines]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("10 %\r20 %\r100 %\nmore\n", ["100 %", "more"]),
        ("long line\rab", ["abng line"]),
        ("a\r\nb", ["a", "b"]),
    ],
)
def test_line_that_is_written_again_has_its_last_state(output: str, shown: list[str]) -> None:
    assert draw(output) == shown


@given(st.text("ab\r", min_size=1).map(lambda text: f"x{text}x"))
def test_last_state_is_that_of_a_terminal(output: str) -> None:
    cells: list[str] = []
    column = 0
    for sign in output:
        if sign == "\r":
            column = 0
            continue
        cells[column : column + 1] = [sign]
        column += 1
    assert draw(output) == ["".join(cells)]


def test_line_of_many_states_is_drawn_in_one_pass() -> None:
    """With a copy for each state, this would take minutes."""
    assert draw("x" * 400_000 + "\ry" * 400_000) == ["y" + "x" * 399_999]
