"""What the comments of a trigger's script say."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_TRIGGER_SCHEDULES
from sshwarma.lua_tools.trigger_declaration import parse_trigger
from sshwarma.world.errors import Invalid


def test_head_says_what_starts_a_trigger() -> None:
    declared = parse_trigger(
        "-- Pages somebody.\n-- At night.\n-- @on mention, call:error\n"
        "-- @on state:Alarm no-state:x\n"
        "-- @at */5 * * * *\n-- @at 0 9 1 * * UTC\nreturn 1\n-- @on bogus"
    )
    assert declared.summary == "Pages somebody."
    assert declared.conditions == (
        "mention", "call:error", "state:alarm", "no-state:x", "at */5 * * * *", "at 0 9 1 * * UTC",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("return 1\n-- @on row", "does not say what starts it"),
        ("-- @on ", "Line 1 of the script: must name an event"),
        ("-- x\n-- @on bogus", "Line 2 of the script: unknown event bogus"),
        ("-- @param x integer", "unknown tag @param"),
        ("-- @at noon", "Line 1 of the script: a time has five fields"),
        ("-- @at 0 * * * *\n" * (MAX_TRIGGER_SCHEDULES + 1), "at most"),
    ],
)
def test_heads_that_are_wrong_are_refused(source: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        parse_trigger(source)
