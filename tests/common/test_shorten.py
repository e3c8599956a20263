"""Cuts of what messages repeat."""

from __future__ import annotations

import re
from pathlib import Path

from sshwarma.common.limits import MAX_SHOWN_NAME_CHARACTERS, MAX_SHOWN_TEXT_CHARACTERS
from sshwarma.common.shorten import count_rest, join_with_rest, shorten_name, shorten_text

SOURCE = Path(__file__).parents[2] / "src" / "sshwarma"
OTHER_CUTS = {"tools/arguments.py", "toolsets/secret_values.py", "wrap/transcript.py"}


def test_long_names_and_texts_are_cut() -> None:
    assert shorten_name("den") == shorten_text("den") == "den"
    assert len(shorten_name("x" * 1000)) == MAX_SHOWN_NAME_CHARACTERS
    assert len(shorten_text("x" * 1000)) == MAX_SHOWN_TEXT_CHARACTERS


def test_join_with_rest_counts_what_it_does_not_name() -> None:
    names = ["amber", "birch", "cedar"]
    assert join_with_rest(names, 3) == "amber, birch, cedar"
    assert join_with_rest(names, 2) == "amber, birch and 1 more"
    assert join_with_rest(names, 3, total=9) == "amber, birch, cedar and 6 more"
    assert join_with_rest(names, 2, separator="; ") == "amber; birch; and 1 more"
    assert join_with_rest([], 3) == count_rest(0) == count_rest(0, "line") == ""
    assert count_rest(1, "line") == "and 1 more line"
    assert count_rest(2, "line") == "and 2 more lines"


def test_the_rest_of_a_list_is_counted_by_one_function() -> None:
    count = re.compile(r"and \{[^}]*\} (?:more|others)")
    names = {file.name for file in SOURCE.rglob("*.py") if count.search(file.read_text("utf-8"))}
    assert names == {"shorten.py"}


def test_messages_are_cut_by_these_functions_alone() -> None:
    cut = re.compile(r"\[:(?:40|60|80|100|120|200)\](?!\.decode)")
    names = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if cut.search(file.read_text(encoding="utf-8"))
    }
    assert names <= OTHER_CUTS
