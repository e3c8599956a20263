"""Times as people type them."""

from __future__ import annotations

import pytest

from sshwarma.common.times import format_iso, parse_since

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", NOW - 30 * 60_000),
        ("2027-01-15", 1_799_971_200_000),
        ("2027-01-15T08:00", NOW),
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15T09:00+01:00", NOW),
        (format_iso(NOW), NOW),
    ],
)
def test_time_without_an_offset_is_utc(text: str, expected: int) -> None:
    assert parse_since(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "5x", "2027-13-01"])
def test_other_text_is_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time\. Give 30m, 2h, 7d"):
        parse_since(text, NOW)


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (9 * 10**15, "9999-12-31T23:59:59.000+00:00"),
        (-(10**18), "0001-01-01T00:00:00.000+00:00"),
    ],
)
def test_time_without_a_year_of_four_digits_is_the_nearest(at_ms: int, text: str) -> None:
    """One row of an edited database makes no list fail."""
    assert format_iso(at_ms) == text
