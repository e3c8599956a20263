"""The triggers of a world: each waits for its events in its own task.

A trigger runs for one event after another, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from sshwarma.common.background import BackgroundTasks
from sshwarma.events.matching_rows import MAX_UNSTORED_ROWS, Wake
from sshwarma.lua_tools.trigger_declaration import parse_trigger
from sshwarma.services import Services
from sshwarma.triggers.occurrences import Occurrences
from sshwarma.triggers.runs import TriggerRuns
from sshwarma.world import triggers
from sshwarma.world.errors import Invalid
from sshwarma.world.events import TriggerChanged
from sshwarma.world.room_states import RoomStateWatcher
from sshwarma.world.triggers import Trigger
from sshwarma.world.world import World


class Triggers:
    """Runs the triggers of a world that are on."""

    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._runs = TriggerRuns(world, services)
        self._tasks = BackgroundTasks()
        self._changed: dict[str, None] = {}  # ids, in the order of the changes
        self._has_changes = asyncio.Event()
        self._is_stopping = False
        self._watching: dict[str, asyncio.Task[None]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, world: World, services: Services) -> AsyncIterator[Triggers]:
        """Run the triggers that are on, and those that are turned on later."""
        running = cls(world, services)
        await RoomStateWatcher(world).check_once()  # else its first look would be a change
        await world.change(triggers.cut_runs)  # those that ran when the server was killed
        for trigger_id in await world.store.read(triggers.list_on):
            running._note_change(trigger_id)
        stop = world.bus.on_event(TriggerChanged, running._hear)
        running._tasks.keep_running(running._follow_changes, name="triggers")
        try:
            yield running
        finally:
            stop()
            running._is_stopping = True
            await running._tasks.cancel()

    def _hear(self, event: TriggerChanged) -> None:
        self._note_change(event.trigger_id)

    def _note_change(self, trigger_id: str) -> None:
        self._changed[trigger_id] = None
        self._has_changes.set()

    async def _follow_changes(self) -> None:
        """Run each trigger that was changed as it is now, and no more if it is off."""
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            for trigger_id in list(self._changed):
                del self._changed[trigger_id]
                try:
                    await self._renew(trigger_id)
                except BaseException:
                    self._note_change(trigger_id)  # the task is started again, and finds it
                    raise

    async def _renew(self, trigger_id: str) -> None:
        """End the task of a trigger, and start another one if it is on."""
        earlier = self._watching.get(trigger_id)
        if earlier is not None:
            earlier.cancel()
            await asyncio.wait({earlier})
            await self._world.change(partial(triggers.cut_runs, trigger_id=trigger_id))
            del self._watching[trigger_id]
        trigger = await self._read(trigger_id)
        if trigger is not None and trigger.off_reason is None:
            self._watching[trigger_id] = self._tasks.keep_running(
                partial(self._watch, trigger_id), name=f"trigger {trigger_id}"
            )

    async def _read(self, trigger_id: str) -> Trigger | None:
        return await self._world.store.read(partial(triggers.read_trigger, trigger_id=trigger_id))

    async def _watch(self, trigger_id: str) -> None:
        """Wait for events of a trigger, and run it for each, until it is cancelled."""
        trigger = await self._read(trigger_id)
        if trigger is not None and trigger.off_reason is None:
            try:
                declaration = parse_trigger(trigger.script or "")
            except Invalid as error:  # an earlier version of this server took it
                reason = error.message
                await self._world.change(lambda tx: triggers.stop(tx, trigger, reason))
            else:
                occurrences = Occurrences(self._world, trigger, declaration)
                await self._run_each(trigger, occurrences)
        await asyncio.Event().wait()  # off: its end follows

    async def _run_each(self, trigger: Trigger, occurrences: Occurrences) -> None:
        """Run a trigger for each of its occurrences."""
        rows, stored, position = occurrences.rows, 0, None
        with Wake.listening(self._world.bus, trigger.room_id, trigger.agent_id) as wake:
            try:
                while True:
                    wake.event.clear()
                    if await rows.may_hear():
                        position = None  # during a batch, each run has stored its own
                        for occurrence in await occurrences.find(with_rows=wake.take_rows()):
                            if not await self._runs.run(trigger.id, occurrence):
                                return
                        position = occurrences.position
                        if rows.has_more:
                            wake.read()
                    if position and rows.passed - stored >= MAX_UNSTORED_ROWS:
                        stored = rows.passed
                        await self._world.change(
                            partial(
                                triggers.store_position, trigger_id=trigger.id, position=position
                            )
                        )
                    with suppress(TimeoutError):
                        async with asyncio.timeout(occurrences.seconds_to_next):
                            await wake.event.wait()
            finally:
                # Not if the trigger was changed: who turns it on stores where it begins.
                if position and self._is_stopping and trigger.id not in self._changed:
                    await self._world.change(
                        partial(triggers.store_position, trigger_id=trigger.id, position=position)
                    )
