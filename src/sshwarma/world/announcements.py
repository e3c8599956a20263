"""Announcements: messages to everyone who is connected."""

from __future__ import annotations

from sshwarma.common.secret_detection import has_key_prefix
from sshwarma.world.errors import Invalid
from sshwarma.world.events import Announcement


def make_announcement(author: str, text: str) -> Announcement:
    """Return an announcement to publish.

    Raises:
        Invalid: if it looks like it contains a key.
    """
    if has_key_prefix(text):
        raise Invalid(
            "The message looks like it contains a key.",
            hint="Everyone would read it, and the audit shows it.",
        )
    return Announcement(author, text)
