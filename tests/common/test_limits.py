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


@pytest.mark.parametrize(("name", "value", "meaning"), FOUND, ids=NAMES)
def test_limit_is_positive_well_named_and_explained(name: str, value: float, meaning: str) -> None:
    assert value > 0
    assert re.match(r"(MAX|MIN|DEFAULT)_\w+$|\w+_SECONDS$", name)
    assert meaning.endswith(".") and len(meaning) > 20


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_SECONDS")])
def test_limit_in_seconds_is_explained_in_seconds(name: str) -> None:
    meaning = next(meaning for known, _, meaning in FOUND if known == name)
    assert meaning.startswith("Seconds ")


@pytest.mark.parametrize(
    ("ending", "unit"), [("_BYTES", "Bytes"), ("_CHARACTERS", "Characters"), ("_TOKENS", "Tokens")]
)
def test_explanation_of_a_size_limit_starts_with_its_unit(ending: str, unit: str) -> None:
    for name, _, meaning in FOUND:
        if name.endswith(ending):
            assert meaning.startswith(unit), name


def test_default_is_defined_once() -> None:
    assert Settings().limits.line_bytes == Editor(()).submit_limit == limits.DEFAULT_LINE_BYTES
    assert AdmissionLimits().columns == (limits.MIN_TERMINAL_COLUMNS, limits.MAX_TERMINAL_COLUMNS)
    assert AdmissionLimits().rows == (limits.MIN_TERMINAL_ROWS, limits.MAX_TERMINAL_ROWS)
