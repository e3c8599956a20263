"""Some lines of a text, without making all of them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.units import MIB
from sshwarma.verbs.file import cut_lines
from sshwarma.workspaces import text_lines
from sshwarma.workspaces.text_lines import count_lines, find_line, iterate_lines
from sshwarma.workspaces.tree import Entry


@given(text=st.text("\n\ra\u0430", max_size=30), piece=st.integers(1, 5))
def test_lines_are_those_of_a_split(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "_PIECE_CHARACTERS", piece)
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        if not lines[-1] and not text.endswith("\r"):
            lines.pop()
        assert count_lines(text) == len(lines)
        for number in range(1, len(lines) + 2):
            found = iterate_lines(text, find_line(text, number))
            assert [text[start:end] for start, end in found] == lines[number - 1 :]


def test_reading_of_one_line_does_not_make_the_others() -> None:
    text = "\n" * (8 * MIB)
    tracemalloc.start()
    try:
        shown = cut_lines("a", "v", Entry("", size=len(text)), text, 8 * MIB - 5, 2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (shown.lines, shown.left) == (2, 4)
    assert peak < MIB
