"""What an import has changed: the version and tools before, and those after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest
from sshwarma.toolsets.records import check_toolset_id, is_toolset, read_files
from sshwarma.toolsets.stored_keys import LINKED, SOURCE_REF_KEY, SOURCE_TYPE_KEY, TREE_KEY
from sshwarma.toolsets.versions import compare_versions
from sshwarma.world import things
from sshwarma.world.equipment import find_rooms_with
from sshwarma.world.schema import things as things_table
from sshwarma.world.things import Thing

UpgradeKind: TypeAlias = Literal["installed", "upgraded", "downgraded", "replaced", "unchanged"]
"""What an import did: `replaced` where the versions do not say which is the later one."""

_KINDS: Final[dict[int | None, UpgradeKind]] = {1: "upgraded", -1: "downgraded"}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an import has changed.

    Attributes:
        version_before: of the toolset that it took the place of; "" if there was none.
        added: names of new tools.
        removed: names of tools that are gone.
        changed: names of tools with another definition, or another module.
        ended_link: the folder that the toolset was linked to before; "" if none.
        rooms: ids of rooms that have equipped single tools of it, and so not the new ones.
        is_unchanged: whether all is as before, and nothing of it was stored.
        rooms_before: ids of rooms that had it equipped when it was uninstalled; none otherwise.
    """

    version_before: str = ""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    ended_link: str = ""
    rooms: frozenset[str] = frozenset()
    is_unchanged: bool = False
    rooms_before: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether there was no such toolset."""
        return not self.version_before

    def name_kind(self, version: str) -> UpgradeKind:
        """Return what the import of a version did."""
        if self.is_new:
            return "installed"
        if self.is_unchanged:
            return "unchanged"
        return _KINDS.get(compare_versions(self.version_before, version), "replaced")

    def describe(self, label: str, version: str) -> str:
        """Describe it for rooms, as what somebody did."""
        kind = self.name_kind(version)
        if kind == "installed":
            return f"installed the toolset {label} {version}"
        if kind == "unchanged":
            return f"imported the toolset {label} {version} again, unchanged"
        known = (
            ("before", (self.version_before,) if self.version_before != version else ()),
            ("new", self.added),
            ("gone", self.removed),
            ("changed", self.changed),
        )
        facts = "; ".join(f"{fact}: {join_names(names)}" for fact, names in known if names)
        to = "by" if kind == "replaced" else "to"
        now = f", still {version}" if version == self.version_before else f" {to} {version}"
        return f"{kind} the toolset {label}{now}{f' ({facts})' if facts else ''}"


def join_names(names: Sequence[str]) -> str:
    """Join the first names of tools, and count the others."""
    return join_with_rest(list(names), MAX_NAMED_FILES)


@dataclass(frozen=True, slots=True)
class Installed:
    """A toolset that was imported: how much it has, and what its author should know."""

    id: str
    name: str
    version: str
    tools: int
    servers: int
    upgrade: Upgrade = field(default_factory=Upgrade)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Present:
    """A toolset before an import, or after it.

    Attributes:
        space: the toolset; None if it is not installed.
        tools: what defines each tool, by its name.
        tool_ids: of the things of its tools.
    """

    space: Thing | None
    tools: dict[str, tuple[Any, ...]]
    tool_ids: tuple[str, ...]


def read_present(conn: Connection, toolset_id: str) -> Present:
    """Return a toolset as it is now."""
    space = check_toolset_id(conn, toolset_id)
    if space is None or space.deleted_at is not None:
        return Present(None, {}, ())
    hashes = {file.path: file.sha256 for file in read_files(conn, toolset_id)}
    tools = things.read_children(conn, space.id, "tool")
    return Present(
        space,
        {tool.name: _read_definition(tool, hashes) for tool in tools},
        tuple(tool.id for tool in tools),
    )


def compare(conn: Connection, before: Present, toolset_id: str) -> Upgrade:
    """Return what an import has changed, in its transaction."""
    if before.space is None:
        return Upgrade(rooms_before=frozenset(_find_rooms_before(conn, toolset_id)))
    after = read_present(conn, toolset_id)
    added = tuple(sorted(after.tools.keys() - before.tools.keys()))
    rooms = find_rooms_with(conn, before.tool_ids) if added else set()
    old, new = (one.space.metadata if one.space else {} for one in (before, after))
    was_linked = old.get(SOURCE_TYPE_KEY) == LINKED != new.get(SOURCE_TYPE_KEY)
    return Upgrade(
        str(old.get("version", "")) or "?",
        added,
        tuple(sorted(before.tools.keys() - after.tools.keys())),
        tuple(
            sorted(
                name
                for name in before.tools.keys() & after.tools.keys()
                if before.tools[name] != after.tools[name]
            )
        ),
        str(old.get(SOURCE_REF_KEY, "")) if was_linked else "",
        frozenset(rooms - find_rooms_with(conn, [before.space.id])),
        old == new and before.tools == after.tools,
    )


def _find_rooms_before(conn: Connection, toolset_id: str) -> set[str]:
    """Return the rooms that had a toolset equipped when it was last uninstalled.

    Their equipment is stored, of things that are gone.
    """
    columns = things_table.c
    query = (
        select(columns.id)
        .where(
            columns.qualified_name == toolset_id,
            columns.kind == "toolset",
            columns.deleted_at.is_not(None),
        )
        .order_by(columns.deleted_at.desc())
    )
    old_id = conn.scalar(query.limit(1))
    old = things.get_thing(conn, old_id) if old_id is not None else None
    if old is None or not is_toolset(old):
        return set()
    of_it = (columns.parent_id == old.id) & (columns.deleted_at == old.deleted_at)
    tools = select(columns.id).where(of_it, columns.kind == "tool")
    return find_rooms_with(conn, [old.id, *conn.scalars(tools)])


def _read_definition(tool: Thing, hashes: dict[str, str]) -> tuple[Any, ...]:
    metadata = {key: value for key, value in tool.metadata.items() if key != TREE_KEY}
    return tool.description, metadata, hashes.get(str(metadata.get("path")))
