"""Bold parts in the results of tools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.render import render_plain
from sshwarma.terminal.text import block, line, remove_bold, split_bold

BOLD = "\x1b[1m{}\x1b[0m".format


def test_marked_parts_are_strong() -> None:
    text = f"Ship {BOLD('on')} Friday, {BOLD('on')} time"
    assert split_bold(text) == [
        ("text", "Ship "), ("text strong", "on"), ("text", " Friday, "), ("text strong", "on"),
        ("text", " time"),
    ]  # fmt: skip
    assert remove_bold(text) == "Ship on Friday, on time"


@given(st.text(alphabet="a\x1b[0;1m\u202e\r", max_size=30))
def test_all_other_signs_stay_and_are_escaped(text: str) -> None:
    spans = split_bold(text)
    assert "".join(part for _, part in spans) == remove_bold(text)
    assert "\x1b" not in render_plain(block(line(*spans)))
