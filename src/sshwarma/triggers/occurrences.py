"""What starts a trigger next: rows of its room, states, and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.limits import MAX_TRIGGER_LATE_SECONDS
from sshwarma.events.event_types import EVENT_ADAPTER, RowEvent, SpeakerKind
from sshwarma.events.heard_rows import RowsEvent
from sshwarma.events.matching_rows import Match, MatchingRows
from sshwarma.lua_tools.trigger_declaration import TriggerDeclaration
from sshwarma.world.authors import CAUSE_KEY
from sshwarma.world.ids import now_ms
from sshwarma.world.triggers import Position, Trigger
from sshwarma.world.world import World

MAX_ROWS_AT_ONCE: Final = 50
"""Rows that a trigger reads at once: what follows waits in the log."""

MAX_SLEEP_SECONDS: Final = 60.0
"""Seconds after which a trigger with times looks again: somebody may have set the clock."""

CLOCK_STEP_MS: Final = 60_000
"""Milliseconds by which a clock is back that was set, and not only adjusted."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that starts a trigger once.

    Attributes:
        id: by which it is known that the trigger has run for it.
        cause: which conditions of the trigger it meets.
        data: what the script gets of it.
        position: up to where the trigger has looked once it runs.
        speaker: the kind of who has written its row; None if it is no row.
    """

    id: str
    cause: str
    data: dict[str, Any]
    position: Position
    speaker: SpeakerKind | None = None


class Occurrences:
    """The occurrences of one trigger, from its position on.

    Attributes:
        rows: the rows of its room.
    """

    def __init__(self, world: World, trigger: Trigger, declaration: TriggerDeclaration) -> None:
        self._world = world
        self._trigger = trigger
        self._declaration = declaration
        self._last_time = trigger.last_time
        self._states = trigger.states & {one.name for one in declaration.states}
        self.rows = MatchingRows(
            world, trigger.room_id, trigger.agent_id, declaration.patterns,
            trigger.cursor or None, with_own=True,
        )  # fmt: skip

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until a time of the trigger may have come; None without times."""
        now = now_ms()
        times = [schedule.next_after(now) for schedule in self._declaration.schedules]
        soonest = min((at for at in times if at is not None), default=None)
        if soonest is None:
            return None
        return min(MAX_SLEEP_SECONDS, max(0.0, (soonest - now) / 1000))

    async def find(self, *, with_rows: bool) -> list[Occurrence]:
        """Return what has happened since this was asked last, oldest first of each kind.

        Args:
            with_rows: whether rows may have come.
        """
        found = [*self._find_times(), *await self._find_states()]
        if with_rows and self._declaration.patterns:
            for match in await self.rows.read(MAX_ROWS_AT_ONCE):
                if CAUSE_KEY not in match.row.meta:
                    found.append(self._make_of_row(match))
        return found

    def _make_of_row(self, match: Match) -> Occurrence:
        event: RowsEvent = match.event
        data = EVENT_ADAPTER.dump_python(event, mode="json")
        if isinstance(event, RowEvent):
            return Occurrence(
                match.row.id, ",".join(match.on), {**data, "on": list(match.on)},
                Position(cursor=event.id), event.speaker.kind,
            )  # fmt: skip
        return Occurrence(
            f"{match.row.id}.turns", ",".join(match.on), {**data, "on": list(match.on)}, Position()
        )

    def _find_times(self) -> list[Occurrence]:
        """Return the last time of each schedule, if it is new and not long over."""
        now = now_ms()
        if now < self._last_time - CLOCK_STEP_MS:
            # The clock was set back. It waits for none of the times that it has passed already:
            # the runs that are kept tell which of them it ran at.
            self._last_time = now
        found: list[Occurrence] = []
        for schedule in self._declaration.schedules:
            at = schedule.last_until(now)
            if at is None or at <= self._last_time or at < now - MAX_TRIGGER_LATE_SECONDS * 1000:
                continue
            cause, local = f"at {schedule.text}", schedule.to_local(at).isoformat()
            data = {"type": "time", "at": at, "time": local, "on": [cause]}
            found.append(Occurrence(f"{cause} {at}", cause, data, Position(last_time=at)))
        self._last_time = max(self._last_time, now)
        return sorted(found, key=lambda one: one.position.last_time or 0)

    async def _find_states(self) -> list[Occurrence]:
        """Return the states that the room has got or lost."""
        if not self._declaration.states:
            return []
        now, at = await self._world.states(self._trigger.room_id), now_ms()
        changed = self._states ^ (now & {one.name for one in self._declaration.states})
        found: list[Occurrence] = []
        for name in sorted(changed):
            self._states = self._states ^ {name}
            is_set = name in now
            on = [
                one.text
                for one in self._declaration.states
                if one.name == name and one.is_set == is_set
            ]
            if on:
                data = {"type": "state", "at": at, "state": name, "is_set": is_set, "on": on}
                position = Position(states=self._states)
                found.append(Occurrence(f"{on[0]} {at}", on[0], data, position))
        return found

    @property
    def position(self) -> Position:
        """Up to where it has looked."""
        cursor = str(self.rows.heard.cursor) if self.rows.passed else None
        return Position(cursor, self._last_time, self._states)
