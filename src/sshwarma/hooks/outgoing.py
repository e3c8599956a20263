"""Outgoing hooks: each reads the rows of its room and posts what it is for.

Nothing is queued: a hook has a cursor in the logs, which moves when a post has arrived. So nothing
is lost if a server is away or this one is killed, and what may arrive twice has the same id. Posts
of one hook go one after another, in the order of the log.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import SystemRandom
from typing import Any, Final

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import (
    MAX_HOOK_FAILING_SECONDS,
    MAX_HOOK_HOPS,
    MAX_HOOK_RETRY_SECONDS,
)
from sshwarma.common.times import format_iso
from sshwarma.events.event_types import EVENT_ADAPTER, RowEvent
from sshwarma.events.matching_rows import MAX_UNSTORED_ROWS, MatchingRows, Wake
from sshwarma.events.patterns import parse_patterns
from sshwarma.hooks import records
from sshwarma.hooks.records import Delivery, Hook, OutgoingTarget
from sshwarma.hooks.sender import HookSender, Outcome
from sshwarma.hooks.signing import make_headers
from sshwarma.hooks.templates import fill_body
from sshwarma.world import rows
from sshwarma.world.authors import HOPS_KEY
from sshwarma.world.errors import Forbidden, TooLarge
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from sshwarma.world.world import World

_random: Final = SystemRandom()  # hooks of one server do not try again at the same moment

log = structlog.get_logger(__name__)

HOPS_HEADER: Final = "Sshwarma-Hops"
"""The header that says how many hooks an event has come through before."""


@dataclass(frozen=True, slots=True)
class _Post:
    """What is posted of an event.

    Attributes:
        message_id: the same each time it is posted.
        on: the patterns of the hook that mean it.
        cursor: the position of the hook once it has arrived; None if the row has another post.
        hops: how many hooks it has come through before.
    """

    message_id: str
    on: tuple[str, ...]
    data: dict[str, Any]
    cursor: str | None = None
    hops: int = 0


class Hooks:
    """The hooks of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sender = HookSender()
        self._tasks = BackgroundTasks()
        self._running: dict[str, asyncio.Task[None]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, world: World) -> AsyncIterator[Hooks]:
        """Run the hooks of a world that are on."""
        hooks = cls(world)
        for hook_id in await world.store.read(records.list_outgoing):
            hooks.refresh(hook_id)
        try:
            yield hooks
        finally:
            await hooks.close()

    async def close(self) -> None:
        """End all hooks and their connections."""
        await self._tasks.cancel()
        await self._sender.close()

    def stop(self, hook_id: str) -> asyncio.Task[None] | None:
        """End a hook; return its task, which stores where it was."""
        running = self._running.pop(hook_id, None)
        if running is not None:
            running.cancel()
        return running

    def refresh(self, hook_id: str) -> None:
        """Run a hook, again if it was changed."""
        earlier = self.stop(hook_id)
        run = partial(self._run, hook_id, earlier)
        self._running[hook_id] = self._tasks.keep_running(run, name=f"hook {hook_id}")

    async def post_test(self, hook: Hook) -> Outcome:
        """Post an event that has not happened, and return how it went.

        Raises:
            Forbidden: if who made the hook may not hear the room now.
            TooLarge: if the body has too much.
        """
        if not await _HookReader(self._world, hook).rows.may_hear():
            name = self._world.agents.name_of(hook.agent_id)
            raise Forbidden(f"{name}, who made {hook.name}, may not hear this room.")
        room = await self._world.room(hook.room_id)
        speaker = {"name": self._world.agents.name_of(hook.agent_id), "kind": "person"}
        data: dict[str, Any] = {"room": room.name, "speaker": speaker, "kind": "test"}
        data |= {"at": now_ms(), "text": "This is a test."}
        message_id = f"{hook.id}.test.{now_ms()}"
        return await self._send(hook, _Post(message_id, ("test",), {**data, "type": "row"}))

    async def _run(self, hook_id: str, earlier: asyncio.Task[None] | None) -> None:
        """Post what a hook is for, until it is off or removed.

        `earlier` ran it before a change: it stores where it was.
        """
        if earlier is not None:
            await asyncio.wait({earlier})
        hook = await self._read(hook_id)
        if hook is not None and hook.off_reason is None:
            await self._post_all(_HookReader(self._world, hook))
        await asyncio.Event().wait()  # off: `refresh` ends this

    async def _post_all(self, reader: _HookReader) -> None:
        """Post what comes, until the hook is off."""
        hook = reader.hook
        with Wake.listening(self._world.bus, hook.room_id, hook.agent_id) as wake:
            try:
                while True:
                    wake.event.clear()
                    may_hear = await reader.rows.may_hear()
                    if may_hear and wake.take_rows():
                        if not await self._post_page(reader, wake):
                            return
                        if reader.rows.has_more:
                            wake.read()
                    await wake.event.wait()
            finally:
                if reader.position:
                    await self._store_position(reader)

    async def _read(self, hook_id: str) -> Hook | None:
        try:
            return await self._world.store.read(partial(records.read_hook, hook_id=hook_id))
        except LookupError:
            return None

    async def _post_page(self, reader: _HookReader, wake: Wake) -> bool:
        """Post what is meant of the next rows; return whether the hook is still on."""
        for row, event, on in await reader.rows.read():
            cursor = event.id if isinstance(event, RowEvent) else None
            message_id = f"{reader.hook.id}.{row.id}" + (".turns" if cursor is None else "")
            # With the time of the row: a body that is sent again must be the same.
            data = {"at": row.created_at} | EVENT_ADAPTER.dump_python(event, mode="json")
            hops = int(row.meta.get(HOPS_KEY, 0))
            post = _Post(message_id, on, data, cursor, hops)
            if not await self._deliver(reader, post, wake):
                return False
            reader.hook = replace(reader.hook, failing_since=None)
            if cursor is not None:
                reader.position, reader.stored = cursor, reader.rows.passed
        reader.position = str(reader.rows.heard.cursor)
        if reader.rows.passed - reader.stored >= MAX_UNSTORED_ROWS:
            await self._store_position(reader)
        return True

    async def _store_position(self, reader: _HookReader) -> None:
        """Store up to where a hook has posted, or passed over rows."""
        hook_id, position = reader.hook.id, reader.position
        reader.stored = reader.rows.passed
        await self._world.change(lambda tx: records.store_cursor(tx, hook_id, position))

    async def _deliver(self, reader: _HookReader, post: _Post, wake: Wake) -> bool:
        """Post an event until it arrives; return False once the hook is off.

        Rights are asked for at each attempt, as there may be a day between the first and the last:
        while its maker may not hear the room, it waits. One that has too much is passed over.
        """
        hook, tries = reader.hook, 0
        failing_since = hook.failing_since
        while True:
            await reader.wait_until_allowed(wake)
            began = time.monotonic()
            outcome, is_passed = await self._try(hook, post)
            took = round((time.monotonic() - began) * 1000)
            at = now_ms()
            delivery = Delivery(at, post.message_id, outcome.status, took, outcome.error)
            failing_since = (failing_since or at) if outcome.error and not is_passed else None
            off = ""
            if outcome.is_gone:
                off = "its server wants no more posts (HTTP 410)"
            elif failing_since and at - failing_since > MAX_HOOK_FAILING_SECONDS * 1000:
                off = f"it failed for a day: {outcome.error}"
            is_over = is_passed or not outcome.error
            await self._world.change(
                partial(
                    _store,
                    hook=hook,
                    delivery=delivery,
                    cursor=post.cursor if is_over else None,
                    is_passed=is_passed,
                    off=off,
                )
            )
            if off:
                log.info("hook turned off", hook=hook.name, reason=off)
                return False
            if is_over:
                return True
            tries += 1
            backoff = min(MAX_HOOK_RETRY_SECONDS, 2.0 ** (tries - 1))
            await asyncio.sleep(max(outcome.retry_after, backoff * (0.8 + 0.4 * _random.random())))

    async def _try(self, hook: Hook, post: _Post) -> tuple[Outcome, bool]:
        """Post an event once; return how it went, and whether it is passed over."""
        if post.hops >= MAX_HOOK_HOPS:
            return Outcome(None, f"not sent: it came through {post.hops} hooks"), True
        try:
            return await self._send(hook, post), False
        except TooLarge as error:
            return Outcome(None, f"not sent: {error.message}"), True

    async def _send(self, hook: Hook, post: _Post) -> Outcome:
        target = hook.target
        if target is None:
            raise TypeError("an incoming hook posts nothing")
        body = await asyncio.to_thread(make_body, hook, target, post.on, post.data)
        headers = make_headers(hook.secret, post.message_id, int(time.time()), body)
        headers |= {HOPS_HEADER: str(post.hops)} if post.hops else {}
        agent = self._world.agents.get(hook.agent_id)
        # Private addresses are for owners. A former owner must not reach them any more.
        may_reach_private = target.allow_private and agent is not None and agent.role == "owner"
        return await self._sender.post(
            target.url, body, headers, owner_id=hook.agent_id, allow_private=may_reach_private
        )


