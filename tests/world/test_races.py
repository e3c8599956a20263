"""Two servers do at once what only one may do, and one of them wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest

from sshwarma.common.limits import MAX_TOKENS_PER_AGENT
from sshwarma.world import agents, invites, login_keys, owners, things, tokens
from sshwarma.world.databases import Location, make_dialect
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change, Store
from sshwarma.world.world import World

pytestmark = [pytest.mark.postgres, pytest.mark.process]

RACES = 100
MARKS = count()

Unit = Callable[[Change], Any]


@pytest.fixture
async def stores(database: Location) -> AsyncIterator[tuple[Store, Store]]:
    await (await World.open(database, ())).close()
    made = [Store(make_dialect(database), lambda event: None) for _ in range(2)]
    yield made[0], made[1]
    for store in made:
        await store.close()


async def race(stores: tuple[Store, Store], *units: Unit) -> list[Any]:
    """Run units at once, one on each server in turn; return results and refusals."""
    running = [stores[n % 2].write(unit) for n, unit in enumerate(units)]
    done = await asyncio.gather(*running, return_exceptions=True)
    for found in done:
        if isinstance(found, BaseException) and not isinstance(found, WorldError):
            raise found
    return done


def new_public_key() -> tuple[str, str]:
    """A key and its fingerprint, which nothing here looks into."""
    mark = next(MARKS)
    return f"ssh-ed25519 key{mark}", f"SHA256:{mark:043d}"


def count_winners(done: list[Any]) -> int:
    return sum(not isinstance(found, WorldError) for found in done)


async def test_name_is_given_once(stores: tuple[Store, Store]) -> None:
    for n in range(RACES):
        create: Unit = lambda tx, n=n: agents.create_agent(tx, f"ann{n}", role="member")  # noqa: E731
        assert count_winners(await race(stores, create, create)) == 1
        make: Unit = lambda tx, n=n: things.create_thing(tx, "rooms", "room", f"den{n}")  # noqa: E731
        assert count_winners(await race(stores, make, make)) == 1


async def test_invite_is_used_once(stores: tuple[Store, Store]) -> None:
    for n in range(RACES):
        invite = await stores[0].write(lambda tx: invites.create_invite(tx, "member", 1.0, None))

        def use(name: str, code: str = invite.code) -> Unit:
            key, fingerprint = new_public_key()
            return lambda tx: invites.redeem_invite(tx, code, name, fingerprint, key)

        assert count_winners(await race(stores, use(f"a{n}"), use(f"b{n}"))) == 1


async def test_key_is_of_one_agent(stores: tuple[Store, Store]) -> None:
    for n in range(RACES):
        made = [
            await stores[0].write(
                lambda tx, n=n, a=a: agents.create_agent(tx, f"{a}{n}", role="member")
            )
            for a in ("ann", "bob")
        ]
        key, fingerprint = new_public_key()

        def add(agent_id: str, key: str = key, fingerprint: str = fingerprint) -> Unit:
            return lambda tx: login_keys.add_key(tx, agent_id, fingerprint, key)

        assert count_winners(await race(stores, *(add(agent.id) for agent in made))) == 1


async def test_world_keeps_an_owner(stores: tuple[Store, Store]) -> None:
    made = []
    for name in ("ann", "bob"):
        key, fingerprint = new_public_key()
        agent = await stores[0].write(
            lambda tx, name=name: agents.create_agent(tx, name, role="owner")
        )
        await stores[0].write(
            lambda tx, a=agent, k=key, f=fingerprint: login_keys.add_key(tx, a.id, f, k)
        )
        made.append(agent)
    for _ in range(RACES):
        demote = [lambda tx, a=a: owners.set_agent_role(tx, a.id, "member") for a in made]
        assert count_winners(await race(stores, *demote)) == 1
        for agent in made:
            await stores[0].write(lambda tx, a=agent: owners.set_agent_role(tx, a.id, "owner"))


async def test_limit_of_tokens_holds(stores: tuple[Store, Store]) -> None:
    agent = await stores[0].write(lambda tx: agents.create_agent(tx, "ann", role="member"))
    issue: Unit = lambda tx: tokens.issue_token(tx, agent.id, "x", None, None)  # noqa: E731
    done = await race(stores, *[issue] * (MAX_TOKENS_PER_AGENT + RACES))
    assert count_winners(done) == MAX_TOKENS_PER_AGENT
