"""The last line of a question for an approval, by who reads it."""

from __future__ import annotations

from typing import Final

from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.approvals import APPROVAL_KEY, may_approve
from sshwarma.world.agents import Agent
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row

WHO_ANSWERS: Final = (
    "  Owners and builders of the room answer this, and admins and owners of this server."
)


def is_question_for_others(row: Row, agent: Agent | None, room: Room | None) -> bool:
    """Return whether a row asks for an approval that the agent may not give."""
    if row.meta.get(APPROVAL_KEY) is None or agent is None or room is None:
        return False
    return not may_approve(agent, room)


def say_who_answers(question: Block) -> Block:
    """Return a drawn question with who may answer it, in the place of how to do so."""
    return block(*question.lines[:-1], line(("dim", WHO_ANSWERS)))
