"""`Tools.call`: the only way a tool is ever called, by a person, a model or a program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CALL_DEPTH, MAX_NESTED_CALLS
from sshwarma.tools.arguments import check_arguments
from sshwarma.tools.names import NameTable
from sshwarma.tools.progress import CallProgress
from sshwarma.world import calls, things
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller, CallStack
from sshwarma.world.calls import CallResultKind
from sshwarma.world.errors import Invalid, NotFound, Unavailable, WorldError
from sshwarma.world.events import Row
from sshwarma.world.loadout import UNAVAILABLE_OBSTACLE, LoadoutItem
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

PROVIDER_KEY: Final = "runs"
"""The key of a tool's metadata that names its provider; without it, its namespace's id does."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a provider gives back: text for people and models, and the value itself if it has
    one. `printed` are lines it wrote on the way, which go with the text. `given` is what is no
    text; the text has a word on each."""

    text: str
    structured: Any = None
    failed: bool = False
    printed: tuple[str, ...] = ()
    given: tuple[Attachment, ...] = ()

    @property
    def told(self) -> str:
        """All its words."""
        if not self.printed:
            return self.text
        return "\n".join((self.text, "", "printed:", *self.printed) if self.text else self.printed)


class ToolProvider(Protocol):
    """Carries out the tools of some namespaces."""

    @property
    def timeout_seconds(self) -> float | None:
        """Timeout of each call in seconds. None: the provider raises TimeoutError itself, with a
        message."""

    def why_unavailable(self, tool: Thing) -> str:
        """Return why a tool that is marked unavailable cannot be called now; empty if the provider
        has no more to say than the mark."""

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        """Carry out a tool that the caller may use, with arguments that fit its schema.

        `caller.within` is this very call: calls it makes for the caller are made with that.

        Raises:
            WorldError: with words for the caller; recorded as an error of the call.
        """


class CallPosition:
    """The place of a call among those that are carried out side by side: its rows are written
    after those of the call before it. A call that cannot be made still has to `leave`."""

    def __init__(self, before: CallPosition | None = None) -> None:
        self._before = before
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()

    async def to_begin(self) -> None:
        """Wait until the call before it is recorded."""
        if self._before is not None:
            await self._before._begun.wait()

    def begun(self) -> None:
        """It is recorded."""
        self._begun.set()

    async def to_end(self) -> None:
        """Wait until the result of the call before it is recorded."""
        if self._before is not None:
            await self._before._ended.wait()

    def leave(self) -> None:
        """It is over, however it ended: nobody waits for it any more."""
        self._begun.set()
        self._ended.set()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call that has ended, however it did."""

    tool: str
    how: CallResultKind
    text: str
    structured: Any
    seconds: float
    seq: int  # of the row that holds the result
    given: tuple[Attachment, ...] = ()


