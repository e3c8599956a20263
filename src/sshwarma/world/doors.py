"""The doors of the world: the ways by which requests come in."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Door: TypeAlias = Literal["ssh", "exec", "sftp", "mcp", "api", "web", "model", "lua"]

SSH_DOORS: Final = frozenset({"ssh", "exec", "sftp"})
"""The doors of who has shown an ssh key."""

PEOPLE_DOORS: Final = SSH_DOORS | {"web"}
"""The doors of people, whose refusals name lines to type."""
