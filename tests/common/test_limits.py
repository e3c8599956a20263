"""The table of limits: every one is named for its unit, explained, and used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sshwarma.common import limits, units
from sshwarma.settings import Settings
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.terminal.editor import Editor

TOP = Path(__file__).parents[2]
sys.path.insert(0, str(TOP))

from docs.generate import limits_by_section  # noqa: E402 - the path is set above

SOURCE = TOP / "src" / "sshwarma"
FOUND = [row for rows in limits_by_section().values() for row in rows]
NAMES = [name for name, _, _ in FOUND]


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every word of the program, without the table itself."""
    files = [file for file in SOURCE.rglob("*.py") if file != Path(limits.__file__)]
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


def test_table_lists_every_constant_once() -> None:
    public = [name for name in vars(limits) if name.isupper() and name not in vars(units)]
    assert sorted(public) == sorted(NAMES)
    assert len(NAMES) == len(set(NAMES)) > 100


@pytest.mark.parametrize("name", NAMES)
def test_limit_is_used(name: str, words: set[str]) -> None:
    assert name in words


REASON = re.compile(r"[.:] |,? because |,? so that ")
"""What stands between what a limit counts and its reason."""

NO_REASON = re.compile(
    r"(?:the (?:rest|next|others?|oldest|newest)|an? (?:longer|larger|deeper)|more|fewer)\b"
    r"[^.:,;]* (?:is|are) \w+\.?$",
    re.IGNORECASE,
)
"""What happens past the limit alone, such as `The rest is cut.`: no reason."""

FILLER = re.compile(
    r"to be safe|just in case|reasonable|sensible|generous|for safety|seems|should be enough",
    re.IGNORECASE,
)


def _has_reason(meaning: str) -> bool:
    """Return whether a meaning says what is counted, and in a second part why."""
    what, *reasons = REASON.split(meaning)
    return bool(what) and any(
        len(part.split()) >= 3 and not NO_REASON.match(part) for part in reasons
    )


@pytest.mark.parametrize(("name", "value", "meaning"), FOUND, ids=NAMES)
def test_limit_is_positive_well_named_and_explained(name: str, value: float, meaning: str) -> None:
    assert value > 0
    assert re.match(r"(MAX|MIN|DEFAULT)_\w+$|\w+_(SECONDS|MINUTES)$", name)
    assert meaning.endswith(".")
    assert _has_reason(meaning), "say what it counts, then in a second part why it is limited"
    assert not FILLER.search(meaning)


@pytest.mark.parametrize(
    "meaning",
    [
        "Aliases of one agent.",
        "Characters of one answer; the rest is cut.",
        "Characters of one answer. The rest is cut.",
        "Searches that wait: the next is refused.",
        "Cells of one table. A larger one is refused.",
        "Seconds of one call, unless its provider sets another limit.",
    ],
)
def test_meaning_without_a_reason_is_found(meaning: str) -> None:
    assert not _has_reason(meaning)


@pytest.mark.parametrize(
    ("ending", "unit"),
    [
        ("_SECONDS", "Seconds"),
        ("_MINUTES", "Minutes"),
        ("_HOURS", "Hours"),
        ("_DAYS", "Days"),
        ("_BYTES", "Bytes"),
        ("_MIB", "MiB"),
        ("_CHARACTERS", "Characters"),
        ("_TOKENS", "Tokens"),
        ("_ROWS", "Rows"),
        ("_LINES", "Lines"),
        ("_COLUMNS", "Columns"),
    ],
)
def test_explanation_starts_with_the_unit_of_the_name(ending: str, unit: str) -> None:
    found = [(name, meaning) for name, _, meaning in FOUND if name.endswith(ending)]
    assert found
    assert not [name for name, meaning in found if not re.match(rf"{unit}\b", meaning)]


def test_default_is_defined_once() -> None:
    assert Settings().limits.line_bytes == Editor(()).submit_limit == limits.DEFAULT_LINE_BYTES
    assert AdmissionLimits().columns == (limits.MIN_TERMINAL_COLUMNS, limits.MAX_TERMINAL_COLUMNS)
    assert AdmissionLimits().rows == (limits.MIN_TERMINAL_ROWS, limits.MAX_TERMINAL_ROWS)
