"""Sizes and times are written with the units of one file."""

from __future__ import annotations

import re
from pathlib import Path

from sshwarma.common.units import DAY_MS, HOUR_MS, MIB, MINUTE_MS

SOURCE = Path(__file__).parents[2] / "src" / "sshwarma"

BY_HAND = re.compile(r"<< ?[12]0\b|\* 1024\b|\b(?:1_048_576|86_400(?:_000)?|3_?600(?:_000)?)\b")


def test_units_have_their_values() -> None:
    assert (MIB, MINUTE_MS, HOUR_MS, DAY_MS) == (1_048_576, 60_000, 3_600_000, 86_400_000)


def test_sizes_and_times_are_written_with_units() -> None:
    lines = {
        line.strip()
        for file in SOURCE.rglob("*.py")
        if file.name != "units.py"
        for line in file.read_text(encoding="utf-8").splitlines()
        if BY_HAND.search(line)
    }
    assert lines == {"MAX_SERVER_MEMORY_MIB: Final = 1_048_576"}
