"""`Tools.call`: the only way a tool is ever called, by a person, a model or a program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CALL_DEPTH, MAX_NESTED_CALLS
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.arguments import check_arguments
from sshwarma.tools.call_position import CallPosition
from sshwarma.tools.names import NameTable
from sshwarma.tools.progress import CallProgress
from sshwarma.tools.provider import PROVIDER_KEY, ToolProvider, ToolResult
from sshwarma.world import calls, things
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller, CallStack
from sshwarma.world.calls import CallResultKind
from sshwarma.world.errors import Invalid, NotFound, Unavailable, WorldError, unknown_name_error
from sshwarma.world.loadout import (
    UNAVAILABLE_OBSTACLE,
    LoadoutItem,
    OffSwitch,
    find_off_switch,
)
from sshwarma.world.reader import next_call, reader_at
from sshwarma.world.row import Row
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call that has ended."""

    tool: str
    ending: CallResultKind
    text: str
    structured: Any
    seconds: float
    seq: int  # of the row that holds the result
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class _CheckedCall:
    """A call before it is recorded: the tool to run, or why it is refused."""

    tool: str
    arguments: dict[str, Any]
    outcome: Thing | WorldError


class Tools:
    """The tools of a world.

    `providers` are by the name that tools have in their metadata (`PROVIDER_KEY`), or by the id of
    the namespace they serve.
    """

    def __init__(self, world: World, providers: dict[str, ToolProvider]) -> None:
        self._world = world
        self._providers = providers

    def register(self, name: str, provider: ToolProvider) -> None:
        """Add a provider that needs these tools itself, and so is made after them."""
        self._providers[name] = provider

    async def call(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        *,
        turn_id: str | None = None,
        parent_row_id: str | None = None,
        refusal: str = "",
        place: CallPosition | None = None,
    ) -> CallOutcome:
        """Call a tool by any of its names and record the call in the caller's room.

        The caller must have the right to enter the room and to talk there, at this moment: scripts
        and turns last, and the call is a row. A call in progress is stopped when the caller is put
        out of the room.

        With a `refusal` it is not run, only recorded with that error. With a `place` its rows wait
        for those of the calls before it.

        Raises:
            Forbidden: if the caller may not be or talk in the room, or is removed from it.
            WorldError: if the caller does not have the tool, it is unavailable, or the arguments do
                not fit; nothing is recorded. In a turn that is recorded too, and returned as a
                CallOutcome.
        """
        with self._world.open_requests.begin(caller.agent.id, room_id=caller.room_id):
            current = await caller.as_present()
            return await self._call(
                current,
                name,
                arguments,
                turn_id=turn_id,
                parent_row_id=parent_row_id,
                refusal=refusal,
                place=place,
            )

    async def _call(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        *,
        turn_id: str | None,
        parent_row_id: str | None,
        refusal: str,
        place: CallPosition | None,
    ) -> CallOutcome:
        stack = caller.call_stack
        if stack is not None:
            turn_id, parent_row_id = turn_id or stack.turn_id, parent_row_id or stack.row_id
        checked_call = await self._check_call(caller, name, arguments, refusal)
        if isinstance(checked_call.outcome, WorldError) and turn_id is None:
            raise checked_call.outcome
        if place is not None:
            await place.wait_to_begin()
        call = await self._world.change(
            lambda tx: calls.record_call_start(
                tx,
                caller.room_id,
                caller.agent.id,
                checked_call.tool,
                checked_call.arguments,
                turn_id=turn_id,
                parent_row_id=parent_row_id,
            )
        )
        if place is not None:
            place.mark_begun()
        start = time.monotonic()
        try:
            kind, result = await self._run_recorded(caller, call, checked_call)
            seconds = time.monotonic() - start
            if place is not None:
                await place.wait_to_end()
        except asyncio.CancelledError:
            await asyncio.shield(
                self._record_ending(
                    call,
                    "error",
                    ToolResult("The call was stopped.", is_error=True),
                    time.monotonic() - start,
                )
            )
            raise
        return await self._record_ending(call, kind, result, seconds)

    async def _check_call(
        self, caller: Caller, name: str, arguments: dict[str, Any], refusal: str
    ) -> _CheckedCall:
        """Find the tool and check the arguments; an error is returned, not raised."""
        tool = name
        try:
            if refusal:
                raise Invalid(refusal)
            thing = (await self.find(caller, name)).thing
            tool = thing.label
            _count_nested_call(caller.call_stack, tool)
            return _CheckedCall(tool, check_arguments(thing, arguments), thing)
        except WorldError as error:
            if tool == name:
                tool = await self._known_label(caller, name) or name
            return _CheckedCall(tool, arguments, error)

    async def _known_label(self, caller: Caller, name: str) -> str | None:
        """Return the qualified name of a tool that the caller may know of, by any of its names."""
        load = await self._world.loadout(caller.room_id, caller.agent.id)
        item = NameTable(load.tools).find(name)
        if item is not None:
            return item.thing.label
        return await self._find_unequipped(caller, name)

    async def _find_unequipped(self, caller: Caller, name: str) -> str | None:
        """Return the qualified name of an unequipped tool that the caller may know of, or None."""
        is_open = await caller.visibility_filter()
        return await self._world.store.read(lambda conn: _find_unequipped_tool(conn, name, is_open))

    async def _run_recorded(
        self, caller: Caller, call: Row, checked: _CheckedCall
    ) -> tuple[CallResultKind, ToolResult]:
        """Run a call that is recorded, unless it was refused; show its progress in the room."""
        thing = checked.outcome
        if isinstance(thing, WorldError):
            return "error", ToolResult(_error_text(caller, thing), is_error=True)
        inner_caller = caller.inside_call(checked.tool, call.turn_id, call.id)
        if call.turn_id is not None or caller.call_stack is not None:
            # A turn shows its calls itself.
            return await self._carry_out(inner_caller, thing, checked.arguments)
        with CallProgress(caller, call) as progress:
            inner_caller = replace(inner_caller, on_progress=progress.report)
            return await self._carry_out(inner_caller, thing, checked.arguments)

    async def test(
        self, caller: Caller, tool: Thing, arguments: dict[str, Any]
    ) -> tuple[CallResultKind, ToolResult, float]:
        """Run a tool for its author, equipped or not, without recording the call.

        Returns how it ended, its result, and the seconds it took. Its nested calls are executed and
        recorded.

        Raises:
            Invalid: if the arguments do not fit its schema.
        """
        values = check_arguments(tool, arguments)
        start = time.monotonic()
        with self._world.open_requests.begin(caller.agent.id, room_id=caller.room_id):
            kind, result = await self._carry_out(caller.inside_call(tool.label), tool, values)
        return kind, result, time.monotonic() - start

    async def find(self, caller: Caller, name: str) -> LoadoutItem:
        """Return the caller's tool with that name, in any of its forms.

        Raises:
            NotFound: if there is no such tool, or it is not equipped.
            Unavailable: if it cannot be used now.
        """
        load = await self._world.loadout(caller.room_id, caller.agent.id)
        item = NameTable(load.tools).find(name)
        if item is None:
            matches = [item.thing.label for item in load.tools if item.thing.name == name]
            if matches:
                raise NotFound(
                    f"{name} is ambiguous: {', '.join(matches)}.", hint="Use the full name."
                )
            label = await self._find_unequipped(caller, name)
            switch = await self._world.store.read(
                lambda conn: _find_off_switch(conn, caller, label)
            )
            if label is not None and switch is not None:
                place = "in this room" if switch.source == "room" else "on you"
                context = "room" if switch.source == "room" else "me"
                raise NotFound(
                    f"{label} cannot be called: {switch.thing.label} is switched off {place}.",
                    hint=next_call(
                        "{} switches it on.",
                        "equip",
                        context=context,
                        patterns=switch.thing.label,
                    ),
                )
            if label is not None:
                space = label.partition(":")[0]
                raise NotFound(
                    f"{label} is not equipped here.",
                    hint=(
                        next_call("{} loads its namespace.", "load", room=space),
                        next_call("{} equips it alone.", "equip", context="me", patterns=label),
                    ),
                )
            labels = [item.thing.label for item in load.tools]
            raise unknown_name_error(
                "tool", name, known=labels, hint=next_call("{} shows what is equipped.", "inv show")
            )
        if item.obstacle:
            provider = self._provider_of(item.thing)
            raise Unavailable(
                f"{item.thing.label} is unavailable: {self._describe_obstacle(item)}.",
                hint="" if provider is None else provider.unavailable_hint(item.thing),
            )
        return item

    def _describe_obstacle(self, item: LoadoutItem) -> str:
        provider = self._provider_of(item.thing)
        if provider is None or item.obstacle != UNAVAILABLE_OBSTACLE:
            return item.obstacle
        return provider.why_unavailable(item.thing) or item.obstacle

    def _provider_of(self, tool: Thing) -> ToolProvider | None:
        return self._providers.get(tool.metadata.get(PROVIDER_KEY) or tool.parent_id or "")

    async def _carry_out(
        self, caller: Caller, tool: Thing, arguments: dict[str, Any]
    ) -> tuple[CallResultKind, ToolResult]:
        provider = self._provider_of(tool)
        if provider is None:
            return "error", ToolResult(f"{tool.label} has no provider now.", is_error=True)
        seconds = provider.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await provider.run(caller, tool, arguments)
        except TimeoutError as error:
            limit = "timed out" if seconds is None else f"timed out after {seconds:.0f} s"
            message = str(error) or f"The call {limit}."
            return "timeout", ToolResult(message, is_error=True)
        except WorldError as refused:
            return "error", ToolResult(_error_text(caller, refused), is_error=True)
        except Exception:
            log.exception("a tool failed", tool=tool.label)
            return "error", ToolResult(INTERNAL_ERROR, is_error=True)
        return ("error" if result.is_error else "result"), result

    async def _record_ending(
        self, call: Row, how: CallResultKind, result: ToolResult, seconds: float
    ) -> CallOutcome:
        row = await self._world.change(
            lambda tx: calls.record_call_end(
                tx,
                call=call,
                how=how,
                text=result.full_text,
                structured=result.structured,
                seconds=seconds,
                given=result.attachments,
            )
        )
        return CallOutcome(
            tool=call.meta["tool"],
            ending=how,
            text=result.full_text,
            structured=result.structured,
            seconds=seconds,
            seq=row.seq,
            attachments=result.attachments,
        )


