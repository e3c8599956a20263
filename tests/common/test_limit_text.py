"""Limits in help texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sshwarma.common.limit_text import fill_limits
from sshwarma.verbs.help import load_help_topics
from sshwarma.verbs.registry import every_verb

TOP = Path(__file__).parents[2]
TYPED_LIMIT = re.compile(
    r"(?:default|[Aa]t\s+most)\s+[0-9][0-9,]+|[0-9]+\s+(?:[KM]iB|bytes|if\s+left\s+out)"
    r"|(?:[0-9][0-9.]*|\b(?:two|three|five|ten))\s+(?:s|seconds?|minutes?|letters)\b"
    r"|\blast\s+(?:two|three|five|ten)\b"
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("at most {MAX_HISTORY_ROWS}.", "at most 1,000."),
        ("{MAX_SKILL_BYTES} and {MAX_SCRIPT_MEMORY_BYTES}", "32 KiB and 96 MiB"),
        ("takes {REPORT_TIMEOUT_SECONDS}", "takes 2 s"),
        ("${NAME} {words} ${MAX_HISTORY_ROWS}", "${NAME} {words} ${MAX_HISTORY_ROWS}"),
    ],
)
def test_names_of_limits_become_values(text: str, filled: str) -> None:
    assert fill_limits(text) == filled


def test_unknown_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown limit MAX_NOTHING_ROWS"):
        fill_limits("{MAX_NOTHING_ROWS}")


def test_no_help_text_types_a_limit_by_hand() -> None:
    """Numbers come from the constants, so that they cannot differ from them."""
    files = [*TOP.glob("src/sshwarma/verbs/*.py"), *TOP.glob("embedded/help/*.md")]
    texts = {file.name: file.read_text("utf-8") for file in files}
    assert {
        name: found for name, text in texts.items() if (found := TYPED_LIMIT.findall(text))
    } == {}


def test_typed_limits_are_detected() -> None:
    """The pattern finds what help texts once typed by hand."""
    for typed in ("within 0.3 s;", "waits ten minutes", "three letters on", "1000 if left out",
                  "after 1 to 60 seconds", "the last five unless", "At most 200 rows"):  # fmt: skip
        assert TYPED_LIMIT.search(typed), typed
    assert not TYPED_LIMIT.search("/mute bob 10, /history 50; {MAX_REPORT_ROWS} rows")


def test_every_help_text_shows_values() -> None:
    shown = [*load_help_topics().values()]
    for verb in every_verb():
        shown += [verb.summary, verb.detail, *(part.help for part in verb.parameters)]
    assert len(shown) > 100
    assert not [text for text in shown if "{MAX_" in text or "{DEFAULT_" in text]
