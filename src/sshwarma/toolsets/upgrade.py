"""What an import has changed: the version and tools before, and those after."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest
from sshwarma.toolsets.records import check_toolset_id, is_toolset, read_files
from sshwarma.toolsets.stored_keys import LINKED, SOURCE_REF_KEY, SOURCE_TYPE_KEY
from sshwarma.toolsets.versions import compare_versions
from sshwarma.world import overrides, things
from sshwarma.world.equipment import find_rooms_with
from sshwarma.world.leave_out import LEAVE_OUT_KEY, PER_ACTION_KEY, SHORT_AMOUNT_KEY
from sshwarma.world.schema import things as things_table
from sshwarma.world.things import Thing

UpgradeKind: TypeAlias = Literal["installed", "upgraded", "downgraded", "replaced", "unchanged"]
"""What an import did: `replaced` where the versions do not say which is the later one."""

_DEFINING_KEYS: Final = (
    "display_name", "input_schema", overrides.CONFIRM_KEY, LEAVE_OUT_KEY, SHORT_AMOUNT_KEY,
    PER_ACTION_KEY,
)  # fmt: skip
"""Keys of the metadata of a tool that those who call it read."""

_KINDS: Final[dict[int | None, UpgradeKind]] = {1: "upgraded", -1: "downgraded"}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an import has changed.

    Attributes:
        version_before: of the toolset that it took the place of; "" if there was none.
        added: names of new tools.
        removed: names of tools that are gone.
        changed: names of tools with another definition, which those who call them read.
        is_code_changed: whether the code of other tools may do something else.
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
    is_code_changed: bool = False

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
        facts = [f"{fact}: {join_names(names)}" for fact, names in known if names]
        if self.is_code_changed:
            facts.append(describe_code_change((*self.added, *self.changed)))
        text, to = "; ".join(facts), "by" if kind == "replaced" else "to"
        now = f", still {version}" if version == self.version_before else f" {to} {version}"
        return f"{kind} the toolset {label}{now}{f' ({text})' if facts else ''}"


def describe_code_change(named: Sequence[str]) -> str:
    """Return the clause that code changed, behind names of new or changed tools."""
    return f"the code of {'others' if named else 'its tools'} changed"


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
        tools: what defines each tool for those who call it, by its name.
        entries: where the code of each tool begins: file, module and function.
        modules: the hashes of files with code, by path.
        tool_ids: of the things of its tools.
    """

    space: Thing | None
    tools: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    tool_ids: tuple[str, ...] = ()


def read_present(conn: Connection, toolset_id: str) -> Present:
    """Return a toolset as it is now."""
    space = check_toolset_id(conn, toolset_id)
    if space is None or space.deleted_at is not None:
        return Present(None)
    files = read_files(conn, toolset_id)
    tools = things.read_children(conn, space.id, "tool")
    decided = overrides.read_overrides(conn)
    return Present(
        space,
        {tool.name: _read_definition(tool, decided.get(tool.label)) for tool in tools},
        {tool.name: _read_entry(tool) for tool in tools},
        {file.path: file.sha256 for file in files if file.kind == "python"},
        tuple(tool.id for tool in tools),
    )


def compare(conn: Connection, before: Present, toolset_id: str) -> Upgrade:
    """Return what an import has changed, in its transaction."""
    if before.space is None:
        return Upgrade(rooms_before=frozenset(_find_rooms_before(conn, toolset_id)))
    after = read_present(conn, toolset_id)
    added = tuple(sorted(after.tools.keys() - before.tools.keys()))
    kept = before.tools.keys() & after.tools.keys()
    changed = {name for name in kept if before.tools[name] != after.tools[name]}
    rooms = find_rooms_with(conn, before.tool_ids) if added else set()
    old, new = (one.space.metadata if one.space else {} for one in (before, after))
    was_linked = old.get(SOURCE_TYPE_KEY) == LINKED != new.get(SOURCE_TYPE_KEY)
    return Upgrade(
        str(old.get("version", "")) or "?",
        added,
        tuple(sorted(before.tools.keys() - after.tools.keys())),
        tuple(sorted(changed)),
        str(old.get(SOURCE_REF_KEY, "")) if was_linked else "",
        frozenset(rooms - find_rooms_with(conn, [before.space.id])),
        old == new and before.tools == after.tools,
        is_code_changed=_is_code_changed(before, after, kept - changed),
    )


def _is_code_changed(before: Present, after: Present, names: Set[str]) -> bool:
    """Return whether the code of some tools changed, or modules that they may import."""
    if any(before.entries[name] != after.entries[name] for name in names):
        return True
    touched = {path for path, sha256 in before.modules.items() if after.modules.get(path) != sha256}
    shared = touched - {entry[0] for entry in before.entries.values()}
    return bool(names and shared) or any(before.entries[name][0] in touched for name in names)


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


def _read_definition(tool: Thing, decided: overrides.Override | None) -> tuple[Any, ...]:
    said = [tool.metadata.get(key) for key in _DEFINING_KEYS]
    return tool.description, *said, decided or overrides.Override(tool.label)


def _read_entry(tool: Thing) -> tuple[str, ...]:
    return tuple(str(tool.metadata.get(key, "")) for key in ("path", "module", "function"))
