"""SQLite connection constants."""

from __future__ import annotations

from typing import Final

CLOCK_CHECK_INSTRUCTIONS: Final = 1_000
"""Instructions of SQLite's virtual machine between two checks of the clock."""
