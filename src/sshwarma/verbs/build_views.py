"""Builds of rooms as verbs show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sshwarma.building.plan import StepAction, StepKind
from sshwarma.common.limits import MAX_BUILD_DIFF_LINES, MAX_SHOWN_BUILD_STEPS
from sshwarma.common.shorten import join_with_rest
from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.views import draw_hint, format_count, view_for_reader
from sshwarma.world.reader import Reader

_MARKS: dict[StepAction, tuple[str, str]] = {
    "add": ("ok", "+"),
    "change": ("warn", "~"),
    "remove": ("error", "-"),
}

BuildStatus: TypeAlias = Literal["same", "planned", "applied"]
"""Whether a build has nothing to change, says what it would, or has done it."""

MAX_NAMED_KEPT = 10


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One change of a build.

    Attributes:
        diff: the difference, of a text or tool that is new or changes; "" for others.
    """

    room: str
    kind: StepKind
    name: str
    action: StepAction
    diff: str = ""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The changes of a build.

    Attributes:
        status: `same` if there is nothing to change, `planned` or `applied`.
        count: number of all changes; `steps` are the first ones.
        kept: texts and tools that stay, although the folder lacks them.
        unread: paths of files that are in no folder with a room.toml.
    """

    status: BuildStatus
    rooms: tuple[str, ...]
    count: int
    steps: tuple[BuildStep, ...]
    kept: tuple[str, ...]
    unread: tuple[str, ...] = ()


@view_for_reader(BuildResult)
def draw_build_result(result: BuildResult, reader: Reader) -> Block:
    """Draw what a build changes, by room."""
    lines: list[Line] = []
    room, diff_lines = "", 0
    for step in result.steps[:MAX_SHOWN_BUILD_STEPS]:
        if step.room != room:
            room = step.room
            lines.append(line(("room", room)))
        style, mark = _MARKS[step.action]
        lines.append(line("  ", (style, mark), f" {step.kind} {step.name}".rstrip()))
        shown = draw_code_lines(step.diff, "diff") if step.diff else []
        shown = shown[: max(0, MAX_BUILD_DIFF_LINES - diff_lines)]
        diff_lines += len(shown)
        lines += [line("      ", *spans) for spans in shown]
    if result.count > len(result.steps):
        lines.append(line(("dim", f"  … {result.count - len(result.steps)} more")))
    if result.kept:
        kept = join_with_rest(result.kept, MAX_NAMED_KEPT)
        lines.append(line(("dim", f"Not in the folder, and kept: {kept}."), hang=2))
    if result.unread:
        unread = join_with_rest(result.unread, MAX_NAMED_KEPT)
        words = f"Not read, as no folder with a room.toml has it: {unread}."
        lines.append(line(("warn", words), hang=2))
    lines.append(line(_describe(result, reader)))
    removed = next((step for step in result.steps if step.action == "remove"), None)
    if removed and removed.kind in ("text", "tool") and result.status == "applied":
        again = f"In {removed.room}, {{}} brings it back."
        lines += draw_hint(reader, again, "restore", name=removed.name)
    return block(*lines)


def _describe(result: BuildResult, reader: Reader) -> str:
    rooms = join_with_rest(result.rooms, MAX_NAMED_KEPT)
    match result.status:
        case "same":
            return f"Nothing to change in {rooms}."
        case "applied":
            return f"Done: {format_count(result.count, 'change')}."
        case _:
            flag = "--apply" if reader.is_person else "apply: true"
            return f"{format_count(result.count, 'change')} to do. With {flag} they are done."
