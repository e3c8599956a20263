"""A wait for an answer that ends when the call may not be made any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from sshwarma.common.limits import APPROVAL_TIMEOUT_SECONDS
from sshwarma.world.errors import WorldError
from sshwarma.world.events import AgentsChanged, EventBus, PresenceChanged, WorldChanged

CheckOfCall: TypeAlias = Callable[[], Awaitable[None]]
"""Raises a WorldError if the call may not be made any more."""


async def wait_while_valid(
    bus: EventBus, answer: asyncio.Future[Any], check: CheckOfCall
) -> WorldError | None:
    """Wait for an answer while the call that asks for it can be made.

    It lasts at most APPROVAL_TIMEOUT_SECONDS. The call is checked first, and after each change of
    tools, equipment, access, agents or who is where.

    Returns why the call cannot be made any more; None if the answer came, or did not come in time.
    """
    changed = asyncio.Event()
    changed.set()  # something may have changed before this began to listen
    kinds = (WorldChanged, AgentsChanged, PresenceChanged)
    stops = [bus.on_event(kind, lambda _: changed.set()) for kind in kinds]
    loop = asyncio.get_running_loop()
    end = loop.time() + APPROVAL_TIMEOUT_SECONDS
    try:
        while not answer.done() and (left := end - loop.time()) > 0:
            if changed.is_set():
                changed.clear()
                await check()
            change = loop.create_task(changed.wait())
            try:
                await asyncio.wait(
                    (answer, change), timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                change.cancel()
    except WorldError as refusal:
        return refusal
    finally:
        for stop in stops:
            stop()
    return None
