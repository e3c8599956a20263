"""The doors of the world: the ways by which requests come in."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Door: TypeAlias = Literal["ssh", "exec", "sftp", "mcp", "web", "model", "lua"]

PEOPLE_DOORS: Final = frozenset({"ssh", "exec", "sftp"})
"""The doors of people, whose refusals name lines to type."""
