"""Equipment and bags, as terminals show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from sshwarma.common.limits import MAX_SHOWN_AVAILABLE_TOOLS
from sshwarma.common.shorten import count_rest
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.views import draw_columns, view_for_reader
from sshwarma.world.builtin_containers import is_builtin_namespace
from sshwarma.world.reader import Reader, add_next_call, next_call

_ORIGINS: Final = ("built in", "toolset", "MCP server", "")
"""In the order in which they are listed."""

_ROOM: Final = "room"
"""Heading of what belongs to the room itself."""

OPEN_BAGS = ("yours", "new rooms")
"""Values of `Inventory.whose` for which the caller sees the bag."""


@dataclass(frozen=True, slots=True)
class EquippedItem:
    """A thing that is equipped, or could be."""

    name: str
    kind: str
    namespace: str  # sshwarma, global, or the namespace, MCP server, room or agent it comes from
    by: str  # room, agent, always
    priority: float
    usable: bool
    status: str  # available, or why it cannot be used
    origin: str = ""  # of a tool: built in, toolset, MCP server, or "" for one that was made here
    renderer: str = ""  # how pages show its results
    confirms: bool = False  # whether each call waits for a person


@dataclass(frozen=True, slots=True)
class BagItem:
    """A thing in the bag of a room or agent."""

    name: str
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Equipment, the contents of a bag, and things that could be equipped.

    Attributes:
        of: name of the room or agent.
        available: things that could be equipped; None unless requested.
        available_cut: whether there are more of these than are shown.
        whose: whose equipment is an agent's own: `yours`, or `bob's`; `new rooms` for defaults.
        switched_off: names of what is switched off there, whatever else equips it.
        equipped_count: how many things are equipped, of which the first are shown.
        bag_count: how many things the bag has.
        off_count: how many things are switched off.
    """

    of: str
    equipped: tuple[EquippedItem, ...]
    bag_title: str
    bag: tuple[BagItem, ...]
    available: tuple[EquippedItem, ...] | None = None
    available_cut: bool = False
    whose: str = "yours"
    switched_off: tuple[str, ...] = ()
    equipped_count: int = 0
    bag_count: int = 0
    off_count: int = 0


@view_for_reader(Inventory)
def draw_inventory(inventory: Inventory, reader: Reader) -> Block:
    """Draw the equipment, the bag, and the tools that could be equipped."""
    lines = [line(("heading", "Equipped:")), *_draw_equipment(inventory, reader)]
    if not inventory.equipped:
        lines.append(line("  ", ("dim", "nothing")))
    lines += _draw_rest(inventory, inventory.equipped_count - len(inventory.equipped), reader)
    if inventory.switched_off:
        lines += [line(), line(("heading", "Switched off:"))]
        names = map(reader.name_tool, inventory.switched_off)
        lines += [line("  ", ("dim", f"✗ {name}")) for name in names]
        lines += _draw_rest(inventory, inventory.off_count - len(inventory.switched_off), reader)
    lines += [line(), line(("heading", f"{inventory.bag_title}:"))]
    lines += draw_columns(
        (
            ("thing", f"· {item.name}"),
            ("dim", f"[{item.kind}]" if item.kind != "data" else ""),
            item.description,
        )
        for item in inventory.bag
    )
    if not inventory.bag:
        lines.append(line("  ", ("dim", "nothing" if inventory.whose in OPEN_BAGS else "private")))
    lines += _draw_rest(inventory, inventory.bag_count - len(inventory.bag), reader)
    if inventory.available is not None:
        lines += [line(), line(("heading", "Available to equip:"))]
        lines += _draw_available(inventory, reader)
        if not inventory.available:
            lines.append(line("  ", ("dim", "nothing")))
        if inventory.available_cut:
            lines.append(
                line("  ", ("dim", f"… only the first {MAX_SHOWN_AVAILABLE_TOOLS} are shown"))
            )
    return block(*lines)


def _draw_equipment(inventory: Inventory, reader: Reader) -> Iterator[Line]:
    """Draw what is equipped; in `/inv all`, by where it comes from."""
    items = [
        item
        for item in inventory.equipped
        if not (is_builtin_namespace(item.namespace) and reader.lacks_tool(item.name))
    ]
    is_grouped = inventory.available is not None
    for title, members in _group_by_origin(items, inventory) if is_grouped else [("", items)]:
        if title:
            yield line(("dim", f"  {title}"))
        yield from draw_columns(
            _draw_equipped_row(item, inventory.whose, reader, names_origin=not is_grouped)
            for item in members
        )


def _draw_rest(inventory: Inventory, count: int, reader: Reader) -> Iterator[Line]:
    """Draw the number of things that are not shown, with a way to them."""
    if count <= 0:
        return
    whose = {"Room contents": "room", "Your bag": "me"}.get(inventory.bag_title)
    whose = whose or f"@{inventory.of}"
    step = next_call("{} shows some of them.", "inv show", inventory=f"{whose}:prompt:*")
    is_reachable = inventory.whose != "new rooms"
    text = add_next_call(f"… {count_rest(count)}.", step if is_reachable else None, reader)
    yield line("  ", ("dim", text))


def _draw_available(inventory: Inventory, reader: Reader) -> Iterator[Line]:
    """Draw what could be equipped, by where it comes from."""
    for title, members in _group_by_origin(inventory.available or (), inventory):
        yield line(("dim", f"  {title}"))
        yield from draw_columns(
            (
                ("tool", f"○ {reader.name_tool(item.name)}"),
                ("dim", _format_source([*(() if item.usable else (item.status,)), *_marks(item)])),
            )
            for item in members
        )


def _group_by_origin(
    items: Sequence[EquippedItem], inventory: Inventory
) -> Iterator[tuple[str, Sequence[EquippedItem]]]:
    """Yield the things of each origin, with a heading such as `toolset charts`."""

    def order(item: EquippedItem) -> tuple[int, bool, str]:
        title = _name_origin(item, inventory)
        return _ORIGINS.index(item.origin), title != _ROOM, title

    for (_, _, title), members in groupby(sorted(items, key=order), key=order):
        yield title, tuple(members)


def _name_origin(item: EquippedItem, inventory: Inventory) -> str:
    """Return the heading of the things that come from the same place as one."""
    if item.origin:
        return "Builtin" if item.origin == "built in" else f"{item.origin} {item.namespace}"
    if not item.namespace:  # no tool
        return inventory.whose if item.by == "agent" else _ROOM
    return _ROOM if item.namespace == inventory.of else item.namespace


def _marks(item: EquippedItem) -> Iterator[str]:
    return filter(None, (item.renderer, "needs an approval" if item.confirms else ""))


def _draw_equipped_row(
    item: EquippedItem, owner: str, reader: Reader, *, names_origin: bool
) -> tuple[Span, Span]:
    notes: list[str] = []
    if names_origin and not is_builtin_namespace(item.namespace) and item.kind == "tool":
        notes += [item.namespace, item.status]
    elif not item.usable:
        notes.append(item.status)
    notes += _marks(item)
    if item.kind != "tool":
        notes.append(item.kind)
        if names_origin and item.namespace == "home":
            notes.append("home")
    if item.by == "agent":
        notes.append(owner)
    name = reader.name_tool(item.name) if item.kind == "tool" else item.name
    mark = ("tool", f"✓ {name}") if item.usable else ("dim", f"✗ {name}")
    return mark, ("dim", _format_source(notes))


def _format_source(notes: Iterable[str]) -> str:
    text = ", ".join(notes)
    return f"[{text}]" if text else ""
