"""Cuts of what messages repeat."""

from __future__ import annotations

import re
from pathlib import Path

from sshwarma.common.limits import MAX_SHOWN_NAME_CHARACTERS, MAX_SHOWN_TEXT_CHARACTERS
from sshwarma.common.shorten import shorten_name, shorten_text

SOURCE = Path(__file__).parents[2] / "src" / "sshwarma"
OTHER_CUTS = {"tools/arguments.py", "wrap/transcript.py"}


def test_long_names_and_texts_are_cut() -> None:
    assert shorten_name("den") == shorten_text("den") == "den"
    assert len(shorten_name("x" * 1000)) == MAX_SHOWN_NAME_CHARACTERS
    assert len(shorten_text("x" * 1000)) == MAX_SHOWN_TEXT_CHARACTERS


def test_messages_are_cut_by_these_functions_alone() -> None:
    cut = re.compile(r"\[:(?:40|60|80|100|120|200)\](?!\.decode)")
    names = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if cut.search(file.read_text(encoding="utf-8"))
    }
    assert names <= OTHER_CUTS
