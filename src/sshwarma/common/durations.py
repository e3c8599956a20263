"""Durations as people write them: `30m`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS

UNIT_SECONDS: Final = {
    "m": MINUTE_SECONDS,
    "h": HOUR_SECONDS,
    "d": DAY_SECONDS,
    "w": 7 * DAY_SECONDS,
}

_DURATION: Final = re.compile(r"(\d{1,6})([mhdw])")


def parse_duration(text: str) -> int | None:
    """Return the seconds of a duration, or None if the text is not one."""
    match = _DURATION.fullmatch(text)
    return int(match[1]) * UNIT_SECONDS[match[2]] if match else None
