"""What starts a trigger: the comments at the head of its script.

    -- Calls somebody when a build fails.
    -- @on call:error,state:alarm
    -- @at 0 9 * * mon-fri Europe/Berlin

`@on` names events, those of hooks and `state:NAME` and `no-state:NAME`: the room gets or loses that
state. `@at` names times as cron does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_TRIGGER_SCHEDULES
from sshwarma.common.shorten import shorten_name
from sshwarma.events.patterns import EventPattern, parse_patterns
from sshwarma.lua_tools.declaration import make_line_error, read_head
from sshwarma.lua_tools.schedule import Schedule, parse_schedule
from sshwarma.world.errors import Invalid

_STATE_PATTERN: Final = re.compile(r"(?P<no>no-)?state:(?P<name>\S+)")
_ON_EXAMPLE: Final = "-- @on mention,call:error,state:alarm"
_AT_EXAMPLE: Final = "-- @at 0 9 * * mon-fri Europe/Berlin"


@dataclass(frozen=True, slots=True)
class StateCondition:
    """A room gets a state, or loses it."""

    name: str
    is_set: bool

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{'' if self.is_set else 'no-'}state:{self.name}"


@dataclass(frozen=True, slots=True)
class TriggerDeclaration:
    """What starts a trigger.

    Attributes:
        summary: the first comment of the script.
        patterns: of rows.
        states: of its room.
        schedules: its times.
    """

    summary: str
    patterns: tuple[EventPattern, ...] = ()
    states: tuple[StateCondition, ...] = ()
    schedules: tuple[Schedule, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that starts it, as it is written."""
        return (
            *(pattern.text for pattern in self.patterns),
            *(state.text for state in self.states),
            *(f"at {schedule.text}" for schedule in self.schedules),
        )


def parse_trigger(source: str) -> TriggerDeclaration:
    """Return what starts a trigger.

    Raises:
        Invalid: naming the line that is wrong, or if nothing starts it.
    """
    summary = ""
    events: list[str] = []
    states: dict[StateCondition, None] = {}
    schedules: list[Schedule] = []
    first_on = 0
    for number, text in read_head(source):
        tag, _, rest = text.partition(" ")
        if tag == "@on":
            first_on = first_on or number
            events += _split_events(rest, states)
        elif tag == "@at":
            schedules.append(_parse_time(number, rest))
        elif tag.startswith("@"):
            raise make_line_error(number, f"unknown tag {shorten_name(tag)}", _ON_EXAMPLE)
        else:
            summary = summary or text
    if len(schedules) > MAX_TRIGGER_SCHEDULES:
        raise Invalid(f"A trigger can have at most {MAX_TRIGGER_SCHEDULES} lines with @at.")
    patterns: tuple[EventPattern, ...] = ()
    if events or (first_on and not states):
        try:
            patterns = parse_patterns(",".join(events))
        except Invalid as error:
            error.message = f"Line {first_on} of the script: {error.message.removeprefix('on: ')}"
            raise
    if not patterns and not states and not schedules:
        raise Invalid(
            "The script does not say what starts it.",
            hint=f"Begin it with a line such as {_ON_EXAMPLE} or {_AT_EXAMPLE}",
        )
    return TriggerDeclaration(summary, patterns, tuple(states), tuple(schedules))


def _split_events(text: str, states: dict[StateCondition, None]) -> list[str]:
    """Return the words of a list that are no states; add those to `states`."""
    events: list[str] = []
    for word in text.replace(" ", ",").split(","):
        if match := _STATE_PATTERN.fullmatch(word):
            states[StateCondition(match["name"].lower(), not match["no"])] = None
        elif word:
            events.append(word)
    return events


def _parse_time(number: int, text: str) -> Schedule:
    try:
        return parse_schedule(text)
    except Invalid as error:
        raise make_line_error(number, error.message, _AT_EXAMPLE) from error
