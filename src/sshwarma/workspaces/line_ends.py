"""Line ends of a text whose editor gives each of them as a newline.

The text area of a browser knows one kind of line end. A text that comes back from it gets the ends
of the one it was made from, so that an edit changes only the lines that somebody has typed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from sshwarma.common.limits import MAX_COMPARED_LINES
from sshwarma.common.line_diff import LineChange, list_line_changes
from sshwarma.world.errors import Invalid

_ENDS: Final = re.compile(r"\r\n|\r|\n")
"""What the text area of a browser takes for the end of a line."""


def keep_line_ends(base: str, text: str) -> str:
    """Return a text with the line ends that its lines have in another.

    Takes up to 0.3 s if they have several kinds: call it in a thread.

    Args:
        base: the text that it was made from.
        text: the text, each of whose lines ends with a newline; new lines get the most frequent
            end of the base.

    Raises:
        Invalid: if the base has several kinds and too many lines to be compared.
    """
    ends = _ENDS.findall(base)
    if not ends:
        return text
    common = Counter(ends).most_common(1)[0][0]
    lines = _ENDS.split(text)
    if len(set(ends)) == 1:
        return str(common).join(lines)
    old = _ENDS.split(base)
    if max(len(old), len(lines)) > MAX_COMPARED_LINES:
        raise Invalid(
            f"The line ends are of several kinds, in more than {MAX_COMPARED_LINES:,} lines.",
            hint="Change the file outside, and upload it.",
        )
    found = _match_ends(old, lines, ends, common)
    made = ""
    parts: list[str] = []
    for line, end in zip(lines, found, strict=True):
        # Else the ends of two lines, of which the second is empty, would be the end of one.
        joins = not line and end == "\n" and made == "\r"
        made = "\r\n" if joins else end
        parts += line, made
    return "".join(parts)


def _match_ends(old: list[str], lines: list[str], ends: list[str], common: str) -> list[str]:
    """Return the end of each line; "" for the last one, which nothing follows."""
    found = [common] * len(lines)
    at = new_at = 0  # where the equal lines before the next change begin
    last = LineChange(len(old), len(old), len(lines), len(lines))
    for change in [*list_line_changes(old, lines), last]:
        equal = ends[at : change.start]
        found[new_at : new_at + len(equal)] = equal
        at, new_at = change.end, change.new_end
    return [*found[: len(lines) - 1], ""]
