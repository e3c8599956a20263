"""Columns, clusters and cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.width import (
    cluster_end,
    cluster_start,
    cut_to_width,
    snap_to_boundary,
    split_clusters,
    text_width,
)

TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("ab 日本👨👩\u200d\ufe0f\u0301🇫🇷क्षि한\u1100\u1161"))
)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("👨‍👩‍👧‍👦", 2), ("🇫🇷", 2), ("한", 2)],
)
def test_text_width_counts_columns(text: str, columns: int) -> None:
    assert text_width(text) == columns


@given(TEXT, st.integers(0, 30))
def test_cut_text_fits_the_columns(text: str, columns: int) -> None:
    cut = cut_to_width(escape_controls(text), columns)
    assert text_width(cut) <= columns
    assert text_width(escape_controls(text)) > columns or cut == escape_controls(text)


@given(TEXT)
def test_split_clusters_keeps_all_text(text: str) -> None:
    assert "".join(split_clusters(text)) == text


@given(st.text(st.sampled_from("ab 日本👨👩\u200d\ufe0f\u0301🇫🇷한"), max_size=30))
def test_cluster_boundaries_agree_in_both_directions(text: str) -> None:
    forward, at = [0], 0
    while at < len(text):
        at = cluster_end(text, at)
        forward.append(at)
    backward, at = [len(text)], len(text)
    while at > 0:
        at = cluster_start(text, at)
        backward.append(at)
    assert backward[::-1] == forward
    for at in range(len(text) + 1):
        assert snap_to_boundary(text, at) == min(place for place in forward if place >= at)
