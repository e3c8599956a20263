"""Units of sizes and times."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
"""Bytes of a kibibyte."""

MIB: Final = 1024 * KIB
"""Bytes of a mebibyte."""

MINUTE_SECONDS: Final = 60
HOUR_SECONDS: Final = 60 * MINUTE_SECONDS
DAY_SECONDS: Final = 24 * HOUR_SECONDS

MINUTE_MS: Final = 1000 * MINUTE_SECONDS
"""Milliseconds of a minute."""

HOUR_MS: Final = 1000 * HOUR_SECONDS
"""Milliseconds of an hour."""

DAY_MS: Final = 1000 * DAY_SECONDS
"""Milliseconds of a day."""
