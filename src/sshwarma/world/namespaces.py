"""Namespaces: things that hold tools, and are loaded and unloaded as one.

A namespace is identified by its dotted name (`git`, `git.branch`); a nested one is a child of it in
the tree. Its keywords, required states, and whether it loads automatically or with its parent are
in its metadata and columns, and the loadout reads them there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from sshwarma.common.limits import (
    MAX_LISTED_NAMESPACES,
    MAX_NAMESPACE_DEPTH,
    MAX_NAMESPACE_NAME_CHARACTERS,
    MAX_TREE_DEPTH,
)
from sshwarma.world import names, rooms, things
from sshwarma.world.builtin_containers import DEFAULTS_ID, GLOBAL_ID
from sshwarma.world.equipment import AGENTS_IN_ROOMS
from sshwarma.world.errors import Conflict, Invalid, unknown_name_error
from sshwarma.world.loadout import NAMESPACE_KINDS
from sshwarma.world.reader import next_call
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

NAMESPACE_CONTAINER: Final = "toolsets"
"""The container of namespaces that people create."""

KEYWORDS_KEY: Final = "keywords"
SERVER_KEYWORDS_KEY: Final = "server_keywords"
INSTRUCTIONS_KEY: Final = "instructions"
REQUIRED_STATES_KEY: Final = "required_states"
LOAD_WITH_PARENT_KEY: Final = "load_with_parent"

_PLAIN_CONTAINERS: Final = ("world", "rooms", "agents", "mcps", "toolsets", "skills", "projects",
                      DEFAULTS_ID, "directs", AGENTS_IN_ROOMS)  # fmt: skip
"""Containers of the tree that are not namespaces."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace in a list.

    `id` is its dotted name; `tools` is the number of its own tools.
    """

    thing: Thing
    id: str
    parent: str | None
    children: tuple[str, ...]
    tools: int

    @property
    def keywords(self) -> tuple[str, ...]:
        """Words that say what the namespace is about: those of people, else its server's."""
        if KEYWORDS_KEY in self.thing.metadata:
            return self.own_keywords
        return read_metadata_words(self.thing, SERVER_KEYWORDS_KEY)

    @property
    def own_keywords(self) -> tuple[str, ...]:
        """Words that find the namespace, set by people."""
        return read_metadata_words(self.thing, KEYWORDS_KEY)

    @property
    def instructions(self) -> str:
        """What an MCP server says about its use; it is empty for other namespaces."""
        return str(self.thing.metadata.get(INSTRUCTIONS_KEY) or "")

    @property
    def required_states(self) -> tuple[str, ...]:
        """States that a room must have for its tools to work."""
        return read_metadata_words(self.thing, REQUIRED_STATES_KEY)

    @property
    def load_with_parent(self) -> bool:
        """Whether it is loaded wherever the room that contains it is."""
        return bool(self.thing.metadata.get(LOAD_WITH_PARENT_KEY))

    @property
    def title(self) -> str:
        """The title to show beside its id."""
        return str(self.thing.metadata.get("title") or self.id.replace(".", " "))


def read_metadata_words(thing: Thing, field: str) -> tuple[str, ...]:
    """Return a list of words in a thing's metadata."""
    value = thing.metadata.get(field)
    return tuple(str(word) for word in value) if isinstance(value, list) else ()


def read_namespaces(conn: Connection, room_id: str | None = None) -> list[Namespace]:
    """Every live namespace, by its dotted name.

    Of rooms, and of what is offered in them, only that of the one given: what is in a room may be
    known, and called, in that room alone.
    """
    in_rooms = select(things_table.c.id).where(things_table.c.kind == "room")
    tool = things_table.alias("tool")
    tool_count = (
        select(func.count())
        .where(
            tool.c.parent_id == things_table.c.id,
            tool.c.kind == "tool",
            tool.c.deleted_at.is_(None),
        )
        .scalar_subquery()
    )
    query = (
        select(things_table, tool_count.label("holds"))
        .where(
            things_table.c.kind.in_(NAMESPACE_KINDS),
            things_table.c.deleted_at.is_(None),
            things_table.c.id.not_in(_PLAIN_CONTAINERS),
            (things_table.c.kind != "room") | (things_table.c.id == room_id),
            things_table.c.parent_id.not_in(in_rooms) | (things_table.c.parent_id == room_id),
        )
        .order_by(things_table.c.qualified_name.nulls_first(), things_table.c.name)
        .limit(MAX_LISTED_NAMESPACES)
    )
    candidates = [
        (things.thing_from_row(row), row["holds"]) for row in conn.execute(query).mappings()
    ]
    pairs = [
        (thing, count)
        for thing, count in candidates
        if count or thing.kind in ("toolset", "mcp") or thing.id == GLOBAL_ID
    ]
    by_id = {thing.id: thing for thing, _ in pairs}
    below_it: dict[str, list[str]] = {}
    for thing, _ in pairs:
        if thing.parent_id in by_id:
            below_it.setdefault(thing.parent_id or "", []).append(thing.label)
    return [
        Namespace(
            thing,
            thing.label,
            by_id[thing.parent_id].label if thing.parent_id in by_id else None,
            tuple(sorted(below_it.get(thing.id, ()))),
            count,
        )
        for thing, count in sorted(pairs, key=lambda one: one[0].label.split("."))
        if _is_reachable(conn, thing, by_id)
    ]


def _is_reachable(conn: Connection, thing: Thing, by_id: Mapping[str, Thing]) -> bool:
    """Return whether all ancestors of a namespace are live, such as its server."""
    ancestor: Thing | None = thing
    for _ in range(MAX_TREE_DEPTH):
        if ancestor is None or ancestor.deleted_at is not None:
            return False
        if ancestor.parent_id in (None, "world", NAMESPACE_CONTAINER, "mcps"):
            return True
        ancestor = by_id.get(ancestor.parent_id) or things.get_thing(conn, ancestor.parent_id)
    return False