class _HookReader:
    """A hook's position in the log of its room.

    Attributes:
        rows: the rows that it is for.
        position: the cursor up to which all that it is for has arrived; "" before it is known.
        stored: rows that it had passed over when that was stored.
    """

    def __init__(self, world: World, hook: Hook) -> None:
        target = hook.target
        if target is None:
            raise TypeError("an incoming hook reads nothing")
        self.hook = hook
        self.position = ""
        self.stored = 0
        self.rows = MatchingRows(
            world, hook.room_id, hook.agent_id, parse_patterns(target.on), hook.cursor,
            with_own=target.own,
        )  # fmt: skip

    async def wait_until_allowed(self, wake: Wake) -> None:
        """Wait until who made the hook may hear the room."""
        if await self.rows.may_hear():
            return
        while True:
            wake.event.clear()
            if await self.rows.may_hear():
                break
            await wake.event.wait()
        wake.check()  # rows may have come meanwhile


def _store(
    tx: Change, hook: Hook, delivery: Delivery, cursor: str | None, off: str, *, is_passed: bool
) -> None:
    """Store how a post went; say in the room that the hook is off now."""
    records.store_delivery(tx, hook.id, delivery, is_passed=is_passed)
    if cursor is not None:
        records.store_cursor(tx, hook.id, cursor)
    if off:
        records.set_off(tx, hook.id, off)
        text = f"The hook {hook.name} is off: {off}."
        rows.append_row(tx, hook.room_id, "notice", text, author_id=None)


def make_body(
    hook: Hook, target: OutgoingTarget, on: tuple[str, ...], data: dict[str, Any]
) -> bytes:
    """Return what is posted of an event."""
    if target.body:
        document: Any = fill_body(target.body, data)
    else:
        name = data.get("speaker", {}).get("name", "")
        document = {
            "hook": hook.name,
            "on": list(on),
            "timestamp": format_iso(int(data["at"])),
            "text": f"[{data.get('room') or 'private'}] {name}: {data.get('text', '')}",
            "data": data,
        }
    return json.dumps(document, ensure_ascii=False).encode(errors="replace")
