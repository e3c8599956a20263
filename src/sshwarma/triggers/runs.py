"""A run of a trigger's script, for one event.

An event is stored as begun before the script starts, so that a server that is killed runs none a
second time.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from sshwarma.common.limits import (
    MAX_RUNNING_SCRIPTS,
    MAX_TRIGGER_EXCHANGES,
    MAX_TRIGGER_RUNS_PER_WINDOW,
    RATE_WINDOW_SECONDS,
    TRIGGER_EXCHANGE_SECONDS,
)
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.services import Services
from sshwarma.triggers.occurrences import Occurrence
from sshwarma.verbs.dispatch import invoke
from sshwarma.world import things, triggers
from sshwarma.world.access import TokenScope
from sshwarma.world.call_stack import CallCounter, CallStack
from sshwarma.world.caller import Caller
from sshwarma.world.causes import running_trigger
from sshwarma.world.errors import WorldError
from sshwarma.world.names import TRIGGER_PREFIX
from sshwarma.world.triggers import RunStatus, Trigger
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_TRACKED_TRIGGERS: Final = 10_000
"""Triggers of which it is known how often they ran lately."""


@dataclass(slots=True)
class _Exchange:
    """Messages of programs that seem to answer a trigger.

    Attributes:
        answers: how many, with no person between.
        done_at: when the trigger last did something, on the monotonic clock.
    """

    answers: int = 0
    done_at: float = float("-inf")

    def count(self, occurrence: Occurrence) -> None:
        """Count an occurrence if a program wrote it soon after the trigger did something."""
        if occurrence.speaker == "person":
            self.answers = 0
        elif occurrence.speaker == "external":
            is_soon = time.monotonic() - self.done_at < TRIGGER_EXCHANGE_SECONDS
            self.answers = self.answers + 1 if is_soon else 0


class TriggerRuns:
    """Runs the scripts of triggers, a few at a time."""

    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._services = services
        self._all = asyncio.Semaphore(MAX_RUNNING_SCRIPTS - 1)  # one is left for people
        self._of: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by agent
        self._exchanges: defaultdict[str, _Exchange] = defaultdict(_Exchange)  # by trigger
        self._rate = SlidingWindow(
            MAX_TRIGGER_RUNS_PER_WINDOW, RATE_WINDOW_SECONDS, max_keys=MAX_TRACKED_TRIGGERS
        )

    async def run(self, trigger_id: str, occurrence: Occurrence) -> bool:
        """Run a trigger for an occurrence, once; return whether it is still on."""
        if wait := self._rate.hit(trigger_id):
            await asyncio.sleep(wait)
            self._rate.hit(trigger_id)  # the oldest run is out of the window now
        trigger = await self._world.store.read(
            partial(triggers.read_trigger, trigger_id=trigger_id)
        )
        if trigger is None or trigger.off_reason is not None:
            return False
        exchange = self._exchanges[trigger_id]
        exchange.count(occurrence)
        if exchange.answers > MAX_TRIGGER_EXCHANGES:
            del self._exchanges[trigger_id]
            reason = f"programs and it answered each other {MAX_TRIGGER_EXCHANGES} times"
            await self._world.change(lambda tx: triggers.stop(tx, trigger, reason))
            return False
        async with self._of[trigger.agent_id], self._all:
            begun = await self._world.change(
                partial(
                    triggers.begin_run,
                    trigger_id=trigger_id,
                    event=occurrence.id,
                    cause=occurrence.cause,
                    position=occurrence.position,
                )
            )
            if begun is not None:
                await self._run_script(begun, occurrence, exchange)
        return True

    async def _run_script(
        self, trigger: Trigger, occurrence: Occurrence, exchange: _Exchange
    ) -> None:
        """Run the script of a trigger that has begun, and store how it ended."""
        began = time.monotonic()
        calls = CallCounter()
        status: RunStatus = "done"
        cause = running_trigger.set(trigger.id)
        try:
            text, status = await self._carry_out(trigger, occurrence, calls)
        except WorldError as error:
            text, status = error.message, "failed"
        except Exception:
            log.exception("a trigger failed", trigger=trigger.name)
            text, status = INTERNAL_ERROR, "failed"
        finally:
            running_trigger.reset(cause)
        if text or calls.calls:
            exchange.done_at = time.monotonic()
        end = partial(
            triggers.end_run,
            trigger=trigger,
            event=occurrence.id,
            status=status,
            ms=round((time.monotonic() - began) * 1000),
            text=text,
        )
        await self._world.change(end)

    async def _carry_out(
        self, trigger: Trigger, occurrence: Occurrence, calls: CallCounter
    ) -> tuple[str, RunStatus]:
        """Run a script and say its result; return that or the error, and what it printed."""
        world = self._world
        with world.open_requests.begin(
            trigger.agent_id, room_id=trigger.room_id, work=f"{TRIGGER_PREFIX}{trigger.name}"
        ):
            caller = await self._make_caller(trigger, calls).as_present()
            thing = await world.store.read(
                partial(things.get_live_thing, thing_id=trigger.thing_id)
            )
            script = replace(thing, content=trigger.script)
            result = await self._services.lua_tools.run_trigger(caller, script, occurrence.data)
            printed = "".join(f"\n{line}" for line in result.printed_lines)
            if result.is_error:
                return result.text + printed, "failed"
            if result.text:
                await invoke(caller, "relay", {"speaker": trigger.name, "text": result.text})
            return (result.text + printed).lstrip("\n"), "done"

    def _make_caller(self, trigger: Trigger, calls: CallCounter) -> Caller:
        """Return who a trigger acts as.

        Raises:
            Forbidden: if the account is disabled.
        """
        name = f"{TRIGGER_PREFIX}{trigger.name}"
        return Caller(
            world=self._world,
            services=self._services,
            limits=self._services.settings.limits,
            agent=self._world.agents.get_enabled(trigger.agent_id),
            room_id=trigger.room_id,
            door="lua",
            scope=TokenScope.BUILD,  # who turns one on has it
            command=name,
            call_stack=CallStack((), counter=calls),
        )
