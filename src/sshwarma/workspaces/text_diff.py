"""Differences of two files as text."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.common.limits import MAX_COMPARED_BYTES, MAX_COMPARED_LINES, MAX_SHOWN_DIFF_LINES
from sshwarma.common.line_diff import format_unified_diff
from sshwarma.common.shorten import count_rest


@dataclass(frozen=True, slots=True)
class TextDiff:
    """A unified diff without its file names; `note` says why it is empty or cut."""

    text: str
    note: str = ""


def decode_file(data: bytes) -> str | None:
    """Return the text of a file; None if it is binary."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def compare_contents(old: bytes, new: bytes) -> TextDiff:
    """Compare two contents line by line. Takes up to 0.3 s: call it in a thread."""
    if max(len(old), len(new)) > MAX_COMPARED_BYTES:
        return TextDiff("", f"More than {MAX_COMPARED_BYTES:,} bytes are not compared.")
    old_text, new_text = decode_file(old), decode_file(new)
    if old_text is None or new_text is None:
        return TextDiff("", f"A binary file: {len(old):,} → {len(new):,} bytes.")
    old_lines, new_lines = _split_lines(old_text), _split_lines(new_text)
    if max(len(old_lines), len(new_lines)) > MAX_COMPARED_LINES:
        return TextDiff("", f"More than {MAX_COMPARED_LINES:,} lines are not compared.")
    lines = list(format_unified_diff(old_lines, new_lines, context=3))
    shown = lines[:MAX_SHOWN_DIFF_LINES]
    return TextDiff("\n".join(shown), count_rest(len(lines) - len(shown), "line"))


def _split_lines(text: str) -> list[str]:
    """Return the lines of a text; the last one says if it does not end."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines
