"""Namespaces: things that hold tools, and are loaded and unloaded as one.

A namespace is known by its dotted name (`git`, `git.branch`); one inside another is a child of it
in the tree. What it says of itself - keywords, required states, whether it loads by itself or with
its parent - is in its metadata and columns, and the loadout reads it there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from sqlalchemy import Connection, func, select

from sshwarma.world import names, rooms, things
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.loadout import ALWAYS, NAMESPACE_KINDS
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

MADE_IN: Final = "toolsets"
"""The container of namespaces that people make."""

MOST: Final = 2_000
"""Namespaces that are listed."""

MOST_WORDS: Final = 50
"""Keywords, or required states, of one namespace or tool."""

DEEPEST: Final = 32
"""Namespaces in namespaces."""

LONGEST: Final = 200
"""Characters of a dotted name."""

STATE_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,59}")
"""A state that can be set by hand; one that is found out may be `mcp:NAME`."""

LEAVES: Final = ("KEEP", "SHORT", "PARAMS_ONLY", "OMIT")
"""What stays of a tool's results once their turn is over: see wrap.told.Policy."""

MOST_SHORT: Final = 5_000

KEYWORDS: Final = "keywords"
STATES: Final = "required_states"
WITH_PARENT: Final = "load_with_parent"

_CONTAINERS: Final = ("world", "rooms", "agents", "mcps", "toolsets", "skills", "projects",
                      "defaults", "directs")  # fmt: skip
"""Containers of the tree that are no namespaces."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as it is listed. `id` is its dotted name; `tools` how many it holds itself."""

    thing: Thing
    id: str
    parent: str | None
    children: tuple[str, ...]
    tools: int

    @property
    def keywords(self) -> tuple[str, ...]:
        return words_of(self.thing, KEYWORDS)

    @property
    def required_states(self) -> tuple[str, ...]:
        return words_of(self.thing, STATES)

    @property
    def load_with_parent(self) -> bool:
        return bool(self.thing.metadata.get(WITH_PARENT))

    @property
    def title(self) -> str:
        """What it is called beside its id."""
        return str(self.thing.metadata.get("title") or self.id.replace(".", " "))


def words_of(thing: Thing, field: str) -> tuple[str, ...]:
    """A list of words in a thing's metadata."""
    found = thing.metadata.get(field)
    return tuple(str(word) for word in found) if isinstance(found, list) else ()


def all_namespaces(conn: Connection, room_id: str | None = None) -> list[Namespace]:
    """Every live namespace, by its dotted name; of rooms only the one given, if it has tools."""
    tool = things_table.alias("tool")
    holds = (
        select(func.count())
        .where(
            tool.c.parent_id == things_table.c.id,
            tool.c.kind == "tool",
            tool.c.deleted_at.is_(None),
        )
        .scalar_subquery()
    )
    query = (
        select(things_table, holds.label("holds"))
        .where(
            things_table.c.kind.in_(NAMESPACE_KINDS),
            things_table.c.deleted_at.is_(None),
            things_table.c.id.not_in(_CONTAINERS),
            (things_table.c.kind != "room") | (things_table.c.id == room_id),
        )
        .order_by(things_table.c.qualified_name, things_table.c.name)
        .limit(MOST)
    )
    found = [(things.from_row(row), row["holds"]) for row in conn.execute(query).mappings()]
    kept = [
        (thing, count)
        for thing, count in found
        if count or thing.kind in ("toolset", "mcp") or thing.id == ALWAYS
    ]
    by_id = {thing.id: thing for thing, _ in kept}
    below_it: dict[str, list[str]] = {}
    for thing, _ in kept:
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
        for thing, count in sorted(kept, key=lambda one: one[0].label.split("."))
        if _in_reach(conn, thing, by_id)
    ]


def _in_reach(conn: Connection, thing: Thing, known: Mapping[str, Thing]) -> bool:
    """Whether nothing above a namespace is gone, such as the server that it was made in."""
    above: Thing | None = thing
    for _ in range(things.DEPTH):
        if above is None or above.deleted_at is not None:
            return False
        if above.parent_id in (None, "world", MADE_IN, "mcps"):
            return True
        above = known.get(above.parent_id) or things.get(conn, above.parent_id)
    return False


