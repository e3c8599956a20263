"""Tools by their names, as any list spells them (`world/tool_names.py`).

Names are resolved with a table built from the names shown, never by parsing one; two tools that
would be shown under one name cannot exist together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_MODEL_TOOL_NAME_CHARACTERS, MAX_NAME_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.world import things
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.loadout import AncestorCache, LoadoutItem
from sshwarma.world.names import NAME_PATTERN
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY, mcp_tool_name, model_tool_name


def check_tool_name(name: str) -> str:
    """Return `name` if it is a valid name for a tool.

    Raises:
        Invalid: with the reason.
    """
    if not NAME_PATTERN.fullmatch(name):
        printable_name = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{shorten_name(printable_name)} cannot be the name of a tool.",
            hint=f"A name is a lower-case letter, then lower-case letters, digits, - or _; at most "
            f"{MAX_NAME_CHARACTERS} characters.",
        )
    return name


def claim_tool_name(tx: Change, canonical: str) -> None:
    """Raise unless a tool can be created: no live tool is shown under its name.

    A tool of a deleted room is deleted too, which frees its name.

    Raises:
        Conflict: naming the other tool.
    """
    names = {model_tool_name(canonical), mcp_tool_name(canonical)}
    for tool in _read_tools_shown_as(tx.conn, names):
        label = tool.label
        if any(link.deleted_at is not None for link in AncestorCache(tx.conn).ancestors_of(tool)):
            things.delete_thing(tx, tool)
            continue
        if label == canonical:
            raise Conflict(f"The tool {canonical} already exists.")
        name = (names & {model_tool_name(label), mcp_tool_name(label)}).pop()
        raise Conflict(
            f"{canonical} and {label} would both be shown as {name}.",
            hint="Choose another name.",
        )


def _read_tools_shown_as(conn: Connection, names: Collection[str]) -> list[Thing]:
    """Return the live tools that some list shows under one of these names."""
    found: dict[str, Thing] = {}
    for column in (things_table.c.name_for_models, things_table.c.name_for_mcp):
        query = select(things_table).where(column.in_(names), things_table.c.deleted_at.is_(None))
        for row in conn.execute(query).mappings():
            found[row["id"]] = things.thing_from_row(row)
    return list(found.values())


def find_spelled(conn: Connection, name: str) -> Iterator[Thing]:
    """Yield live things with a qualified name, as it is or as tool lists spell it.

    For things that are in no table: the spellings are `namespace:tool`, `namespace__tool` and
    `namespace.tool`, and of a plugin `namespace_tool`. A name that was changed for a list is not
    found.
    """
    namespace, _, tool = name.rpartition(".")
    spellings = (name, name.replace("__", ":", 1), f"{namespace}:{tool}")
    for spelling in dict.fromkeys(spellings):
        thing = things.find_by_qualified_name(conn, spelling)
        if thing is not None:
            yield thing
    for place, character in enumerate(name[: MAX_MODEL_TOOL_NAME_CHARACTERS * 2]):
        thing = None
        if character == "_":
            thing = things.find_by_qualified_name(conn, f"{name[:place]}:{name[place + 1 :]}")
        if thing is not None and thing.metadata.get(PLUGIN_NAME_KEY) == name:
            yield thing


class NameTable:
    """Tools of a loadout by each of their names; a bare name only if it is unique.

    Any of these goes before the name that a plugin gives a tool.
    """

    def __init__(self, items: Iterable[LoadoutItem]) -> None:
        self._known: dict[str, LoadoutItem] = {}
        items_by_name: dict[str, LoadoutItem | None] = {}
        known = tuple(items)
        for item in known:
            canonical = item.thing.label
            space, _, tool = canonical.partition(":")
            names = [canonical, model_tool_name(canonical), mcp_tool_name(canonical)]
            if tool in names:  # shown without its namespace
                names += [f"{space}__{tool}", f"{space}.{tool}"]
            for name in names:
                self._known.setdefault(name, item)
            short_name = item.thing.name
            items_by_name[short_name] = None if short_name in items_by_name else item
        for short_name, single in items_by_name.items():
            if single is not None:
                self._known.setdefault(short_name, single)
        for item in known:
            if PLUGIN_NAME_KEY in item.thing.metadata:
                self._known.setdefault(str(item.thing.metadata[PLUGIN_NAME_KEY]), item)

    def find(self, name: str) -> LoadoutItem | None:
        """Return the tool with that name, in any of its forms."""
        return self._known.get(name)
