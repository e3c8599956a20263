"""Triggers as verbs show them."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.views import draw_columns, format_clock, view, view_for_reader
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.triggers import TriggerRun


@dataclass(frozen=True, slots=True)
class TriggerItem:
    """A trigger of a room.

    Attributes:
        on: what starts it.
        by: who turned it on: it has this agent's rights; "" if nobody did.
        about: the first comment of its script.
        is_on: whether it runs.
        off_reason: why it is off.
        waits: why it does nothing although it is on; "" if it need not wait.
        last: its last run.
    """

    name: str
    on: tuple[str, ...]
    by: str
    about: str
    is_on: bool
    off_reason: str
    waits: str
    last: TriggerRun | None


@dataclass(frozen=True, slots=True)
class TriggerList:
    """The triggers of a room."""

    room: str
    triggers: tuple[TriggerItem, ...]


@dataclass(frozen=True, slots=True)
class TriggerOn:
    """A trigger that was turned on.

    Attributes:
        on: what starts it.
        made: whether its script is new.
        next_at: the next of its times, in milliseconds since 1970.
    """

    name: str
    room: str
    on: tuple[str, ...]
    made: bool
    next_at: int | None


@dataclass(frozen=True, slots=True)
class TriggerLog:
    """The last runs of a trigger, oldest first."""

    name: str
    runs: tuple[TriggerRun, ...]


@view_for_reader(TriggerList)
def draw_trigger_list(result: TriggerList, reader: Reader) -> Block:
    """Draw the triggers of a room."""
    if not result.triggers:
        make = next_call("{} makes one.", "trigger new", name="NAME", text="SCRIPT")
        return block(line(f"No triggers in {result.room}. {make.text(reader)}"))
    return block(
        line(("heading", f"Triggers in {result.room}:")),
        *draw_columns(
            (
                ("mark", one.name),
                ", ".join(one.on) or "-",
                ("dim", f"by {one.by}" if one.by else ""),
                _describe_state(one),
            )
            for one in result.triggers
        ),
    )


def _describe_state(one: TriggerItem) -> tuple[str, str]:
    if not one.is_on:
        return ("warn", f"off: {one.off_reason}")
    if one.waits:
        return ("warn", f"waits: {one.waits}")
    if one.last is None:
        return ("dim", "not run yet")
    style = "warn" if one.last.status == "failed" else "dim"
    return (style, f"{one.last.status} {format_clock(one.last.at)}")


@view(TriggerOn)
def draw_trigger_on(result: TriggerOn) -> Block:
    """Draw what starts a trigger that was turned on."""
    head = line(
        ("ok", "✓"),
        f" The trigger {result.name} is on: it runs on ",
        ("mark", ", ".join(result.on)),
        ".",
    )
    if result.next_at is None:
        return block(head)
    return block(head, line(("dim", f"  The next time is {format_clock(result.next_at)}.")))


@view(TriggerLog)
def draw_trigger_log(result: TriggerLog) -> Block:
    """Draw the last runs of a trigger."""
    if not result.runs:
        return block(line(f"{result.name} has not run yet."))
    return block(
        *draw_columns(
            (
                ("time", format_clock(run.at)),
                run.cause,
                ("dim", "-" if run.ms is None else f"{run.ms} ms"),
                ("warn" if run.status == "failed" else "", run.status),
                ("dim", " ".join(run.text.split())),
            )
            for run in result.runs
        )
    )