def find(
    conn: Connection, name: str, room_id: str | None = None, *, titled: bool = False
) -> Namespace:
    """The namespace of that dotted name; if `titled`, also by its other name, if it alone has it.

    Raises:
        NotFound: if there is none; naming those that are nearly called so.
    """
    wanted = name.strip().lower().removeprefix("room://").removesuffix(":*")
    known = {space.id.lower(): space for space in all_namespaces(conn, room_id)}
    if wanted in known:
        return known[wanted]
    alike = [space for space in known.values() if space.title.lower() == wanted]
    if titled and len(alike) == 1:
        return alike[0]
    near = [space.id for key, space in known.items() if wanted and (wanted in key or key in wanted)]
    near = near or get_close_matches(wanted[:LONGEST], known, 2)
    hint = f"There is {', '.join(near[:4])}." if near else "/namespaces (list_rooms) lists them."
    raise NotFound(f"There is no namespace {name[:60]}.", hint=hint)


def check(name: str) -> list[str]:
    """The parts of a dotted name that a namespace may have.

    Raises:
        Invalid: if it may not.
    """
    parts = name.lower().split(".")
    if len(parts) > DEEPEST or len(name) > LONGEST:
        raise Invalid(
            f"A namespace lies at most {DEEPEST} deep, and its dotted name has at most {LONGEST} "
            "characters."
        )
    if not all(parts):
        shown = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{shown or 'Nothing'} cannot be the name of a namespace.",
            hint="A dot stands between two names, as in git.branch",
        )
    return [names.check_name(part, "namespace") for part in parts]


def create(tx: Change, name: str, created_by: str, description: str = "") -> Thing:
    """Make a namespace, and those above it that are missing.

    Raises:
        Invalid: if it may not have that name.
        Conflict: if it is there already.
    """
    parent_id, path = MADE_IN, ""
    made: Thing | None = None
    for part in check(name):
        path = f"{path}.{part}" if path else part
        known = _known(tx.conn, path)
        if known is not None and not _in_reach(tx.conn, known, {}):
            remove(tx, known)  # it went with what it lay in, and gives its name up
            known = None
        made = None
        if known is None:
            made = things.create(
                tx,
                parent_id,
                "toolset",
                part,
                qualified_name=path,
                description=(description if path == name.lower() else "") or f"Tools of {path}",
                metadata={KEYWORDS: [part], "title": part.replace("_", " ").capitalize()},
                created_by=created_by,
            )
        parent_id = (made or known or things.get_live(tx.conn, parent_id)).id
    if made is None:
        raise Conflict(f"There is a namespace {name} already.")
    return made


def check_free(tx: Change, name: str) -> None:
    """Make sure that a namespace may be called so.

    Raises:
        Invalid: if nothing may.
        Conflict: if something is.
    """
    check(name)
    if _known(tx.conn, name) is not None:
        raise Conflict(f"There is a namespace {name} already.")


def _known(conn: Connection, path: str) -> Thing | None:
    """The namespace of that dotted name, if there is one.

    Raises:
        Conflict: if the name is that of something else.
    """
    if rooms.id_of(conn, path) is not None:
        raise Conflict(f"{path} is the name of a room: its tools are called so.")
    if things.child(conn, "agents", path, "agent") is not None:
        raise Conflict(f"{path} is the name of an agent: their tools are called so.")
    known = things.by_qualified_name(conn, path)
    if known is not None and known.kind not in NAMESPACE_KINDS:
        raise Conflict(f"{path} is the name of a {known.kind}.")
    return known


