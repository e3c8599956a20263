"""Marks where texts were cut for a model: sizes, and the call that reads on."""

from __future__ import annotations

from typing import Final

from sshwarma.common.limits import MAX_MODEL_ROW_PART_CHARACTERS
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.stubs import make_stub_key

READ_RANGE_VERB: Final = "mem session chars"
"""The verb that reads a part of a text by its key."""

MAX_UNNAMED_CHARACTERS: Final = 200
"""Characters of a result that is left out without the call that reads it: the mark would be longer
than the result."""

MAX_ERROR_LINE_CHARACTERS: Final = 200
"""Characters of the first line of an error whose text is left out: it says what went wrong."""


def cut_text(text: str, characters: int, seq: int, reader: Reader, length: int = 0) -> str:
    """Return the start of a text that is too long, with the call that reads on.

    Never cut within a code point.

    Args:
        text: The text, or the start of it.
        characters: Maximum characters of it that stay.
        seq: Number of the row that has the whole text.
        reader: Who reads it; a model that is not offered the call reads the row's number.
        length: Characters of the whole text, if `text` is only its start.
    """
    if len(text) <= characters:
        return text
    total = max(length, len(text))
    rest = f"{total - characters:,} more characters of {total:,}"
    return f"{text[:characters]}… ({rest}{name_reading_call(seq, characters, total, reader)})"


def name_reading_call(seq: int, start: int, total: int, reader: Reader) -> str:
    """Return the end of a mark: the key, and the call that reads on.

    Args:
        seq: Number of the row that has the text.
        start: Index of the first character to read.
        total: Characters of the text.
        reader: Who reads the mark; only calls that it can make are named.
    """
    expand = next_call("{}", "expand", row=seq, start=start or None).text(reader)
    if reader.kind != "model":
        return f": {expand}" if expand else f" in row {seq}"
    key, end = make_stub_key(seq), min(total, start + MAX_MODEL_ROW_PART_CHARACTERS)
    by_key = next_call("{}", READ_RANGE_VERB, key=key, start_char=start, end_char=end).text(reader)
    # The key is named with either call: the tools that read it may be loaded later.
    call = by_key or expand
    return f", key {key}: {call}" if call else f" in row {seq}"


def describe_left_out(text: str, seq: int, reader: Reader, *, is_error: bool) -> str:
    """Return the note in place of a result; an error keeps its first line.

    Args:
        text: The whole result.
        seq: Number of the row that has it.
        reader: Who reads the note.
        is_error: Whether the call failed.
    """
    size = f"{len(text):,} characters"
    if not is_error and len(text) <= MAX_UNNAMED_CHARACTERS:
        return f"({size} left out)"
    if not is_error:
        return f"({size} left out{name_reading_call(seq, 0, len(text), reader)})"
    first = (text.splitlines() or [""])[0]
    kept = min(len(first), MAX_ERROR_LINE_CHARACTERS)
    return f"Error of {size}: {cut_text(text, kept, seq, reader)}"
