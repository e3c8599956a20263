"""Times of triggers, also where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from sshwarma.lua_tools.schedule import parse_schedule
from sshwarma.world.errors import Invalid

BERLIN = ZoneInfo("Europe/Berlin")


def ms(*parts: int, zone: ZoneInfo | None = None) -> int:
    year, month, day, hour, minute = (*parts, 0, 0)[:5]
    return round(datetime(year, month, day, hour, minute, tzinfo=zone or UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "at", "following", "last"),
    [
        ("*/5 * * * *", ms(2026, 1, 1, 0, 7), ms(2026, 1, 1, 0, 10), ms(2026, 1, 1, 0, 5)),
        ("0 9 * * *", ms(2026, 1, 1, 9), ms(2026, 1, 2, 9), ms(2026, 1, 1, 9)),
        ("0 9 * * mon-fri", ms(2026, 1, 3, 12), ms(2026, 1, 5, 9), ms(2026, 1, 2, 9)),
        (
            "0 9 * * * Europe/Berlin",
            ms(2026, 3, 28, 12, zone=BERLIN),
            ms(2026, 3, 29, 9, zone=BERLIN),
            ms(2026, 3, 28, 9, zone=BERLIN),
        ),
    ],
)
def test_times_around_a_moment(text: str, at: int, following: int, last: int) -> None:
    schedule = parse_schedule(text)
    assert (schedule.next_after(at), schedule.last_until(at)) == (following, last)


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        ((2026, 3, 29), 23),  # 2:30 does not exist: it is at 3:00
        ((2026, 10, 25), 25),  # 2:30 comes twice: it is once
    ],
)
def test_a_time_comes_once_on_days_when_the_clocks_change(
    day: tuple[int, int, int], hours: int
) -> None:
    schedule = parse_schedule("30 2 * * * Europe/Berlin")
    at = ms(*day, zone=BERLIN) - 1
    end = at + hours * 3_600_000
    times: list[int] = []
    while (found := schedule.next_after(at)) is not None and found < end:
        times.append(found)
        at = found
    assert len(times) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("* * * *", "five fields"),
        ("* * * * * UTC more", "five fields"),
        ("61 * * * *", "the minute of 61"),
        ("* 24 * * *", "the hour of"),
        ("* * 31 2 *", "the day of month of"),
        ("* * * foo *", "the month of"),
        ("* * * * 1/0", "the day of week of"),
        ("* * * * * Mars/X", "unknown time zone Mars/X"),
        ("* * * * * ../../etc/passwd", "unknown time zone"),
        ("* * * * * /etc/passwd", "unknown time zone"),
        (",".join("0" * 3_000) + " * * * *", "at most 200 characters .got 6007"),
    ],
)
def test_wrong_times_are_refused(text: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        parse_schedule(text)
