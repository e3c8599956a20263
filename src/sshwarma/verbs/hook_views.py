"""Hooks as verbs show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sshwarma.hooks.records import Delivery
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.views import draw_columns, format_clock, view, view_for_reader
from sshwarma.world.reader import Reader, next_call


@dataclass(frozen=True, slots=True)
class HookItem:
    """A hook of a room.

    Attributes:
        direction: `out` posts events, `in` takes posts.
        by: who made it: it has this agent's rights.
        on: out: the events; in: `say`, or the kind of the entries of the journal.
        target: out: where it posts; the whole address only for its maker.
        is_on: whether it runs.
        failing_since: when its first post failed since one arrived; milliseconds.
        off_reason: why it is off.
        waits: why it does nothing although it is on; "" if it need not wait.
        last: its last delivery.
    """

    name: str
    direction: Literal["out", "in"]
    by: str
    on: tuple[str, ...]
    target: str
    is_on: bool
    failing_since: int | None
    off_reason: str
    waits: str
    last: Delivery | None


@dataclass(frozen=True, slots=True)
class HookList:
    """The hooks of a room."""

    room: str
    hooks: tuple[HookItem, ...]


@dataclass(frozen=True, slots=True)
class NewHook:
    """A new hook: `secret` is shown once; `url` is the address of an incoming one."""

    name: str
    room: str
    secret: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class HookLog:
    """The last deliveries of a hook, oldest first."""

    name: str
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class HookTest:
    """How the post of a test went; `error` is "" if it arrived."""

    name: str
    status: int | None
    error: str


@view_for_reader(HookList)
def draw_hook_list(result: HookList, reader: Reader) -> Block:
    """Draw the hooks of a room."""
    if not result.hooks:
        post = next_call(
            "{} posts its events to another server.",
            "hook add",
            name="NAME",
            url="URL",
            on="EVENTS",
        )
        take = next_call("{} takes posts of others.", "hook in", name="NAME")
        none = f"No hooks in {result.room}. {post.text(reader)} {take.text(reader)}"
        return block(line(none))
    return block(
        line(("heading", f"Hooks in {result.room}:")),
        *draw_columns(
            (
                ("mark", hook.name),
                "→" if hook.direction == "out" else "←",
                hook.target or ", ".join(hook.on),
                ", ".join(hook.on) if hook.target else "",
                ("dim", f"by {hook.by}"),
                _describe_state(hook),
            )
            for hook in result.hooks
        ),
    )


def _describe_state(hook: HookItem) -> tuple[str, str]:
    if not hook.is_on:
        return ("warn", f"off: {hook.off_reason}")
    if hook.waits:
        return ("warn", f"waits: {hook.waits}")
    if hook.failing_since is not None and hook.last is not None:
        return ("warn", f"fails since {format_clock(hook.failing_since)}: {hook.last.error}")
    return ("dim", f"last {format_clock(hook.last.at)}" if hook.last else "nothing yet")


@view(NewHook)
def draw_new_hook(new: NewHook) -> Block:
    """Draw a new hook with its secret."""
    if new.url:
        return block(
            line(("mark", new.url)),
            line(("dim", "Who posts there speaks in "), ("room", new.room), ("dim", ".")),
            line(("dim", "Copy it now: only its hash is stored.")),
        )
    return block(
        line(("mark", new.secret)),
        line(("dim", f"{new.name} signs with this key, by the Standard Webhooks specification.")),
        line(("dim", "Copy it now: it is not shown again.")),
    )


@view(HookLog)
def draw_hook_log(result: HookLog) -> Block:
    """Draw the last deliveries of a hook."""
    if not result.deliveries:
        return block(line(f"{result.name} has delivered nothing yet."))
    return block(
        *draw_columns(
            (
                ("time", format_clock(one.at)),
                str(one.status or "-"),
                ("dim", f"{one.ms} ms"),
                ("warn", one.error) if one.error else "ok",
                ("dim", one.event),
            )
            for one in result.deliveries
        )
    )


@view(HookTest)
def draw_hook_test(result: HookTest) -> Block:
    """Draw how a test went."""
    if result.error:
        return block(line(("warn", f"{result.name}: {result.error}")))
    return block(line(f"{result.name}: the test arrived (HTTP {result.status})."))
