"""The key of a request, which is stored with the first change that it makes."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.world import rows
from sshwarma.world.errors import Unavailable
from sshwarma.world.request_keys import KeyedRequest, find_key, running_request
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone


async def test_key_of_a_change_that_failed_is_stored_with_the_next(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = KeyedRequest(alice.id, "a key", "digest")
    write = world.store.write

    def say(tx: Change) -> None:
        rows.append_row(tx, "lobby", "chat", "once", author_id=alice.id)

    async def fail(work: Any, *, may_postpone: bool = False) -> None:
        def run(tx: Change) -> None:
            work(tx)
            raise Unavailable("The disk is full.")

        await write(run, may_postpone=may_postpone)

    token = running_request.set(request)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(world.store, "write", fail)
            with pytest.raises(Unavailable):
                await world.change(say)
        assert not request.is_stored
        await world.change(say)
        assert request.is_stored
    finally:
        running_request.reset(token)
    assert await world.store.read(lambda conn: find_key(conn, alice.id, "a key", 0)) is not None