def find_namespace(
    conn: Connection, name: str, room_id: str | None = None, *, titled: bool = False
) -> Namespace:
    """Return the namespace with that dotted name or, if `titled`, that unique title.

    Raises:
        NotFound: if no namespace matches.
    """
    dotted_name = name.strip().lower().removeprefix("room://").removesuffix(":*")
    spaces = {space.id.lower(): space for space in read_namespaces(conn, room_id)}
    if dotted_name in spaces:
        return spaces[dotted_name]
    matches = [space for space in spaces.values() if space.title.lower() == dotted_name]
    if titled and len(matches) == 1:
        return matches[0]
    ids = [space.id for space in spaces.values()]
    raise unknown_name_error(
        "namespace", dotted_name, known=ids, hint=next_call("{} lists them.", "namespaces")
    )


def check_namespace_name(name: str) -> list[str]:
    """Return the parts of a valid dotted name of a namespace.

    Raises:
        Invalid: if the name is not valid.
    """
    parts = name.lower().split(".")
    if len(parts) > MAX_NAMESPACE_DEPTH or len(name) > MAX_NAMESPACE_NAME_CHARACTERS:
        raise Invalid(
            f"Namespaces nest at most {MAX_NAMESPACE_DEPTH} deep, and a dotted name has at most "
            f"{MAX_NAMESPACE_NAME_CHARACTERS} characters."
        )
    if not all(parts):
        printable_name = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{printable_name or 'Nothing'} cannot be the name of a namespace.",
            hint="Separate names with a dot, as in git.branch",
        )
    return [names.check_name(part, "namespace") for part in parts]


def create_namespace(tx: Change, name: str, created_by: str | None, description: str = "") -> Thing:
    """Create a namespace and missing ancestors; replace those whose parent is gone.

    `created_by` is None for what the server's machine brings.

    Raises:
        Invalid: if the name is not valid.
        Conflict: if it already exists.
    """
    parent_id, path = NAMESPACE_CONTAINER, ""
    namespace: Thing | None = None
    for part in check_namespace_name(name):
        path = f"{path}.{part}" if path else part
        existing = _find_reachable_or_remove(tx, path)
        namespace = None
        if existing is None:
            namespace = things.create_thing(
                tx,
                parent_id,
                "toolset",
                part,
                qualified_name=path,
                description=(description if path == name.lower() else "") or make_description(path),
                metadata={KEYWORDS_KEY: [part], "title": make_title(part)},
                created_by=created_by,
            )
        parent_id = (namespace or existing or things.get_live_thing(tx.conn, parent_id)).id
    if namespace is None:
        raise Conflict(f"The namespace {name} already exists.")
    return namespace


def make_title(name: str) -> str:
    """Return the title of a namespace that has been given none.

    `my-new_ns` becomes "My new ns".
    """
    return re.sub("[-_]+", " ", name).capitalize()


def make_description(path: str) -> str:
    """Return the description of a namespace that nobody has described."""
    return f"Tools of {path}"


def _find_reachable_or_remove(tx: Change, path: str) -> Thing | None:
    """Return the namespace with that dotted name; delete it if its parent is gone.

    Deleting it frees its name.

    Raises:
        Conflict: if the name belongs to something else.
    """
    namespace = _find_by_path(tx.conn, path)
    if namespace is None or _is_reachable(tx.conn, namespace, {}):
        return namespace
    remove_namespace(tx, namespace)
    return None


def check_namespace_free(tx: Change, name: str) -> None:
    """Raise unless a namespace can have that name.

    Raises:
        Invalid: if the name is not valid.
        Conflict: if the name is taken.
    """
    check_namespace_name(name)
    if _find_by_path(tx.conn, name) is not None:
        raise Conflict(f"The namespace {name} already exists.")


def _find_by_path(conn: Connection, path: str) -> Thing | None:
    """Return the namespace with that dotted name, if it exists.

    Raises:
        Conflict: if the name belongs to something else.
    """
    is_agent = things.find_child(conn, "agents", path, "agent") is not None
    if is_agent or rooms.find_room_id(conn, path) is not None:
        # The same for both: a private room is not named as one.
        raise Conflict(f"The name {path} is taken.", hint="Choose another name.")
    thing = things.find_by_qualified_name(conn, path)
    if thing is not None and thing.kind not in NAMESPACE_KINDS:
        raise Conflict(f"{path} is the name of {things.describe_kind(thing.kind)}.")
    return thing


def read_descendants(conn: Connection, thing: Thing) -> list[Thing]:
    """Return the namespaces inside a namespace, at every depth."""
    descendants: dict[str, Thing] = {}
    stack = [thing]
    while stack:
        for child in things.read_children(conn, stack.pop().id, *NAMESPACE_KINDS):
            if child.id not in descendants:
                descendants[child.id] = child
                stack.append(child)
    return list(descendants.values())


def remove_namespace(tx: Change, thing: Thing) -> tuple[list[str], int]:
    """Delete a namespace, those inside it and their tools, which frees the names.

    Returns the names of the namespaces, and the number of tools deleted with them.
    """
    spaces = [thing, *(node for node in read_descendants(tx.conn, thing) if node.kind == "toolset")]
    tools = [tool for space in spaces for tool in things.read_children(tx.conn, space.id, "tool")]
    for node in (*tools, *reversed(spaces)):
        things.delete_thing(tx, node)
    return [space.label for space in spaces], len(tools)


def missing_states(required: Iterable[str], held: Collection[str]) -> tuple[str, ...]:
    """Return the required states that are not set."""
    return tuple(dict.fromkeys(state for state in required if state not in held))
