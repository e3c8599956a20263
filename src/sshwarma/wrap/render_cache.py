"""Rows as they were rendered before, for the next question and step."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, TypeAlias

from sshwarma.wrap.layers import ContextCall, ContextMessage

RenderedPart: TypeAlias = ContextMessage | ContextCall | None
"""What is sent of a row; None for nothing."""

MAX_RENDERED_CHARACTERS: Final = 32_000_000
"""Characters of all parts that are remembered: about 20,000 rows with long results."""

PART_CHARACTERS: Final = 300
"""What a part takes besides its text, in characters."""


class RenderedRows:
    """The rendered parts of rows, by the row's id, for readers who read them alike.

    `parts` is read directly, because a log has thousands of rows. Rows never change.
    """

    def __init__(self, cache: RenderCache) -> None:
        self.parts: dict[str, RenderedPart] = {}
        self.characters = 0
        self.is_forgotten = False
        self._cache = cache

    def store(self, row_id: str, part: RenderedPart) -> None:
        """Remember what is sent of a row."""
        size = PART_CHARACTERS
        if isinstance(part, ContextMessage):
            size += len(part.text)
        elif part is not None:
            size += len(part.result) + sum(len(str(value)) for value in part.arguments.values())
        self._cache.store(self, row_id, part, size)


class RenderCache:
    """Rendered rows of all readers; what was not used for longest is forgotten.

    Threads may use it: one of them at most renders a row twice.
    """

    def __init__(self, max_characters: int = MAX_RENDERED_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._lock = threading.Lock()
        self._rows: OrderedDict[Hashable, RenderedRows] = OrderedDict()
        self._characters = 0

    def find(self, settings: Hashable) -> RenderedRows:
        """Return the rows of readers for whom these settings hold."""
        with self._lock:
            found = self._rows.pop(settings, None) or RenderedRows(self)
            self._rows[settings] = found
            return found

    def store(self, rows: RenderedRows, row_id: str, part: RenderedPart, size: int) -> None:
        """Remember a part of rows that are not forgotten; forget others for it."""
        with self._lock:
            if rows.is_forgotten or row_id in rows.parts:
                return
            rows.parts[row_id] = part
            rows.characters += size
            self._characters += size
            while self._characters > self._max_characters and self._rows:
                _, forgotten = self._rows.popitem(last=False)
                self._characters -= forgotten.characters
                forgotten.is_forgotten = True
