"""Results of commands, as people see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.sandbox.bubblewrap import SandboxObstacle
from sshwarma.sandbox.run import SandboxError
from sshwarma.services import services_of
from sshwarma.verbs.shell import CommandResult, draw_command_result
from sshwarma.world.errors import Unavailable
from sshwarma.world.reader import PERSON
from support.people import Someone, do

OBSTACLE = SandboxObstacle("bubblewrap failed", "run sshwarma doctor")


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


@pytest.mark.parametrize("when", ["before", "at the start"])
async def test_remedy_of_a_missing_sandbox_is_for_an_administrator(
    alice: Someone, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async def fail(*_: object) -> None:
        raise SandboxError(OBSTACLE)

    runs = services_of(alice.caller).runs
    monkeypatch.setattr(runs.sandbox, "obstacle", OBSTACLE if when == "before" else None)
    monkeypatch.setattr(runs, "run", fail)
    with pytest.raises(Unavailable) as raised:
        await do(alice, "/shell date")
    assert "bubblewrap failed." in raised.value.message
    assert raised.value.hint_for(PERSON) == "The operator can run sshwarma doctor."
