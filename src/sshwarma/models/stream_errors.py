"""What can be wrong with the stream of a provider's answer."""

from __future__ import annotations


class StreamStalled(Exception):
    """The stream sent nothing for `seconds`.

    `has_begun`: whether it had sent something before.
    """

    def __init__(self, seconds: float, *, has_begun: bool) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.has_begun = has_begun


class EmptyAnswer(Exception):
    """The stream ended without content; the argument is the finish reason, if known."""


class StreamTruncated(Exception):
    """The stream ended without a finish reason."""


class StreamDamaged(Exception):
    """The stream contains data that is not a valid event; the message says what."""
