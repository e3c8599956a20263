"""Upkeep of the world: garbage collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Days, Flag
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, view
from sshwarma.world import garbage
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.garbage import Garbage
from sshwarma.world.things import Thing

MAX_SHOWN_ITEMS = 40


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """What was found, and whether anything was done about it."""

    what: str
    days: int
    acted: bool
    found: tuple[tuple[str, str], ...]  # name, kind
    count: int
    kept: tuple[tuple[str, str], ...]
    kept_count: int


@view(GarbageReport)
def draw_garbage_report(result: GarbageReport) -> Block:
    verb_done = {"orphans": "Deleted", "stale": "Found", "purge": "Purged"}[result.what]
    verb_todo = {"orphans": "Would delete", "stale": "Found", "purge": "Would purge"}[result.what]
    lines = [
        line(f"{verb_done if result.acted else verb_todo} {result.count} {_garbage_noun(result)}.")
    ]
    lines += draw_columns((("thing", name), ("dim", f"[{kind}]")) for name, kind in result.found)
    if result.count > len(result.found):
        lines.append(line(("dim", f"  and {result.count - len(result.found)} more")))
    if result.kept_count:
        lines.append(line(f"{result.kept_count} must stay, because something refers to them:"))
        lines += draw_columns((("thing", name), ("dim", f"[{kind}]")) for name, kind in result.kept)
    if result.what != "stale" and not result.acted and result.count:
        days = f" {result.days}" if result.what == "purge" else ""
        lines.append(line(("dim", f"Nothing was changed. /gc {result.what}{days} --yes does it.")))
    return block(*lines)


@verb(
    "gc",
    group="Upkeep",
    needs=Right.ADMIN,
    tool=False,
    examples=("/gc orphans", "/gc stale 7", "/gc purge 30 --yes"),
)
async def gc(
    caller: Caller,
    what: Literal["orphans", "stale", "purge"],
    days: Days = 30,
    *,
    yes: Flag = False,
) -> GarbageReport:
    """Find and remove garbage

    orphans: things whose bag is gone. stale: things deleted some days ago. purge: deletes stale
    things for good, which nothing undoes; whatever a log, a key or a call refers to stays.

    what: orphans, stale or purge.
    days: how long ago things were deleted, 30 if left out.
    yes: do it; without this you only see what would be done.
    """
    if not yes or what == "stale":
        found = await caller.world.store.read(
            garbage.find_orphans
            if what == "orphans"
            else lambda conn: garbage.find_deleted_things(conn, days)
        )
    elif what == "orphans":
        found = await caller.change(garbage.delete_orphans)
    else:
        found = await caller.change(lambda tx: garbage.purge_deleted_things(tx, days))
    return _make_garbage_report(what, days, yes and what != "stale", found)


def _make_garbage_report(what: str, days: int, acted: bool, garbage: Garbage) -> GarbageReport:
    return GarbageReport(
        what,
        days,
        acted,
        _list_names(garbage.found),
        len(garbage.found),
        _list_names(garbage.kept),
        len(garbage.kept),
    )


def _list_names(found: tuple[Thing, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((thing.label, thing.kind) for thing in found[:MAX_SHOWN_ITEMS])


def _garbage_noun(result: GarbageReport) -> str:
    noun = "orphan" if result.what == "orphans" else "deleted thing"
    return noun if result.count == 1 else f"{noun}s"
