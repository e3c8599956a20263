"""What a tool is called at each door. Names are resolved by a table built from the very names that
were shown, never by taking one apart; two tools that would be shown under one name cannot be made.

The canonical name is `namespace:tool`. Models get `namespace__tool` in the alphabet and length
their providers allow; MCP shows `namespace.tool`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from sqlalchemy import select

from sshwarma.common.limits import (
    MAX_MCP_TOOL_NAME_CHARACTERS,
    MAX_MODEL_TOOL_NAME_CHARACTERS,
    MAX_NAME_CHARACTERS,
)
from sshwarma.world import things
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.loadout import AncestorCache, LoadoutItem
from sshwarma.world.names import NAME_PATTERN
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change

_NOT_FOR_MODELS: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_FOR_MCP: Final = re.compile(r"[^A-Za-z0-9_.-]")


def model_tool_name(canonical: str) -> str:
    """`git.branch:create` as `git_branch__create`; a longer one is clipped, with a hash."""
    namespace, _, tool = canonical.partition(":")
    name = "__".join(_NOT_FOR_MODELS.sub("_", part) for part in (namespace, tool) if part)
    return _clip_name(name, canonical, MAX_MODEL_TOOL_NAME_CHARACTERS)


def mcp_tool_name(canonical: str) -> str:
    """`git.branch:create` as `git.branch.create`, without spaces; a longer one is clipped too."""
    name = _NOT_FOR_MCP.sub("_", canonical.replace(":", "."))
    return _clip_name(name, canonical, MAX_MCP_TOOL_NAME_CHARACTERS)


def _clip_name(name: str, canonical: str, length: int) -> str:
    if len(name) <= length:
        return name
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"{name[: length - 9]}_{digest}"


def check_tool_name(name: str) -> str:
    """`name` if somebody may give it to a tool.

    Raises:
        Invalid: saying what is wrong with it.
    """
    if not NAME_PATTERN.fullmatch(name):
        shown = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{shown[:60]} cannot be the name of a tool.",
            hint=f"A name is a lower-case letter, then lower-case letters, digits, - or _; at most "
            f"{MAX_NAME_CHARACTERS} characters.",
        )
    return name


def claim_tool_name(tx: Change, canonical: str) -> None:
    """Make sure that a tool of that name can be made: no live one is shown under the same name,
    in any form. One that went with its room gives its name up.

    Raises:
        Conflict: naming the tool that is in the way.
    """
    wanted = {model_tool_name(canonical), mcp_tool_name(canonical)}
    query = select(things_table.c.id, things_table.c.qualified_name).where(
        things_table.c.kind == "tool",
        things_table.c.deleted_at.is_(None),
        things_table.c.qualified_name.is_not(None),
    )
    for tool_id, known in tx.conn.execute(query).all():
        if wanted.isdisjoint((model_tool_name(known), mcp_tool_name(known))):
            continue
        tool = things.get_live_thing(tx.conn, tool_id)
        if any(link.deleted_at is not None for link in AncestorCache(tx.conn).above(tool)):
            things.delete_thing(tx, tool)
            continue
        if known == canonical:
            raise Conflict(f"There is a tool {canonical} already.")
        shown = (wanted & {model_tool_name(known), mcp_tool_name(known)}).pop()
        raise Conflict(
            f"{canonical} cannot be told from {known}: both are shown as {shown}.",
            hint="Choose another name.",
        )


class NameTable:
    """The tools of a loadout by every name they go by. A bare tool name counts if one has it."""

    def __init__(self, items: Iterable[LoadoutItem]) -> None:
        self._known: dict[str, LoadoutItem] = {}
        bare: dict[str, LoadoutItem | None] = {}
        for item in items:
            canonical = item.thing.label
            for name in (canonical, model_tool_name(canonical), mcp_tool_name(canonical)):
                self._known.setdefault(name, item)
            short = item.thing.name
            bare[short] = None if short in bare else item
        for short, single in bare.items():
            if single is not None:
                self._known.setdefault(short, single)

    def find(self, name: str) -> LoadoutItem | None:
        """The tool of that name, in whichever form."""
        return self._known.get(name)
