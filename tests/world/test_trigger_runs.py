"""Runs of triggers: an event has one."""

from __future__ import annotations

from sshwarma.world import things, triggers
from sshwarma.world.store import Change
from sshwarma.world.triggers import Position
from sshwarma.world.world import World
from support.people import Someone


async def test_an_event_runs_a_trigger_once(world: World, alice: Someone) -> None:
    def work(tx: Change) -> list[bool]:
        script = things.create_thing(tx, "lobby", "data", "trigger:pager", content="-- x")
        start = Position("", 0, frozenset())
        trigger_id = triggers.turn_on(tx, script, alice.id, start)
        events = ("one", "one", "two")
        return [
            triggers.begin_run(tx, trigger_id, event, "row", start) is not None for event in events
        ]

    assert await world.change(work) == [True, False, True]
