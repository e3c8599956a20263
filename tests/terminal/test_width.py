"""Columns, clusters and cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.escape import safe
from sshwarma.terminal.width import after, before, boundary, clip, clusters, width

TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("ab 日本👨👩\u200d\ufe0f\u0301🇫🇷क्षि한\u1100\u1161"))
)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("👨‍👩‍👧‍👦", 2), ("🇫🇷", 2), ("한", 2)],
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


@given(TEXT, st.integers(0, 30))
def test_a_clipped_text_fits(text: str, columns: int) -> None:
    cut = clip(safe(text), columns)
    assert width(cut) <= columns
    assert width(safe(text)) > columns or cut == safe(text)


@given(TEXT)
def test_clusters_add_up(text: str) -> None:
    assert "".join(clusters(text)) == text


@given(st.text(st.sampled_from("ab 日本👨👩\u200d\ufe0f\u0301🇫🇷한"), max_size=30))
def test_steps_forward_and_back_are_the_same_steps(text: str) -> None:
    forward, at = [0], 0
    while at < len(text):
        at = after(text, at)
        forward.append(at)
    backward, at = [len(text)], len(text)
    while at > 0:
        at = before(text, at)
        backward.append(at)
    assert backward[::-1] == forward
    for at in range(len(text) + 1):
        assert boundary(text, at) == min(place for place in forward if place >= at)
