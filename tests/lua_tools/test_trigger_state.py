"""Triggers whose script was changed, times after the clock was set, tests."""

from __future__ import annotations

import base64
import re

import pytest

from sshwarma.common.units import HOUR_SECONDS, MINUTE_SECONDS
from sshwarma.lua_tools.trigger_declaration import parse_trigger
from sshwarma.triggers.occurrences import Occurrences
from sshwarma.world import triggers
from sshwarma.world.world import World
from support.people import Someone, do

MINUTE_MS = MINUTE_SECONDS * 1000
NOON = 1_800_000_000_000 // MINUTE_MS * MINUTE_MS


async def list_on(someone: Someone) -> dict[str, str]:
    """The triggers of the room, with why they are off."""
    return {one.name: one.off_reason for one in (await do(someone, "/trigger")).triggers}


async def test_a_trigger_whose_script_another_changed_is_shown_as_off(
    alice: Someone, bob: Someone, den: str
) -> None:
    """Also before its next event: an export would turn it on elsewhere."""
    await do(alice, f"/room builder {bob.name}")
    await do(bob, "/trigger new door =", "-- @on enter\nreturn 'hi'")
    assert await list_on(alice) == {"door": ""}
    put = await do(alice, "/put trigger:door =", "-- @on enter\nreturn 'mine'")
    assert put.note == "It does not run until somebody turns it on: trigger on door."
    assert await list_on(alice) == {"door": "its script was changed"}
    exported = base64.b64decode((await do(alice, "/export folder")).data)
    assert b"triggers = []" in exported
    await do(bob, "/trigger on door")
    reverted = await do(alice, "/revert trigger:door")
    assert reverted.text.endswith("somebody turns it on: trigger on door.")
    assert await list_on(alice) == {"door": "its script was changed"}


async def test_times_go_on_after_the_clock_was_set_back(
    world: World, alice: Someone, den: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_clock(at: int) -> None:
        monkeypatch.setattr("sshwarma.triggers.occurrences.now_ms", lambda: at)

    script = "-- @at * * * * *\nreturn 'tick'"
    await do(alice, "/trigger new tick =", script)
    (trigger,) = await world.store.read(lambda conn: triggers.list_triggers(conn, den))
    occurrences = Occurrences(world, trigger, parse_trigger(script))

    async def find(at: int) -> list[str]:
        set_clock(at)
        found = await occurrences.find(with_rows=False)
        return [one.id.removeprefix("at * * * * * ") for one in found]

    await find(NOON)
    assert await find(NOON + MINUTE_MS) == [str(NOON + MINUTE_MS)]
    assert await find(NOON + MINUTE_MS - 1_500) == [], "adjusted, not set"
    back = NOON - 2 * HOUR_SECONDS * 1000
    assert await find(back + 1) == []
    assert await find(back + MINUTE_MS) == [str(back + MINUTE_MS)]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (
            "@at 0 9 * * * Europe/Berlin",
            r"at 0 9 [ *]+Europe/Berlin \d{4}-\d\d-\d\dT.*\+0[12]:00",
        ),
        ("@on state:alarm", "state:alarm alarm"),
        ("@on row:chat", "row:chat This is a test."),
    ],
)
async def test_the_event_of_a_test_has_the_fields_of_the_first_condition(
    alice: Someone, den: str, head: str, told: str
) -> None:
    script = f"-- {head}\nreturn event.on[1] .. ' ' .. (event.time or event.state or event.text)"
    await do(alice, "/trigger new try =", script)
    tested = await do(alice, "/trigger test try")
    assert tested.ok, tested.text
    assert re.fullmatch(told, tested.text), tested.text
