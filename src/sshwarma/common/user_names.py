"""Names of the users of the machine."""

from __future__ import annotations

import pwd


def name_user(uid: int) -> str:
    """Return the name of a user, or `user 1234` if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
