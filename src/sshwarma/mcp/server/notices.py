"""Messages to an MCP client that are in no log, until it asks for events."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, NamedTuple, TypeAlias

from sshwarma.events.event_types import NoticeEvent, Speaker

MAX_UNREAD_NOTICES: Final = 20
"""Notices kept for an agent until it waits for events; the oldest are dropped."""


class Notice(NamedTuple):
    """A message: its kind, its author, its text."""

    kind: Literal["put_out", "announcement"]
    author: str
    text: str

    @property
    def event(self) -> NoticeEvent:
        """The message as an event."""
        if self.kind == "put_out":
            return NoticeEvent(Speaker("", "server"), self.text)
        return NoticeEvent(Speaker(self.author, "person"), self.text)

    @property
    def line(self) -> str:
        """The message as a text result shows it."""
        if self.kind == "put_out":
            return self.text
        return f"To everyone, from {self.author}: {self.text}"


Notices: TypeAlias = deque[Notice]


def make_notices() -> Notices:
    """Return the notices of a client that has none yet."""
    return deque(maxlen=MAX_UNREAD_NOTICES)