def set_field(tx: Change, thing: Thing, field: str, value: str) -> Thing:
    """Set what a namespace, or a tool, says of itself.

    Raises:
        Invalid: if there is no such field, or the value is none for it.
    """
    match field:
        case "description":
            return things.change(tx, thing.id, description=value or None)
        case "name" | "title" if thing.kind == "tool":
            raise Invalid("A tool is called by its own name; /tool describe gives it other words.")
        case "name" | "title":
            return things.set_metadata(tx, thing.id, title=value or None)
        case "keywords":
            return things.set_metadata(tx, thing.id, keywords=_words(value.lower()))
        case "required_states":
            return things.set_metadata(tx, thing.id, required_states=_states(value))
        case "load_with_parent":
            return things.set_metadata(tx, thing.id, load_with_parent=_switch(value) or None)
        case "auto_load" if thing.id == ALWAYS:
            raise Conflict("global is loaded everywhere, always.")
        case "auto_load":
            return things.change(tx, thing.id, auto_load=int(_switch(value)))
        case "enabled" if thing.id == ALWAYS:
            raise Conflict("global is there always.", hint="/tool disable takes one tool of it.")
        case "enabled":
            return things.change(tx, thing.id, enabled=int(_switch(value)))
        case "leave_out" if thing.kind == "tool":
            return _leave_out(tx, thing, value)
        case "leave_out":
            raise Invalid("What of results is left out is said of a tool, not of a namespace.")
        case _:
            raise Invalid(f"{field[:40]} is no field of a namespace.")


def _leave_out(tx: Change, tool: Thing, value: str) -> Thing:
    """Say what a model is still told of a tool's results once their turn is over."""
    leave, _, amount = value.strip().upper().partition(" ")
    whole = amount.isdecimal() and 1 <= int(amount[:9]) <= MOST_SHORT
    if leave not in LEAVES or (amount and not (leave == "SHORT" and whole)):
        raise Invalid(
            f"{value[:40]} is none of {', '.join(LEAVES)}.",
            hint=f"SHORT may have a number of characters, to {MOST_SHORT}: SHORT 500.",
        )
    short = int(amount) if amount else None
    return things.set_metadata(tx, tool.id, leave_out=leave, short_amount=short)


def below(conn: Connection, thing: Thing) -> list[Thing]:
    """The namespaces inside a namespace, at every depth."""
    found: dict[str, Thing] = {}
    waiting = [thing]
    while waiting:
        for child in things.children(conn, waiting.pop().id, *NAMESPACE_KINDS):
            if child.id not in found:
                found[child.id] = child
                waiting.append(child)
    return list(found.values())


def remove(tx: Change, thing: Thing) -> tuple[list[str], int]:
    """Remove a namespace with those inside it, and their tools, so that the names are free again.
    Returns the names of the namespaces, and how many tools went with them."""
    gone = [thing, *(one for one in below(tx.conn, thing) if one.kind == "toolset")]
    tools = [tool for space in gone for tool in things.children(tx.conn, space.id, "tool")]
    for one in (*tools, *reversed(gone)):
        things.delete(tx, one)
    return [space.label for space in gone], len(tools)


def missing(required: Iterable[str], held: Collection[str]) -> tuple[str, ...]:
    """The states of those required that do not hold."""
    return tuple(dict.fromkeys(state for state in required if state not in held))


def _words(value: str) -> list[str]:
    found = [word.strip() for word in value.replace("\n", ",").split(",")]
    found = list(dict.fromkeys(word for word in found if word and word != "-"))
    if len(found) > MOST_WORDS or any(len(word) > 60 or not word.isprintable() for word in found):
        raise Invalid(f"At most {MOST_WORDS} of them, each of 60 printable characters at most.")
    return found


def _states(value: str) -> list[str]:
    """States by name: only such as can hold."""
    found = _words(value)
    for state in found:
        if not STATE_NAME.fullmatch(state.removeprefix("mcp:")):
            raise Invalid(
                f"{state[:60]} cannot be the name of a state.",
                hint="As in ci-configured, project-loaded, or mcp:NAME for a server.",
            )
    return found


def _switch(value: str) -> bool:
    match value.strip().lower():
        case "on" | "yes" | "true" | "1":
            return True
        case "off" | "no" | "false" | "0":
            return False
        case _:
            raise Invalid(f"{value[:20]} is neither on nor off.")


def dump(space: Namespace) -> dict[str, Any]:
    """A namespace's own fields, for programs."""
    return {
        "id": space.id,
        "name": space.title,
        "description": space.thing.description,
        "keywords": list(space.keywords),
        "parent": space.parent,
        "children": list(space.children),
        "required_states": list(space.required_states),
        "auto_load": space.thing.auto_load,
        "load_with_parent": space.load_with_parent,
    }