class Tools:
    """The tools of a world. `providers` are by what tools name in their metadata
    (`PROVIDER_KEY`), or by the id of the namespace they serve."""

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
        """Call a tool by any of its names and record it in the caller's room. With a `refusal`
        it is not carried out, only recorded with that error. With a `place` its rows wait for
        those of the calls before it.

        Raises:
            WorldError: if the caller does not have the tool, it cannot be used now, or not with
                these
                arguments; nothing is recorded. A turn records that too: there it is an CallOutcome.
        """
        within = caller.within
        if within is not None:
            turn_id, parent_row_id = turn_id or within.turn_id, parent_row_id or within.row_id
        refused: WorldError | None = None
        tool, thing = name, None
        try:
            if refusal:
                raise Invalid(refusal)
            thing = (await self.find(caller, name)).thing
            tool = thing.label
            _count_nested_call(within, tool)
            arguments = check_arguments(thing, arguments)
        except WorldError as error:
            if turn_id is None:
                raise
            refused = error
        if place is not None:
            await place.to_begin()
        call = await self._world.change(
            lambda tx: calls.record_call_start(
                tx,
                caller.room_id,
                caller.agent.id,
                tool,
                arguments,
                turn_id=turn_id,
                parent_row_id=parent_row_id,
            )
        )
        if place is not None:
            place.begun()
        started = time.monotonic()
        how: CallResultKind
        try:
            if refused is not None or thing is None:
                how, result = "error", ToolResult(str(refused), failed=True)
            else:
                inside = caller.inside(tool, turn_id, call.id)
                with ExitStack() as showing:
                    if turn_id is None and within is None:  # a turn shows its calls itself
                        progress = showing.enter_context(CallProgress(caller, call))
                        inside = replace(inside, report=progress.report)
                    how, result = await self._carry_out(inside, thing, arguments)
            seconds = time.monotonic() - started
            if place is not None:
                await place.to_end()
        except asyncio.CancelledError:
            await asyncio.shield(
                self._ended(
                    call,
                    "error",
                    ToolResult("It was stopped.", failed=True),
                    time.monotonic() - started,
                )
            )
            raise
        return await self._ended(call, how, result, seconds)

    async def test(
        self, caller: Caller, tool: Thing, arguments: dict[str, Any]
    ) -> tuple[CallResultKind, ToolResult, float]:
        """Carry out a tool for whoever makes it, equipped or not, without a row of it; how it
        ended, what it gave, and the seconds it took. What it calls is done and recorded.

        Raises:
            Invalid: if the arguments do not fit it.
        """
        fitted = check_arguments(tool, arguments)
        started = time.monotonic()
        how, result = await self._carry_out(caller.inside(tool.label), tool, fitted)
        return how, result, time.monotonic() - started

    async def find(self, caller: Caller, name: str) -> LoadoutItem:
        """The tool of that name, in whichever form, that the caller has here.

        Raises:
            NotFound: if there is none, or it is not equipped.
            Unavailable: if it cannot be used now.
        """
        load = await self._world.loadout(caller.room_id, caller.agent.id)
        item = NameTable(load.tools).find(name)
        if item is None:
            same = [item.thing.label for item in load.tools if item.thing.name == name]
            if same:
                raise NotFound(f"{name} is one of several: {', '.join(same)}.", hint="Say which.")
            is_open = await caller.opens()
            known = await self._world.store.read(
                lambda conn: _find_unequipped_tool(conn, name, is_open)
            )
            if known is not None:
                space = known.partition(":")[0]
                raise NotFound(
                    f"{known} is not equipped here.",
                    hint=f"/load {space} (load_room) brings the tools of {space};"
                    f" /equip room {known} this one alone.",
                )
            raise NotFound(f"There is no tool {name[:60]}.", hint="/inv shows what is equipped.")
        if item.obstacle:
            of_server = item.thing.metadata.get(PROVIDER_KEY) == "mcp"
            space = item.thing.label.partition(":")[0]
            raise Unavailable(
                f"{item.thing.label} cannot be used now: {self._describe_obstacle(item)}.",
                hint=f"/mcp show {space} says more." if of_server else "",
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
            return "error", ToolResult(f"Nothing carries out {tool.label} now.", failed=True)
        seconds = provider.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await provider.run(caller, tool, arguments)
        except TimeoutError as error:
            limit = "It timed out." if seconds is None else f"It took longer than {seconds:.0f} s."
            return "timeout", ToolResult(str(error) or limit, failed=True)
        except WorldError as refused:
            return "error", ToolResult(str(refused), failed=True)
        except Exception:
            log.exception("a tool failed", tool=tool.label)
            return "error", ToolResult("Something went wrong in it.", failed=True)
        return ("error" if result.failed else "result"), result

    async def _ended(
        self, call: Row, how: CallResultKind, result: ToolResult, seconds: float
    ) -> CallOutcome:
        row = await self._world.change(
            lambda tx: calls.record_call_end(
                tx, call, how, result.told, result.structured, seconds, result.given
            )
        )
        return CallOutcome(
            call.meta["tool"], how, result.told, result.structured, seconds, row.seq, result.given
        )


def _find_unequipped_tool(
    conn: Connection, name: str, is_open: Callable[[Thing], bool]
) -> str | None:
    """The qualified name of a tool that is not equipped, if the caller may know of it."""
    namespace, _, tool = name.rpartition(".")
    for tried in (name, name.replace("__", ":", 1), f"{namespace}:{tool}"):
        found = things.find_by_qualified_name(conn, tried)
        if found is not None and found.kind == "tool":
            return found.label if all(map(is_open, things.read_ancestors(conn, found.id))) else None
    return None


def _count_nested_call(within: CallStack | None, tool: str) -> None:
    """Count a call that comes out of another.

    Raises:
        Unavailable: if it is too deep, or one too many.
    """
    if within is None:
        return
    if len(within.names) >= MAX_CALL_DEPTH:
        path = " → ".join((*within.names, tool))
        raise Unavailable(f"{path} is too deep: tools call tools {MAX_CALL_DEPTH} deep at most.")
    if within.tally.calls >= MAX_NESTED_CALLS:
        raise Unavailable(f"One call may lead to {MAX_NESTED_CALLS} others, and this one has.")
    within.tally.calls += 1
