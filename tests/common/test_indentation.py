"""Ends of lines and indentation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.indentation import (
    ENDS,
    convert_indentation,
    convert_line_ends,
    describe_indentation,
    describe_line_ends,
)


def test_line_ends_are_counted_by_kind() -> None:
    assert describe_line_ends("a\r\nb\nc\rd") == "Line ends: 3 (mixed): CRLF 1, LF 1, CR 1."
    assert describe_line_ends("a\nb\n") == "Line ends: 2 (all alike): LF 2."
    assert describe_line_ends("a") == "It has no line ends."


@given(st.text(alphabet="a\r\n", max_size=20), st.sampled_from(sorted(ENDS)))
def test_line_ends_become_one_kind(text: str, kind: str) -> None:
    made = convert_line_ends(text, kind)  # type: ignore[arg-type]
    assert made.splitlines() == text.splitlines()
    assert convert_line_ends(made, kind) == made  # type: ignore[arg-type]


def test_indentation_is_described() -> None:
    text = "def a():\n    b\n        c\n\td\n \te\n\n    \n"
    assert describe_indentation(text) == (
        "Indentation: mixed. Lines: 1 by tabs, 2 by spaces, 1 by both in one line. Most frequent"
        " widths in spaces: 4 (1 lines), 8 (1 lines)."
    )
    assert describe_indentation("a\n\tb\n").startswith("Indentation: tabs.")
    assert describe_indentation("a\nb") == "No line is indented."


def test_indentation_is_converted_and_nothing_else() -> None:
    text = "a\tb\r\n\tc\r\n  \td  e\n      f\n"
    assert convert_indentation(text, "spaces", 4) == "a\tb\r\n    c\r\n    d  e\n      f\n"
    assert convert_indentation(text, "tabs", 4) == "a\tb\r\n\tc\r\n\td  e\n\t  f\n"
