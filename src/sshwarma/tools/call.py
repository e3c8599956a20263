"""`Tools.call`: the only way to call a tool, for people, models and programs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Connection

from sshwarma.common.finish import finish
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.tools.approvals import Approvals
from sshwarma.tools.arguments import check_arguments
from sshwarma.tools.call_checks import (
    CheckedCall,
    ask_to_switch_on,
    check_asker,
    check_role_of_asker,
    count_arguments,
    count_nested_call,
    explain_off_switch,
    find_switch,
    find_unequipped_tool,
    keep_fitting,
    read_error_text,
    suggest_equipping,
    suggest_switch_on,
)
from sshwarma.tools.call_ending import CallEnding, record_ending, record_stop
from sshwarma.tools.call_outcome import CallOutcome
from sshwarma.tools.call_position import CallPosition
from sshwarma.tools.names import NameTable
from sshwarma.tools.progress import CallProgress
from sshwarma.tools.provider import PROVIDER_KEY, ToolProvider, ToolResult
from sshwarma.tools.result_check import check_result
from sshwarma.world import calls
from sshwarma.world.bootstrap import is_private_call
from sshwarma.world.call_stack import CallRun
from sshwarma.world.caller import Caller
from sshwarma.world.calls import CallResultKind
from sshwarma.world.errors import Invalid, NotFound, Unavailable, WorldError, unknown_name_error
from sshwarma.world.loadout import UNAVAILABLE_OBSTACLE, AncestorCache, LoadoutItem
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


class Tools:
    """The tools of a world.

    `providers` are by the name that tools have in their metadata (`PROVIDER_KEY`), or by the id of
    the namespace they serve.
    """

    def __init__(self, world: World, providers: dict[str, ToolProvider]) -> None:
        self._world = world
        self._providers = providers
        self.approvals = Approvals(world)

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
        and turns last, and the call is a row. A call in progress stops when the caller is
        removed from the room.

        With a `refusal` it is not run, only recorded with that error. With a `place` its rows wait
        for those of the calls before it.

        Raises:
            Forbidden: if the caller may not be or talk in the room, or is removed from it.
            WorldError: if the caller does not have the tool, it is unavailable, or the arguments do
                not fit; nothing is recorded. In a turn that is recorded too, and so is a
                toolset that broke; then a CallOutcome is returned.
        """
        # People stop a turn or a call as a whole, and not what is called within.
        work = name if turn_id is None and caller.call_stack is None else ""
        begin = self._world.open_requests.begin
        with begin(caller.agent.id, room_id=caller.room_id, work=work) as request:
            current = await caller.as_present()
            return await self._call(
                current,
                name,
                arguments,
                request,
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
        request: OpenRequest,
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
        request.work = request.work and checked_call.tool
        refused = checked_call.outcome
        if isinstance(refused, WorldError) and not (turn_id or checked_call.is_failure):
            raise refused
        if stack is not None and stack.is_trial:
            return await self._run_in_trial(caller, checked_call)
        place = place or CallPosition()
        if turn_id is None:  # a turn has a budget of tokens
            count_arguments(caller, checked_call.arguments)
        await place.wait_to_begin()
        change = self._world.change(
            lambda tx: calls.record_call_start(
                tx,
                caller.room_id,
                caller.agent.id,
                checked_call.tool,
                {} if checked_call.is_private else checked_call.arguments,
                turn_id=turn_id,
                parent_row_id=parent_row_id,
                is_nested=stack is not None and stack.row_id is not None,
                step=place.step,
            )
        )
        start, run = time.monotonic(), CallRun()
        recording = asyncio.ensure_future(change)
        try:
            call = await asyncio.shield(recording)
            place.mark_begun()
            kind, result, nested = await self._run_recorded(caller, call, checked_call, run)
            ending = CallEnding(kind, result, time.monotonic() - start, nested)
            await place.wait_to_end()
            request.end_work()
        except asyncio.CancelledError:
            why = request.reason if request.stopped_by else "The call was stopped."
            stopped = CallEnding("error", ToolResult(why, is_error=True), time.monotonic() - start)
            await finish(record_stop(self._world, recording, run, stopped))
            raise
        origin = caller.connection if turn_id is None and stack is None else None
        outcome = await record_ending(
            self._world, call, run, ending, origin=origin, is_private=checked_call.is_private,
        )  # fmt: skip
        if turn_id is None:
            caller.charge_text_volume(len(outcome.text.encode()), is_stored=True)
        return outcome

    async def _run_in_trial(self, caller: Caller, call: CheckedCall) -> CallOutcome:
        """Run a call of a tool that is being tested, without recording it."""
        start = time.monotonic()
        if isinstance(call.outcome, WorldError):
            raise call.outcome
        inner_caller = caller.inside_call(call.tool)
        how, result = await self._carry_out(inner_caller, call.outcome, call.arguments)
        return CallOutcome(
            tool=call.tool,
            ending=how,
            text=result.full_text,
            structured=result.structured,
            seconds=time.monotonic() - start,
            seq=0,
            attachments=result.attachments,
            render_plan=result.render_plan,
        )

    async def _check_call(
        self, caller: Caller, name: str, arguments: dict[str, Any], refusal: str
    ) -> CheckedCall:
        """Find the tool and check the arguments; an error is returned, not raised."""
        tool: Thing | None = None
        try:
            if refusal:
                raise Invalid(refusal)
            tool = (await self.find(caller, name)).thing
            provider = self._provider_of(tool)
            count_nested_call(caller.call_stack, tool.label)
            try:
                is_changed = provider is not None and await provider.refresh_tool(caller, tool)
            except WorldError as error:
                hides = is_private_call(tool, arguments, is_refused=True)
                return CheckedCall(tool.label, keep_fitting(tool, arguments), error, hides, True)
            if is_changed:
                tool = (await self.find(caller, name)).thing
            values = check_arguments(tool, arguments, caller.reader)
            return CheckedCall(tool.label, values, tool, is_private_call(tool, arguments))
        except WorldError as error:
            tool = tool or await self.find_known(caller, name)
            if tool is None:  # it may have been meant for a private one
                return CheckedCall(name, {}, error)
            is_private = is_private_call(tool, arguments, is_refused=True)
            return CheckedCall(tool.label, arguments, error, is_private)

    async def find_enabled(self, caller: Caller, name: str) -> Thing:
        """Return a tool as it is for the caller, equipped or not, unless it is disabled.

        Raises:
            NotFound: if there is no such tool, or it is switched off.
            Unavailable: if it cannot be used now.
        """
        load = await caller.loadout()
        is_equipped = NameTable(load.tools).find(name) is not None
        tool = None if is_equipped else await self._find_unequipped(caller, name)
        if tool is None:
            return (await self.find(caller, name)).thing  # or raises
        states = await self._world.states(caller.room_id)

        def read(conn: Connection) -> tuple[LoadoutItem, bool]:
            item = LoadoutItem(tool, "room", 0.0, "")
            switch = find_switch(conn, tool, caller.room_id, caller.agent.id)
            return AncestorCache(conn).resolve_item(item, frozenset(states)), switch is not None

        item, is_off = await self._world.store.read(read)
        if item.obstacle:
            raise self._unavailable_error(caller, item)
        if is_off:
            raise await self._explain_unequipped(caller, tool)
        return item.thing

    async def find_known(self, caller: Caller, name: str) -> Thing | None:
        """Return a tool by any of its names, equipped or not, if the caller may know it."""
        load = await caller.loadout()
        item = NameTable(load.tools).find(name)
        return item.thing if item is not None else await self._find_unequipped(caller, name)

    async def _find_unequipped(self, caller: Caller, name: str) -> Thing | None:
        """Return an unequipped tool that the caller may know, or None."""
        is_open = await caller.visibility_filter()
        return await self._world.store.read(lambda conn: find_unequipped_tool(conn, name, is_open))

    async def _run_recorded(
        self, caller: Caller, call: Row, checked: CheckedCall, run: CallRun
    ) -> tuple[CallResultKind, ToolResult, int]:
        """Run a recorded call unless it was refused; show its progress in the room.

        Returns also the number of calls that it made, if no other call made it.
        """
        thing = checked.outcome
        if isinstance(thing, WorldError):
            return "error", ToolResult(read_error_text(caller, thing), is_error=True), 0
        inner_caller = caller.inside_call(checked.tool, call.turn_id, call.id, run)
        stack = inner_caller.call_stack
        if call.turn_id is not None or caller.call_stack is not None:
            # A turn shows its calls itself.
            kind, result = await self._carry_out(inner_caller, thing, checked.arguments)
        else:
            with CallProgress(caller, call) as progress:
                inner_caller = replace(inner_caller, on_progress=progress.report)
                kind, result = await self._carry_out(inner_caller, thing, checked.arguments)
        is_outermost = stack is not None and not stack.is_nested
        return kind, result, stack.counter.calls if stack is not None and is_outermost else 0

    async def test(
        self, caller: Caller, tool: Thing, arguments: dict[str, Any]
    ) -> tuple[CallResultKind, ToolResult, float]:
        """Run a tool for its author, equipped or not, without recording the call.

        Returns how it ended, its result, and the seconds it took. Its nested calls are carried out
        and not recorded; what they change or say stays.

        Raises:
            Invalid: if the arguments do not fit its schema.
        """
        values = check_arguments(tool, arguments, caller.reader)
        start = time.monotonic()
        with self._world.open_requests.begin(caller.agent.id, room_id=caller.room_id):
            kind, result = await self._carry_out(caller.inside_trial(tool.label), tool, values)
        return kind, result, time.monotonic() - start

    async def find(self, caller: Caller, name: str) -> LoadoutItem:
        """Return the caller's tool with that name, in any of its forms.

        Raises:
            NotFound: if there is no such tool, or it is not equipped.
            Unavailable: if it cannot be used now.
        """
        load = await caller.loadout()
        item = NameTable(load.tools).find(name)
        spell = caller.reader.name_tool
        if item is None:
            matches = [spell(item.thing.label) for item in load.tools if item.thing.name == name]
            if matches:
                raise NotFound(
                    f"{name} is ambiguous: {', '.join(matches)}.", hint="Use the full name."
                )
            tool = await self._find_unequipped(caller, name)
            if tool is not None:
                raise await self._explain_unequipped(caller, tool)
            labels = [spell(item.thing.label) for item in load.tools]
            raise unknown_name_error(
                "tool", name, known=labels, hint=next_call("{} shows what is equipped.", "inv show")
            )
        await check_asker(caller)
        await check_role_of_asker(caller, item)
        if item.obstacle:
            raise self._unavailable_error(caller, item)
        return item

    def _unavailable_error(self, caller: Caller, item: LoadoutItem) -> Unavailable:
        provider = self._provider_of(item.thing)
        label = caller.reader.name_tool(item.thing.label)
        return Unavailable(
            f"{label} is unavailable: {self._describe_obstacle(item)}.",
            hint="" if provider is None else provider.unavailable_hint(item.thing),
        )

    async def _explain_unequipped(self, caller: Caller, tool: Thing) -> NotFound:
        """Return the refusal of a tool that is not equipped, or switched off."""
        name = caller.reader.name_tool(tool.label)
        switch = await self._world.store.read(
            lambda conn: find_switch(conn, tool, caller.room_id, caller.agent.id)
        )
        if switch is None:
            hints = await self._world.store.read(lambda conn: suggest_equipping(conn, caller, tool))
            return NotFound(f"{name} is not equipped here.", hint=hints)
        reason = explain_off_switch(switch, caller.reader)
        whom = ask_to_switch_on(caller, await caller.room(), switch)
        hint = whom or suggest_switch_on(switch)
        return NotFound(f"{name} cannot be called: {reason}.", hint=hint)

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
            refused = Unavailable(
                f"{caller.reader.name_tool(tool.label)} is unavailable: no tool provider is"
                f" registered for its namespace.",
                hint=next_call("Details: {}", "examine", thing=tool.label),
            )
            return "error", ToolResult(read_error_text(caller, refused), is_error=True)
        seconds = provider.timeout_seconds
        try:
            if tool.metadata.get(CONFIRM_KEY):
                await self.approvals.require(caller, tool, arguments)
            async with asyncio.timeout(seconds):
                result = await check_result(await provider.run(caller, tool, arguments))
        except TimeoutError as error:
            limit = "timed out" if seconds is None else f"timed out after {seconds:.0f} s"
            message = str(error) or f"The call {limit}."
            return "timeout", ToolResult(message, is_error=True)
        except WorldError as refused:
            return "error", ToolResult(read_error_text(caller, refused), is_error=True)
        except Exception:
            log.exception("a tool failed", tool=tool.label)
            return "error", ToolResult(INTERNAL_ERROR, is_error=True)
        return ("error" if result.is_error else "result"), result
