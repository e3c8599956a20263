"""Line ends that a text area of a browser has not kept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.line_ends import keep_line_ends
from sshwarma.world.errors import Invalid

TEXTS = st.lists(st.sampled_from(["a", "b", "", "\t", "\n", "\r\n", "\r"]), max_size=12).map(
    "".join
)


def as_typed(text: str) -> str:
    """The text as a text area gives it."""
    return re.sub(r"\r\n|\r", "\n", text)


@given(base=TEXTS)
def test_text_that_nobody_changed_keeps_every_byte(base: str) -> None:
    assert keep_line_ends(base, as_typed(base)) == base


@given(base=TEXTS, text=TEXTS)
def test_nothing_but_line_ends_changes(base: str, text: str) -> None:
    assert as_typed(keep_line_ends(base, as_typed(text))) == as_typed(text)


@pytest.mark.parametrize(
    ("base", "text", "kept"),
    [
        ("a\r\nb\r\n", "a\nnew\nb\n", "a\r\nnew\r\nb\r\n"),
        ("a\nb\r\nc\nd", "a\nb\nnew\nc\nd", "a\nb\r\nnew\nc\nd"),
        ("a\r\nb", "a\nb\n", "a\r\nb\r\n"),
        ("a", "a\nb\n", "a\nb\n"),
    ],
)
def test_new_lines_end_as_most_others(base: str, text: str, kept: str) -> None:
    assert keep_line_ends(base, text) == kept


def test_too_many_lines_of_several_kinds_are_refused() -> None:
    with pytest.raises(Invalid, match="several kinds"):
        keep_line_ends("\r\n\n" * 20_000, "a")
