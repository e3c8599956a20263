"""A question for an approval, as those read it who may answer, and who may not."""

from __future__ import annotations

import pytest

from ssh_door.test_shell import OwnScreen, carols_shell
from sshwarma.tools.approvals import APPROVAL_KEY
from sshwarma.world import agents, rows
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import world
from support.waiting import until

__all__ = ["world"]


@pytest.mark.parametrize("may_answer", [True, False])
async def test_only_who_may_answer_reads_how(world: World, may_answer: bool) -> None:
    screen = OwnScreen()
    house, shell = await carols_shell(world, screen)
    carol = world.agents.find("carol")
    if may_answer:
        await world.change(lambda tx: agents.update_agent(tx, carol.id, role="owner"))
    await until(lambda: "lobby>" in screen.text)

    def ask(tx: Change) -> None:
        text = "asks to run kit:ask:\nwithout arguments"
        rows.append_row(tx, "lobby", "notice", text, author_id=carol.id, meta={APPROVAL_KEY: 1})

    await world.change(ask)
    how, who = "/allow 1 (F8)", "Owners and builders of the room answer this"
    await until(lambda: (how if may_answer else who) in screen.text)
    assert (who if may_answer else how) not in screen.text
    shell.closed(None)
    await house.flush()
