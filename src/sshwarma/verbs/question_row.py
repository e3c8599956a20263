"""Rows that ask for an approval: the arguments in full, and who answers how."""

from __future__ import annotations

from typing import Final

from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.tools.approval_people import may_approve
from sshwarma.tools.approvals import APPROVAL_KEY, ONLY_PERSON_KEY, OTHERS_WAIT_KEY
from sshwarma.world.agents import Agent
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row

WRAPPED_COLUMNS: Final = 10
"""Columns before wrapped rows of arguments that are asked about."""

WHO_ANSWERS: Final = (
    "  Owners and builders of the room answer this, and admins and owners of this server."
)

WHO_ANSWERS_SCRIPTS: Final = "  The person in whose name the script asks answers this, alone."


def is_question_for_others(row: Row, agent: Agent | None, room: Room | None) -> bool:
    """Return whether a row asks for an approval that the agent may not give."""
    if row.meta.get(APPROVAL_KEY) is None or agent is None or room is None:
        return False
    return not may_approve(agent, room) or row.meta.get(ONLY_PERSON_KEY, agent.id) != agent.id


def draw_question(
    head: list[Span],
    row: Row,
    text: str,
    remainder: list[Line],
    *,
    is_for_others: bool,
    has_keys: bool = True,
) -> Block:
    """Draw a question.

    Args:
        head: what stands before it.
        row: the question.
        text: what is shown of it.
        remainder: what says how to read the rest of it.
        is_for_others: whether its reader may not answer.
        has_keys: whether its reader has keys that answer it.
    """
    first, *arguments = text.split("\n")
    others = WHO_ANSWERS_SCRIPTS if row.meta.get(ONLY_PERSON_KEY) else WHO_ANSWERS
    how = others if is_for_others else _describe_answers(row, has_keys)
    asked = line(*head, ("text", first), hang=4)
    return block(asked, *draw_arguments(arguments, 2), *remainder, line(("dim", how)))


def _describe_answers(row: Row, has_keys: bool) -> str:
    """Return how to answer; a key answers the only question of a room."""
    number = row.meta[APPROVAL_KEY]
    has_keys = has_keys and not row.meta.get(OTHERS_WAIT_KEY)
    keys = (" (F8)", " (F9)") if has_keys else ("", "")
    return f"  /allow {number}{keys[0]}, or /deny {number}{keys[1]} and why"


def draw_arguments(lines: list[str], indent: int) -> list[Line]:
    """Draw arguments that are asked about, each indented by `indent` columns.

    Wrapped rows stand deeper than any argument: they would look like one.
    """
    return [line(" " * indent, ("text", part), hang=WRAPPED_COLUMNS) for part in lines]
