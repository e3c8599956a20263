"""`Tools.call`: the only way a tool is ever called, by a person, a model or a program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from sshwarma.tools.names import NameTable
from sshwarma.world import calls, things
from sshwarma.world.caller import Caller
from sshwarma.world.calls import Ending
from sshwarma.world.errors import Invalid, NotFound, Refused, Unavailable
from sshwarma.world.events import Row
from sshwarma.world.loadout import Item
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

SECONDS: Final = 60.0
"""A call that takes longer is a timeout."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a provider gives back: text for people and models, and the value itself if it has
    one."""

    text: str
    structured: Any = None
    failed: bool = False


class Provider(Protocol):
    """Whoever can carry out the tools of a namespace."""

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> Result:
        """Carry out a tool that the caller may use.

        Raises:
            Refused: with words for the caller; recorded as an error of the call.
        """


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call that has ended, however it did."""

    tool: str
    how: Ending
    text: str
    structured: Any
    seconds: float
    seq: int  # of the row that holds the result


class Tools:
    """The tools of a world. `providers` are by the id of the namespace they serve."""

    def __init__(self, world: World, providers: Mapping[str, Provider]) -> None:
        self._world = world
        self._providers = providers

    async def call(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any],
        *,
        turn_id: str | None = None,
        parent_row_id: str | None = None,
        refusal: str = "",
        after: asyncio.Event | None = None,
    ) -> Outcome:
        """Call a tool by any of its names and record it in the caller's room. With a `refusal`
        it is not carried out, only recorded with that error. The result is recorded when `after`
        is set, if given.

        Raises:
            Refused: if the caller does not have the tool, or it cannot be used now; nothing is
                recorded. A turn records that too: there it is an Outcome.
        """
        refused: Refused | None = None
        try:
            if refusal:
                raise Invalid(refusal)
            item = await self._equipped(caller, name)
            tool = item.thing.label
        except Refused as error:
            if turn_id is None:
                raise
            refused, item, tool = error, None, name
        call = await self._world.change(
            lambda tx: calls.begin(
                tx,
                caller.room_id,
                caller.agent.id,
                tool,
                arguments,
                turn_id=turn_id,
                parent_row_id=parent_row_id,
            )
        )
        started = time.monotonic()
        how: Ending
        try:
            if item is None:
                how, result = "error", Result(str(refused), failed=True)
            else:
                how, result = await self._carry_out(caller, item, arguments)
            seconds = time.monotonic() - started
            if after is not None:
                await after.wait()
        except asyncio.CancelledError:
            await asyncio.shield(
                self._ended(
                    call,
                    "error",
                    Result("It was stopped.", failed=True),
                    time.monotonic() - started,
                )
            )
            raise
        return await self._ended(call, how, result, seconds)

    async def _equipped(self, caller: Caller, name: str) -> Item:
        load = await self._world.loadout(caller.room_id, caller.agent.id)
        item = NameTable(load.tools).find(name)
        if item is None:
            known = await self._world.store.read(lambda conn: things.by_qualified_name(conn, name))
            if known is not None and known.kind == "tool":
                raise NotFound(
                    f"{name} is not equipped here.", hint=f"/equip room {name} would do that."
                )
            raise NotFound(f"There is no tool {name[:60]}.", hint="/inv shows what is equipped.")
        if item.obstacle:
            raise Unavailable(f"{item.thing.label} cannot be used now: {item.obstacle}.")
        return item

    async def _carry_out(
        self, caller: Caller, item: Item, arguments: dict[str, Any]
    ) -> tuple[Ending, Result]:
        provider = self._providers.get(item.thing.parent_id or "")
        if provider is None:
            return "error", Result(f"Nothing carries out {item.thing.label} now.", failed=True)
        try:
            async with asyncio.timeout(SECONDS):
                result = await provider.run(caller, item.thing, arguments)
        except TimeoutError:
            return "timeout", Result(f"It took longer than {SECONDS:.0f} s.", failed=True)
        except Refused as refused:
            return "error", Result(str(refused), failed=True)
        except Exception:
            log.exception("a tool failed", tool=item.thing.label)
            return "error", Result("Something went wrong in it.", failed=True)
        return ("error" if result.failed else "result"), result

    async def _ended(self, call: Row, how: Ending, result: Result, seconds: float) -> Outcome:
        row = await self._world.change(
            lambda tx: calls.end(tx, call, how, result.text, result.structured, seconds)
        )
        return Outcome(call.meta["tool"], how, result.text, result.structured, seconds, row.seq)
