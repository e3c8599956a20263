"""The last use of tokens: many requests make one write, and none waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from sshwarma.admin.operations import run_operation
from sshwarma.common.limits import LAST_USE_MINUTES, LAST_USE_RETRY_MINUTES
from sshwarma.common.times import format_iso
from sshwarma.common.units import MINUTE_MS
from sshwarma.world import last_use, login_keys, owners, tokens
from sshwarma.world.agents import Agent
from sshwarma.world.bearer import authenticate_bearer
from sshwarma.world.errors import Unavailable
from sshwarma.world.ids import now_ms
from sshwarma.world.schema import things
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone


async def authenticate(world: World, header: str) -> tuple[Agent, tokens.Token] | None:
    return await authenticate_bearer(world, header, "api", "192.0.2.1")


async def new_token(someone: Someone) -> str:
    def issue(tx: Change) -> str:
        return tokens.issue_token(tx, someone.id, "ci", None, None)[1]

    return f"Bearer {await someone.world.change(issue)}"


async def used_at(someone: Someone) -> int | None:
    [token] = await someone.world.store.read(lambda conn: tokens.read_live_tokens(conn, someone.id))
    return token.last_used_at


def count_writes_of_last_use(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each write of a last use, and no other."""
    writes: list[str] = []
    write = world.store.write

    async def count(work: Callable[[Change], Any], *, may_postpone: bool = False) -> Any:
        if work.__qualname__.startswith("LastUse."):
            writes.append(work.__qualname__)
        return await write(work, may_postpone=may_postpone)

    monkeypatch.setattr(world.store, "write", count)
    return writes


async def test_many_requests_make_one_write_an_hour(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, header = bob.world, await new_token(bob)
    writes = count_writes_of_last_use(world, monkeypatch)
    found = await asyncio.gather(*(authenticate(world, header) for _ in range(50)))
    assert None not in found
    await world.last_use.close()
    first = await used_at(bob)
    assert first is not None
    for _ in range(3):
        await authenticate(world, header)
    await world.last_use.close()
    assert len(writes) == 1
    monkeypatch.setattr(last_use, "now_ms", lambda: first + LAST_USE_MINUTES * MINUTE_MS)
    await authenticate(world, header)
    await world.last_use.close()
    assert len(writes) == 2
    assert await used_at(bob) == first + LAST_USE_MINUTES * MINUTE_MS


async def test_last_seen_is_exact_between_two_records(
    bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list shows a use of ten minutes later, which is not recorded."""
    world, header = bob.world, await new_token(bob)
    await authenticate(world, header)
    await world.last_use.close()
    first = await used_at(bob)
    assert first is not None
    later = first + 10 * MINUTE_MS
    monkeypatch.setattr(last_use, "now_ms", lambda: later)
    await authenticate(world, header)
    await world.last_use.close()
    assert await used_at(bob) == first
    world.presence.leave(bob.connection)
    listed = {one["name"]: one for one in await run_operation(world, "agents_list", {})}
    assert listed["bob"]["last_seen_at"] == format_iso(later)


async def test_request_is_answered_before_its_use_is_stored(
    bob: Someone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it cannot be stored: a full disk does not lock programs out."""
    world, header = bob.world, await new_token(bob)
    may_fail = asyncio.Event()

    async def write(work: Any, *, may_postpone: bool = False) -> None:
        assert may_postpone
        await may_fail.wait()
        raise Unavailable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write", write)
        assert await authenticate(world, header) is not None
        may_fail.set()
        await world.last_use.close()
    shown = capsys.readouterr()
    assert "the last use of a key or token was not recorded" in shown.out + shown.err
    assert await used_at(bob) is None
    writes = count_writes_of_last_use(world, monkeypatch)
    for _ in range(3):
        assert await authenticate(world, header) is not None
    await world.last_use.close()
    assert writes == [], "each request of a full disk tried, and logged an error"
    later = now_ms() + LAST_USE_RETRY_MINUTES * MINUTE_MS
    monkeypatch.setattr(last_use, "now_ms", lambda: later)
    assert await authenticate(world, header) is not None
    await world.last_use.close()
    assert await used_at(bob) == later, "it is tried again"


async def use_key(someone: Someone, fingerprint: str) -> int:
    """Use a key once, and return when the database says that was."""
    world = someone.world
    key = world.agents.find_key(fingerprint)
    assert key is not None
    world.last_use.note_key(key)
    await world.last_use.close()
    seen = await world.store.read(lambda conn: last_use.read_agent_last_seen(conn, someone.id))
    assert seen is not None
    return seen


@pytest.mark.parametrize("takes_key_over", [False, True], ids=["same agent", "another agent"])
async def test_removal_and_addition_of_a_key_keep_when_its_agent_was_seen(
    bob: Someone, alice: Someone, takes_key_over: bool
) -> None:
    world, key = bob.world, "ssh-ed25519 AAAA"
    await world.change(lambda tx: login_keys.add_key(tx, bob.id, "SHA256:spare", key))
    before = await use_key(bob, "SHA256:spare")
    await world.change(lambda tx: owners.remove_key(tx, bob.id, "SHA256:spare"))
    heir = alice if takes_key_over else bob
    await world.change(lambda tx: login_keys.add_key(tx, heir.id, "SHA256:spare", key))
    seen = await world.store.read(last_use.read_last_seen)
    assert seen[bob.id] == before
    assert alice.id not in seen
    one = await world.store.read(lambda conn: last_use.read_agent_last_seen(conn, bob.id))
    assert one == before


async def test_damaged_fields_of_an_agent_end_no_list(bob: Someone) -> None:
    def damage(tx: Change) -> None:
        metadata = '{"last_seen_at": "soon"}'
        tx.conn.execute(update(things).where(things.c.id == bob.id).values(metadata=metadata))

    await bob.world.change(damage)
    assert bob.id not in await bob.world.store.read(last_use.read_last_seen)
