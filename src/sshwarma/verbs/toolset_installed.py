"""The result of an import of a toolset, and of a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.toolsets.upgrade import Installed, UpgradeKind, describe_code_change, join_names
from sshwarma.verbs.toolset_rooms import join_rooms, list_known_rooms
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class ToolsetInstalled:
    """A toolset that was imported or linked.

    Attributes:
        tools: how many tools it has.
        servers: how many MCP servers it has.
        is_new: whether it took the place of no version before.
        how: what was done; `replaced` if the versions do not say which is the later one,
            `unchanged` if all is as before.
        version_before: that it took the place of; "" if it is new.
        added: names of tools that the version before did not have.
        removed: names of tools that are gone.
        changed: names of tools with another description, schema, flags or renderer.
        code_changed: whether the code of others may do something else.
        ended_link: the folder that it was linked to before; "" if none.
        unequipped_here: whether this room has some of its tools, and not those that are new.
        unequipped_elsewhere: how many other rooms have some of its tools, and not those.
        equipped_before: rooms that had it equipped when it was uninstalled, the first of those that
            the caller may see; `equipped_before_count` is how many there are.
        warnings: probable mistakes of its author.
    """

    id: str
    name: str
    version: str
    tools: int
    servers: int
    is_new: bool
    how: UpgradeKind | Literal["linked"]
    version_before: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    code_changed: bool
    ended_link: str
    unequipped_here: bool
    unequipped_elsewhere: int
    equipped_before: tuple[str, ...]
    equipped_before_count: int
    warnings: tuple[str, ...]


async def describe_import(
    caller: Caller, done: Installed, *, is_link: bool = False
) -> ToolsetInstalled:
    """Return the result of an import, or of a link, for who made it."""
    upgrade = done.upgrade
    return ToolsetInstalled(
        done.id,
        done.name,
        done.version,
        done.tools,
        done.servers,
        upgrade.is_new,
        "linked" if is_link else upgrade.name_kind(done.version),
        upgrade.version_before,
        upgrade.added,
        upgrade.removed,
        upgrade.changed,
        upgrade.is_code_changed,
        upgrade.ended_link,
        caller.room_id in upgrade.rooms,
        len(upgrade.rooms - {caller.room_id}),
        await list_known_rooms(caller, upgrade.rooms_before),
        len(upgrade.rooms_before),
        done.warnings,
    )


@view_for_reader(ToolsetInstalled)
def draw_installed_toolset(result: ToolsetInstalled, reader: Reader) -> Block:
    """Draw what was installed, what differs, and the warnings."""
    servers = f", {format_count(result.servers, 'MCP server')}" if result.servers else ""
    tools = format_count(result.tools, "tool")
    lines: list[Line] = [line(f"{_name_change(result)}: {result.name}, {tools}{servers}.")]
    kinds = (("New", result.added), ("Gone", result.removed), ("Changed", result.changed))
    lines += [line(f"{kind}: {join_names(names)}.", hang=2) for kind, names in kinds if names]
    if result.code_changed:
        clause = describe_code_change((*result.added, *result.changed))
        lines.append(line(f"{clause.capitalize()}."))
    if result.unequipped_here or result.unequipped_elsewhere:
        lines += _draw_unequipped(result, reader)
    own_tools = {"context": "room", "patterns": f"{result.id}:*"}
    if result.equipped_before_count:
        rooms = join_rooms(result.equipped_before, result.equipped_before_count)
        text = f"It was equipped in {rooms} before it was uninstalled, and is not now."
        text += reader.hint(" {} equips it in a room.", "equip", **own_tools)
        lines.append(line(("warn", text), hang=2))
    elif result.is_new and result.tools:
        text = reader.hint("{} equips its tools in a room.", "equip", **own_tools)
        lines += [line(("dim", text), hang=2)] if text else []
    if result.ended_link:
        lines.append(line(("warn", f"It is not linked to {result.ended_link} any more.")))
    lines += [line(("warn", f"Warning: {one}"), hang=2) for one in result.warnings]
    return block(*lines)


def _name_change(result: ToolsetInstalled) -> str:
    """Return what was done, with the versions."""
    now, before = result.version, result.version_before
    if result.how == "unchanged":
        return f"{result.id} {now} is unchanged"
    done = f"{result.how.capitalize()} {result.id}"
    if result.is_new:
        return f"{done} {now}"
    if now == before:
        return f"{done}, still {now}"
    return (
        f"{done} {before} by {now}"
        if result.how == "replaced"
        else f"{done} from {before} to {now}"
    )


def _draw_unequipped(result: ToolsetInstalled, reader: Reader) -> list[Line]:
    """Draw where new tools are not equipped, and how to equip them."""
    others = format_count(result.unequipped_elsewhere, "other room")
    places = ["here"] * result.unequipped_here + [f"in {others}"] * bool(
        result.unequipped_elsewhere
    )
    text = (
        f"The new ones are not equipped {' and '.join(places)}, where single tools of {result.id}"
        " are."
    )
    text += reader.hint(
        " {} equips them in a room.", "equip", context="room", patterns=f"{result.id}:*"
    )
    text += reader.hint(
        " {} loads those of later versions, too.", "load", context="room", room=result.id
    )
    return [line(("warn", text), hang=2)]
