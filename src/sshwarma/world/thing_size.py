"""The limit of what one thing or value may hold."""

from __future__ import annotations

from sshwarma.settings import LimitSettings
from sshwarma.world.errors import too_long_error


def check_thing_size(limits: LimitSettings, text: str, argument: str = "text") -> int:
    """Return the bytes of a text that is to be stored.

    Args:
        limits: those of the server.
        text: what is to be stored.
        argument: name of the argument that it is, for the message.

    Raises:
        Invalid: if there are more than `limits.thing_bytes`.
    """
    size = len(text.encode())
    if size > limits.thing_bytes:
        raise too_long_error(argument, size, limits.thing_bytes, "bytes")
    return size
