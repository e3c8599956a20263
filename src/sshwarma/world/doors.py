"""The doors of the world: the ways by which requests come in."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Door: TypeAlias = Literal["ssh", "exec", "mcp", "web", "model", "lua"]

PEOPLE_DOORS: Final = frozenset({"ssh", "exec"})
"""The doors at which people type commands."""
