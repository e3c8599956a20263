"""The end of a call: its record, and its outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from sshwarma.tools.call_outcome import PRIVATE_RESULT, CallOutcome
from sshwarma.tools.provider import ToolResult
from sshwarma.world import calls
from sshwarma.world.call_stack import CallRun
from sshwarma.world.calls import CallResultKind
from sshwarma.world.errors import WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.row import Row
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CallEnding:
    """How a call ended.

    Attributes:
        seconds: since it was recorded, with those that it waited.
        nested_calls: those that it made, if no other call made it.
        at: when, in Unix milliseconds. It is recorded later, if calls before it still run.
    """

    kind: CallResultKind
    result: ToolResult
    seconds: float
    nested_calls: int = 0
    at: int = field(default_factory=now_ms)


async def record_ending(
    world: World,
    call: Row,
    run: CallRun,
    ending: CallEnding,
    *,
    origin: object | None = None,
    is_private: bool = False,
) -> CallOutcome:
    """Record the end of a call, and return its outcome.

    `is_private`: whether the record does not have what it returned.

    Raises:
        WorldError: if the room was deleted, or nothing can be stored.
    """
    result = ending.result
    seconds = max(0.0, ending.seconds - run.waited)
    shown = ToolResult(PRIVATE_RESULT, is_error=result.is_error) if is_private else result
    row = await world.change(
        lambda tx: calls.record_call_end(
            tx,
            call,
            ending.kind,
            shown.full_text,
            shown.structured,
            seconds,
            shown.attachments,
            nested_calls=ending.nested_calls,
            origin=origin,
            render_plan=shown.render_plan,
            steps=shown.steps,
            waited=run.waited,
            changes=run.changes,
            ended_at=ending.at,
        )
    )
    return CallOutcome(
        tool=call.meta["tool"],
        ending=ending.kind,
        text=result.full_text,
        structured=result.structured,
        seconds=seconds,
        waited=run.waited,
        changes=run.changes,
        seq=row.seq,
        attachments=result.attachments,
        nested_calls=ending.nested_calls,
        render_plan=shown.render_plan,
        is_private=is_private,
    )


async def record_stop(
    world: World, call: asyncio.Future[Row], run: CallRun, ending: CallEnding
) -> None:
    """Record that a call was stopped, also while its start was being recorded."""
    try:
        await record_ending(world, await call, run, ending)
    except WorldError as error:  # the room was deleted, or nothing can be stored
        log.warning("a stopped call was not recorded", reason=str(error))
