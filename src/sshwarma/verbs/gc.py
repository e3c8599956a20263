"""The verbs of `/gc`: garbage collection of orphans, stale and deleted things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from sshwarma.common.limits import DEFAULT_GARBAGE_DAYS, MAX_SHOWN_GARBAGE_THINGS
from sshwarma.common.shorten import count_rest
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Days, Flag
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import draw_columns, format_count, format_kind, view_for_reader
from sshwarma.world import garbage
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.garbage import Garbage
from sshwarma.world.reader import NextCall, Reader, add_next_call, next_call
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """Garbage that was found, or removed if `acted`.

    `kept` is garbage that has to stay. `found` and `kept` are names and kinds, the first
    MAX_SHOWN_GARBAGE_THINGS. `next` removes what was found.
    """

    summary: str
    acted: bool
    found: tuple[tuple[str, str], ...]
    count: int
    kept: tuple[tuple[str, str], ...]
    kept_count: int
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(GarbageReport)
def draw_garbage_report(report: GarbageReport, reader: Reader) -> Block:
    """Draw the garbage that was deleted, purged or listed, and what had to stay."""
    lines = [line(report.summary)]
    lines += draw_columns(
        (("thing", name), ("dim", f"[{format_kind(kind)}]")) for name, kind in report.found
    )
    if rest := count_rest(report.count - len(report.found)):
        lines.append(line(("dim", f"  {rest}")))
    if report.kept_count:
        lines.append(
            line(f"{report.kept_count} cannot be removed, because something refers to them:")
        )
        lines += draw_columns(
            (("thing", name), ("dim", f"[{format_kind(kind)}]")) for name, kind in report.kept
        )
    if hint := add_next_call("", report.next, reader):
        lines.append(line(("dim", hint)))
    return block(*lines)


gc = group(
    "gc",
    section="Upkeep",
    default="list",
    doc="""Find and remove garbage.

    Things that a log, a key, a call or a file refers to are kept.
    """,
)


@dataclass(frozen=True, slots=True)
class GarbageCounts:
    """The garbage of each kind, counted.

    Attributes:
        orphans: things whose bag is gone.
        deleted: things that were deleted at least `days` days ago, and can be removed.
        contents: contents of files that no version names; `size` is the sum of their bytes.
    """

    orphans: int
    deleted: int
    days: int
    contents: int
    size: int


@view_for_reader(GarbageCounts)
def draw_garbage_counts(result: GarbageCounts, reader: Reader) -> Block:
    """Draw each kind of garbage with how much there is, and the call that removes it."""
    contents = format_count(result.contents, "content")
    rows = (
        (f"{format_count(result.orphans, 'thing')} whose bag is gone", "gc orphans"),
        (f"{format_count(result.deleted, 'thing')} deleted {result.days} days ago or earlier",
         "gc purge"),
        (f"{contents} of files that nothing names, {format_size(result.size)}", "gc files"),
    )  # fmt: skip
    return block(
        line(("heading", "Garbage:")),
        *draw_columns((text, ("verb", reader.name_call(name, yes=True))) for text, name in rows),
        line(("dim", "Without yes, each lists what it would remove."), hang=2),
    )


@gc.verb("list", needs=Right.ADMIN, tool=False, examples=("/gc", "/gc list"))
async def list_garbage(caller: Caller) -> GarbageCounts:
    """Count the garbage of each kind, and say what removes it."""
    days = DEFAULT_GARBAGE_DAYS
    read = caller.world.store.read
    orphans = await read(garbage.find_orphans)
    deleted = await read(lambda conn: garbage.find_deleted_things(conn, days))
    unused = await services_of(caller).workspaces.find_unused()
    return GarbageCounts(
        len(orphans.things), len(deleted.things), days, len(unused), sum(unused.values())
    )


@gc.verb(
    "orphans",
    needs=Right.ADMIN,
    tool=False,
    examples=("/gc orphans", "/gc orphans --yes"),
)
async def collect_orphans(caller: Caller, *, yes: Flag = False) -> GarbageReport:
    """Find things whose bag is gone, and delete them.

    A purge then removes them permanently.

    Args:
        yes: delete them; without this they are only listed.
    """
    if yes:
        deleted = await caller.change(garbage.delete_orphans)
        return _report("Deleted", "orphan", deleted, acted=True)
    orphans = await caller.world.store.read(garbage.find_orphans)
    next_step = next_call("Nothing was changed. {} does it.", "gc orphans", yes=True)
    return _report("Would delete", "orphan", orphans, next_step)


@gc.verb("stale", needs=Right.ADMIN, tool=False, examples=("/gc stale", "/gc stale 7"))
async def list_stale(caller: Caller, days: Days = DEFAULT_GARBAGE_DAYS) -> GarbageReport:
    """List things that were deleted some days ago.

    Args:
        days: minimum age of the deletion in days (default {DEFAULT_GARBAGE_DAYS}).
    """
    stale = await caller.world.store.read(lambda conn: garbage.find_deleted_things(conn, days))
    return _report("Found", "deleted thing", stale)


@gc.verb("purge", needs=Right.ADMIN, tool=False, examples=("/gc purge", "/gc purge 30 --yes"))
async def purge(
    caller: Caller, days: Days = DEFAULT_GARBAGE_DAYS, *, yes: Flag = False
) -> GarbageReport:
    """Remove deleted things permanently.

    This cannot be undone.

    Args:
        days: minimum age of the deletion in days (default {DEFAULT_GARBAGE_DAYS}).
        yes: remove them; without this they are only listed.
    """
    if yes:
        purged = await caller.change(lambda tx: garbage.purge_deleted_things(tx, days))
        return _report("Purged", "deleted thing", purged, acted=True)
    stale = await caller.world.store.read(lambda conn: garbage.find_deleted_things(conn, days))
    next_step = next_call("Nothing was changed. {} does it.", "gc purge", days=days, yes=True)
    return _report("Would purge", "deleted thing", stale, next_step)


@dataclass(frozen=True, slots=True)
class UnusedFiles:
    """Contents of files that no version names; `acted` if they were deleted."""

    count: int
    size: int
    acted: bool
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(UnusedFiles)
def draw_unused_files(result: UnusedFiles, reader: Reader) -> Block:
    """Draw how much space unused contents take, or took."""
    done = "Deleted" if result.acted else "Would delete"
    contents = format_count(result.count, "content")
    text = f"{done} {contents} of files, {format_size(result.size)}. Those of the last hour stay."
    return block(line(add_next_call(text, result.next, reader), hang=2))


@gc.verb(
    "files",
    needs=Right.ADMIN,
    tool=False,
    examples=("/gc files", "/gc files --yes"),
)
async def collect_files(caller: Caller, *, yes: Flag = False) -> UnusedFiles:
    """Find contents of files that no version names, and delete them.

    They are of uploads and imports that were refused. Those of the last hour stay, for they may be
    of work that goes on. Versions are kept, and so is what the copies of worlds name that upgrades
    and restores left in the data directory.

    Args:
        yes: delete them; without this they are only counted.
    """
    workspaces = services_of(caller).workspaces
    unused = await workspaces.find_unused()
    count, size = len(unused), sum(unused.values())
    if not yes:
        return UnusedFiles(
            count,
            size,
            acted=False,
            next=next_call("Nothing was changed. {} does it.", "gc files", yes=True)
            if count
            else None,
        )
    await caller.change(lambda tx: None)  # the row of the audit
    return UnusedFiles(count, await workspaces.delete_unused(), acted=True)


def _report(
    done: str,
    noun: str,
    collected: Garbage,
    removes: NextCall | None = None,
    *,
    acted: bool = False,
) -> GarbageReport:
    count = len(collected.things)
    return GarbageReport(
        summary=f"{done} {count} {noun}{'' if count == 1 else 's'}.",
        acted=acted,
        found=_list_names(collected.things),
        count=count,
        kept=_list_names(collected.referenced),
        kept_count=len(collected.referenced),
        next=removes if count else None,
    )


def _list_names(things: tuple[Thing, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((thing.label, thing.kind) for thing in things[:MAX_SHOWN_GARBAGE_THINGS])
