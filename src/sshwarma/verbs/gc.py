"""The verbs of `/gc`: garbage collection of orphans, stale and deleted things."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Days, Flag
from sshwarma.verbs.reader import Reader
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import draw_columns, draw_hint, format_kind, view_for_reader
from sshwarma.world import garbage
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.garbage import Garbage
from sshwarma.world.things import Thing

MAX_SHOWN_ITEMS = 40


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """The result of a collection: the garbage, and whether it was deleted or purged."""

    what: str
    days: int
    acted: bool
    found: tuple[tuple[str, str], ...]  # name, kind
    count: int
    kept: tuple[tuple[str, str], ...]
    kept_count: int


@view_for_reader(GarbageReport)
def draw_collected(result: GarbageReport, reader: Reader) -> Block:
    """Draw the garbage that was deleted, purged or listed, and what had to stay."""
    verb_done = {"orphans": "Deleted", "stale": "Found", "purge": "Purged"}[result.what]
    verb_todo = {"orphans": "Would delete", "stale": "Found", "purge": "Would purge"}[result.what]
    lines = [
        line(f"{verb_done if result.acted else verb_todo} {result.count} {_garbage_noun(result)}.")
    ]
    lines += draw_columns(
        (("thing", name), ("dim", f"[{format_kind(kind)}]")) for name, kind in result.found
    )
    if result.count > len(result.found):
        lines.append(line(("dim", f"  and {result.count - len(result.found)} more")))
    if result.kept_count:
        lines.append(
            line(f"{result.kept_count} cannot be removed, because something refers to them:")
        )
        lines += draw_columns(
            (("thing", name), ("dim", f"[{format_kind(kind)}]")) for name, kind in result.kept
        )
    if result.what != "stale" and not result.acted and result.count:
        days = result.days if result.what == "purge" else None
        does = "Nothing was changed. {} does it."
        lines += draw_hint(reader, does, f"gc {result.what}", days=days, yes=True)
    return block(*lines)


gc = group(
    "gc",
    section="Upkeep",
    doc="""Find and remove garbage.

    Things that a log, a key or a call refers to are kept.
    """,
)


@gc.verb(
    "orphans",
    needs=Right.ADMIN,
    tool=False,
    examples=("/gc orphans", "/gc orphans --yes"),
)
async def list_orphans(caller: Caller, *, yes: Flag = False) -> GarbageReport:
    """Find things whose bag is gone, and delete them.

    /gc purge then removes them permanently.

    Args:
        yes: delete them; without this they are only listed.
    """
    if yes:
        return _make_garbage_report("orphans", 0, True, await caller.change(garbage.delete_orphans))
    return _make_garbage_report(
        "orphans", 0, False, await caller.world.store.read(garbage.find_orphans)
    )


@gc.verb("stale", needs=Right.ADMIN, tool=False, examples=("/gc stale", "/gc stale 7"))
async def list_stale(caller: Caller, days: Days = 30) -> GarbageReport:
    """List things that were deleted some days ago.

    Args:
        days: minimum age of the deletion in days (default 30).
    """
    found = await caller.world.store.read(lambda conn: garbage.find_deleted_things(conn, days))
    return _make_garbage_report("stale", days, False, found)


@gc.verb("purge", needs=Right.ADMIN, tool=False, examples=("/gc purge", "/gc purge 30 --yes"))
async def purge(caller: Caller, days: Days = 30, *, yes: Flag = False) -> GarbageReport:
    """Remove deleted things permanently.

    This cannot be undone.

    Args:
        days: minimum age of the deletion in days (default 30).
        yes: remove them; without this they are only listed.
    """
    if yes:
        return _make_garbage_report(
            "purge",
            days,
            True,
            await caller.change(lambda tx: garbage.purge_deleted_things(tx, days)),
        )
    found = await caller.world.store.read(lambda conn: garbage.find_deleted_things(conn, days))
    return _make_garbage_report("purge", days, False, found)


def _make_garbage_report(kind: str, days: int, acted: bool, garbage: Garbage) -> GarbageReport:
    return GarbageReport(
        what=kind,
        days=days,
        acted=acted,
        found=_list_names(garbage.things),
        count=len(garbage.things),
        kept=_list_names(garbage.referenced),
        kept_count=len(garbage.referenced),
    )


def _list_names(things: tuple[Thing, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((thing.label, thing.kind) for thing in things[:MAX_SHOWN_ITEMS])


def _garbage_noun(result: GarbageReport) -> str:
    noun = "orphan" if result.what == "orphans" else "deleted thing"
    return noun if result.count == 1 else f"{noun}s"