def _find_unequipped_tool(
    conn: Connection, name: str, is_open: Callable[[Thing], bool]
) -> str | None:
    """Return the qualified name of a tool that is not equipped, if the caller may know of it."""
    namespace, _, tool = name.rpartition(".")
    for candidate in (name, name.replace("__", ":", 1), f"{namespace}:{tool}"):
        thing = things.find_by_qualified_name(conn, candidate)
        if thing is not None and thing.kind == "tool":
            return thing.label if all(map(is_open, things.read_ancestors(conn, thing.id))) else None
    return None


def _find_off_switch(conn: Connection, caller: Caller, label: str | None) -> OffSwitch | None:
    """Return what switches a tool off for the caller in its room."""
    tool = things.find_by_qualified_name(conn, label) if label else None
    if tool is None:
        return None
    return find_off_switch(conn, tool, caller.room_id, caller.agent.id)


def _error_text(caller: Caller, refused: WorldError) -> str:
    """Return the text of a refusal for who reads the result: people can type what hints name.

    Terminals show control characters themselves; other readers get them shown here.
    """
    reader = reader_at(caller.door)
    text = refused.text_for(reader)
    return text if reader.is_person else escape_lines(text)


def _count_nested_call(within: CallStack | None, tool: str) -> None:
    """Count a nested call.

    Raises:
        Unavailable: if it is nested too deep, or over the limit of nested calls.
    """
    if within is None:
        return
    if len(within.names) >= MAX_CALL_DEPTH:
        path = " → ".join((*within.names, tool))
        raise Unavailable(f"{path}: calls nest at most {MAX_CALL_DEPTH} deep.")
    if within.counter.calls >= MAX_NESTED_CALLS:
        raise Unavailable(f"One call can make at most {MAX_NESTED_CALLS} nested calls.")
    within.counter.calls += 1
