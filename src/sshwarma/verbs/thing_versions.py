"""The verbs on versions of texts and scripts: `/history of`, `/revert`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_KEPT_TEXTS
from sshwarma.common.times import format_iso
from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block
from sshwarma.verbs.arguments import ThingName
from sshwarma.verbs.history import history
from sshwarma.verbs.mem_versions import ValueVersion
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import find_thing
from sshwarma.verbs.rights import BAG_RIGHT, MAKER_RIGHT, TOOL_RIGHT
from sshwarma.verbs.script_notes import describe_trigger
from sshwarma.verbs.tool_access import check_may_decide
from sshwarma.verbs.version_views import ValueVersionItem, draw_difference, draw_versions
from sshwarma.verbs.views import Confirmation, draw_hint, view, view_for_reader
from sshwarma.workspaces.text_diff import compare_contents
from sshwarma.world import text_history, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.ids import HOME_ID
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.store import Change
from sshwarma.world.text_history import OldText
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class ThingHistory:
    """The versions of a text or script that are kept, the newest first."""

    name: str
    versions: tuple[ValueVersionItem, ...]


@dataclass(frozen=True, slots=True)
class ThingDiff:
    """The difference between an earlier version of a text and the present one.

    `note` says why the `diff` is empty or cut.
    """

    name: str
    version: int
    diff: str
    note: str


@view_for_reader(ThingHistory)
def draw_thing_history(result: ThingHistory, reader: Reader) -> Block:
    """Draw the versions of a thing: number, size, author, time."""
    lines = draw_versions(f"Versions of {result.name}", result.versions)
    if len(result.versions) > 1:
        lines += draw_hint(reader, "{} shows what changed.", "history diff", name=result.name)
    return block(*lines)


@view(ThingDiff)
def draw_thing_diff(result: ThingDiff) -> Block:
    """Draw the difference as a unified diff, in colour."""
    return draw_difference(result.name, result.version, result.diff, result.note)


@history.verb("of", needs=Right.ENTER, tool=False, examples=("/history plan", "/history of dice"))
async def list_versions(caller: Caller, name: ThingName) -> ThingHistory:
    """List the versions of a text or of the script of a tool.

    At most {MAX_KEPT_TEXTS} earlier ones are kept.

    Args:
        name: the text or tool.
    """
    thing = await find_written(caller, name)
    names = caller.world.agents.name_of

    def read(conn: Connection) -> list[ValueVersionItem]:
        old = _read_old_texts(conn, thing)
        author_id = thing.metadata.get(text_history.AUTHOR_KEY) or thing.created_by
        now = ValueVersionItem(
            text_history.read_present_version(conn, thing),
            len((thing.content or "").encode()),
            names(author_id) if author_id else "",
            format_iso(thing.updated_at),
            "",
        )
        earlier = [
            ValueVersionItem(
                one.version,
                one.size,
                names(one.author_id) if one.author_id else "",
                format_iso(one.set_at),
                f"replaced by {names(one.replaced_by) if one.replaced_by else 'the server'}",
            )
            for one in old
        ]
        return [now, *earlier]

    return ThingHistory(thing.label, tuple(await caller.world.store.read(read)))


@history.verb(
    "diff",
    needs=Right.ENTER,
    tool=False,
    examples=("/history diff plan", "/history diff plan 3"),
)
async def compare_versions(
    caller: Caller, name: ThingName, version: ValueVersion | None = None
) -> ThingDiff:
    """Compare an earlier version of a text or script with the present one.

    Args:
        name: the text or tool.
        version: number of the earlier version (default: the last before the present one).
    """
    thing = await find_written(caller, name)
    number, old = await caller.world.store.read(lambda conn: _read_old(conn, thing, version))
    new = thing.content or ""
    diff = await asyncio.to_thread(compare_contents, old.encode(), new.encode())
    return ThingDiff(thing.label, number, diff.text, diff.note)


@verb(
    "revert",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BAG_RIGHT, TOOL_RIGHT, MAKER_RIGHT),
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/revert plan", "/revert dice 3"),
)
async def revert(
    caller: Caller, name: ThingName, version: ValueVersion | None = None
) -> Confirmation:
    """Give a text or tool an earlier version of its text or script.

    What it has now is kept as a version. A trigger whose script is reverted is off.

    Args:
        name: the text or tool.
        version: number of the version (default: the last before the present one).
    """
    thing = await find_written(caller, name)
    await check_may_write(caller, thing)
    number, old = await caller.world.store.read(lambda conn: _read_old(conn, thing, version))
    if old == thing.content:
        return Confirmation(f"{thing.label} has the text of version {number} already.")
    if thing.kind == "tool":
        await services_of(caller).lua_tools.check_syntax(thing.name, old)
    caller.charge_text_volume(len(old.encode()))

    def work(tx: Change) -> None:
        present = things.get_live_thing(tx.conn, thing.id)
        if present.content != thing.content:
            raise Conflict(f"{thing.label} was changed meanwhile.")
        if thing.kind == "tool":
            bag = things.get_live_thing(tx.conn, thing.parent_id or "")
            creation.store_tool(
                tx, bag=bag, name=thing.name, source=old, declaration=parse_declaration(old),
                by=caller.agent.id,
            )  # fmt: skip
        else:
            text_history.change_text(tx, present, old, by=caller.agent.id)
        if thing.parent_id == caller.room_id:
            caller.append_notice(tx, f"reverted {thing.label} to version {number}")

    await caller.change(work)
    note = f" {trigger}" if (trigger := describe_trigger(thing.name)) else ""
    return Confirmation(
        f"{thing.label} has the text of version {number} again.{note}",
        next=next_call("{} takes it back.", "revert", name=thing.label),
    )


async def find_written(caller: Caller, name: str) -> Thing:
    """Return a text or a tool that was written here.

    Raises:
        Invalid: if the thing has no versions.
    """
    thing = await find_thing(caller, name)
    if thing.kind == "data" or creation.is_lua_tool(thing):
        return thing
    kind = things.describe_kind(thing.kind)
    raise Invalid(f"{thing.label} is {kind}: texts and tools in Lua have versions.")


async def check_may_write(caller: Caller, thing: Thing) -> None:
    """Raise Forbidden unless the caller may write the thing."""
    if thing.kind == "tool":
        await check_may_decide(caller, thing)
    elif thing.parent_id in (caller.room_id, HOME_ID):
        await BAG_RIGHT.require(caller, room=await caller.world.room(thing.parent_id))
    elif thing.parent_id != caller.agent.id:
        await MAKER_RIGHT.require(caller, thing.created_by)


def _read_old_texts(conn: Connection, thing: Thing) -> list[OldText]:
    """Return the earlier texts of a thing, the newest first; none of a namesake."""
    key = text_history.make_key(thing)
    old = text_history.read_old_texts(conn, thing.parent_id or "", key)
    return [one for one in old if one.set_at >= thing.created_at]


def _read_old(conn: Connection, thing: Thing, version: int | None) -> tuple[int, str]:
    """Return an earlier text with its number; the last one by default.

    Raises:
        NotFound: if it is not kept.
    """
    known = [one.version for one in _read_old_texts(conn, thing)]
    if not known:
        raise NotFound(f"{thing.label} has no earlier version.")
    number, text = version or known[0], None
    if number in known:
        key = text_history.make_key(thing)
        text = text_history.read_old_text(conn, thing.parent_id or "", key, number)
    if text is None:
        raise NotFound(
            f"Version {number} of {thing.label} is not among the earlier ones.",
            hint=f"At most {MAX_KEPT_TEXTS} are kept.",
        )
    return number, text
