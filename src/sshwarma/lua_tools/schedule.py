"""Times of a trigger, in the notation of cron: `0 9 * * mon-fri Europe/Berlin`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from sshwarma.common.limits import MAX_SCHEDULE_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, too_long_error

_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of minute, hour, day of the month, month and day of the week, in a zone.

    Attributes:
        text: as it was written.
        fields: those of cron.
        zone: the time zone; hours that a change of the clocks skips or repeats are as in Debian.
    """

    text: str
    fields: str
    zone: ZoneInfo | None

    def next_after(self, at: int) -> int | None:
        """Return the first time after another, in ms since 1970; None if none comes."""
        return _to_ms(CronSim(self.fields, self.to_local(at)))

    def last_until(self, at: int) -> int | None:
        """Return the last time that is not after a time; None if there was none."""
        after = self.to_local(at).replace(microsecond=0) + timedelta(seconds=1)
        return _to_ms(CronSim(self.fields, after, reverse=True))

    def to_local(self, at: int) -> datetime:
        """Return a time, in ms since 1970, in the zone; in UTC without one."""
        return datetime.fromtimestamp(at / 1000, self.zone or UTC)


def _to_ms(times: Iterator[datetime]) -> int | None:
    found = next(times, None)
    return None if found is None else round(found.timestamp() * 1000)


def parse_schedule(text: str) -> Schedule:
    """Return the times that a text means.

    Raises:
        Invalid: naming the field that is wrong.
    """
    if len(text) > MAX_SCHEDULE_CHARACTERS:
        raise too_long_error("a time", len(text), MAX_SCHEDULE_CHARACTERS)
    words = text.split()
    fields, zones = words[:_FIELDS], words[_FIELDS:]
    if len(fields) < _FIELDS or len(zones) > 1:
        raise Invalid(
            "a time has five fields and perhaps a zone: minute, hour, day of the month, month,"
            " day of the week"
        )
    schedule = Schedule(" ".join(words), " ".join(fields), _find_zone(zones[0]) if zones else None)
    try:
        CronSim(schedule.fields, datetime.now(schedule.zone or UTC))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        raise Invalid(f"the {field} of {shorten_name(schedule.fields)} is wrong") from error
    return schedule


def _find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"unknown time zone {shorten_name(name)}") from None
