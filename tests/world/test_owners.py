"""A world that has an owner with a key keeps one, whatever operators do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from sshwarma.admin.operations import run_operation
from sshwarma.common.public_key import parse_public_key
from sshwarma.world import agents, owners, things
from sshwarma.world.errors import Conflict, Invalid, WorldError
from sshwarma.world.events import AgentsChanged
from sshwarma.world.schema import agent_keys
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone

PEOPLE = ("alice", "bob", "carol")
KEYS = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo one",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f two",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA three",
)
ROLES = ("owner", "admin", "member", "guest")
names = st.sampled_from((*PEOPLE, "qwen"))
steps = st.one_of(
    st.builds(lambda n, r: ("agents_role", {"name": n, "role": r}), names, st.sampled_from(ROLES)),
    st.builds(lambda n: ("agents_disable", {"name": n}), names),
    st.builds(lambda n: ("agents_enable", {"name": n}), names),
    st.builds(lambda n: ("agents_remove", {"name": n}), names),
    st.builds(lambda n, m: ("agents_rename", {"name": n, "new_name": m}), names, names),
    st.builds(
        lambda n, k, r, d: ("keys_add", {"name": n, "public_key": k, "role": r, "days": d}),
        names, st.sampled_from((*KEYS, "\n".join(KEYS[:2]))), st.sampled_from((None, *ROLES)),
        st.sampled_from((None, 0.5, 30)),
    ),
    st.just(("time passes", {})),
    st.builds(
        lambda n, f: ("keys_remove", {"name": n, "fingerprint": f}),
        names, st.sampled_from(("SHA256:", "", "SHA256:b", "WHOLE")),
    ),
)  # fmt: skip


async def count(world: World) -> int:
    return owners.count_usable_owners(*await world.store.read(agents.read_agents))


def let_keys_expire(tx: Change) -> None:
    """Do what time does: every key that has an expiry has expired."""
    keys = agent_keys.c
    tx.conn.execute(update(agent_keys).where(keys.expires_at.is_not(None)).values(expires_at=1))
    for agent in agents.read_agents(tx.conn)[0]:
        tx.publish_on_commit(AgentsChanged(agent.id))


async def run_step(world: World, name: str, args: dict[str, Any]) -> None:
    if name == "time passes":
        await world.change(let_keys_expire)
        return
    if args.get("fingerprint") == "WHOLE":
        agent = world.agents.find_by_name(args["name"])
        keys = world.agents.keys_of(agent.id) if agent is not None else []
        args = {**args, "fingerprint": keys[0].fingerprint if keys else "SHA256:none-of-them"}
    try:
        await run_operation(world, name, args)
    except WorldError as refusal:
        assert refusal.message.endswith(".")


def begin_anew(tx: Change) -> None:
    """Take all keys and roles, and make alice the owner."""
    tx.conn.execute(update(agent_keys).values(deleted_at=1))
    for agent in agents.read_agents(tx.conn)[0]:
        things.set_metadata(tx, agent.id, role="member", disabled=None)
        tx.publish_on_commit(AgentsChanged(agent.id))
    owners.recover_owner(tx, "alice", *parse_public_key(KEYS[0]))


@pytest.fixture(scope="module")
def loop_and_world(
    newborn: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[asyncio.AbstractEventLoop, World]]:
    """A world with a loop of its own, which all examples use."""
    path = Path(shutil.copyfile(newborn, tmp_path_factory.mktemp("owners") / "world.db"))
    loop = asyncio.new_event_loop()
    world = loop.run_until_complete(World.open(path, ()))
    create = lambda tx: agents.create_agent(tx, "qwen", kind="model")  # noqa: E731
    loop.run_until_complete(world.change(create))
    yield loop, world
    loop.run_until_complete(world.close())
    loop.close()


@settings(max_examples=60)
@given(batches=st.lists(st.lists(steps, min_size=1, max_size=3), max_size=12))
def test_no_sequence_of_commands_ends_the_last_owner(
    loop_and_world: tuple[asyncio.AbstractEventLoop, World],
    batches: list[list[tuple[str, dict[str, Any]]]],
) -> None:
    """The commands of a batch are sent at once, as by several operators."""
    loop, world = loop_and_world

    async def run() -> None:
        await world.change(begin_anew)
        for batch in batches:
            await asyncio.gather(*(run_step(world, name, args) for name, args in batch))
            assert await count(world) >= 1, batch
        await world.change(let_keys_expire)
        assert await count(world) >= 1, "the last keys of owners have expired"

    loop.run_until_complete(run())


async def test_models_get_neither_role_nor_key(world: World, alice: Someone, qwen: Any) -> None:
    with pytest.raises(Conflict, match="qwen is a model, and models have no role"):
        await run_operation(world, "agents_role", {"name": "qwen", "role": "owner"})
    with pytest.raises(Conflict, match="qwen is a model, and models do not log in"):
        await run_operation(world, "keys_add", {"name": "qwen", "public_key": KEYS[0]})


async def test_last_key_of_the_last_owner_stays(world: World, alice: Someone) -> None:
    added = await run_operation(world, "keys_add", {"name": "alice", "public_key": KEYS[0]})
    whole = added["fingerprint"]
    with pytest.raises(Conflict, match="needs an owner with a key, and this is the only one"):
        await run_operation(world, "keys_remove", {"name": "alice", "fingerprint": whole})
    await run_operation(world, "keys_add", {"name": "alice", "public_key": KEYS[1]})
    await run_operation(world, "keys_remove", {"name": "alice", "fingerprint": whole})
    assert await count(world) == 1


async def test_short_start_of_a_fingerprint_names_no_key(world: World, alice: Someone) -> None:
    await run_operation(world, "keys_add", {"name": "bob", "public_key": KEYS[0]})
    [key] = await run_operation(world, "keys_list", {"name": "bob"})
    start = key["fingerprint"].removeprefix("SHA256:")
    with pytest.raises(Invalid, match="is too short to name a key") as caught:
        await run_operation(world, "keys_remove", {"name": "bob", "fingerprint": start[:7]})
    assert "at least 8 characters" in str(caught.value)
    await run_operation(world, "keys_remove", {"name": "bob", "fingerprint": start[:8]})


async def test_last_owner_keeps_a_key_that_never_expires(world: World, alice: Someone) -> None:
    """The first owner's key, too: nobody could log in when it has expired."""
    first = {"name": "alice", "public_key": KEYS[0]}
    with pytest.raises(Conflict, match="a key that never expires, and this would leave none") as no:
        await run_operation(world, "keys_add", {**first, "days": 30})
    assert "Give an owner a key without an expiry first." in str(no.value)
    added = await run_operation(world, "keys_add", first)
    with pytest.raises(Conflict, match="would leave none"):
        await run_operation(world, "keys_add", {**first, "days": 30})
    await run_operation(world, "keys_add", {"name": "alice", "public_key": KEYS[1], "days": 30})
    with pytest.raises(Conflict, match="would leave none"):
        await run_operation(
            world, "keys_remove", {"name": "alice", "fingerprint": added["fingerprint"]}
        )
    second = {"name": "bob", "public_key": KEYS[2], "role": "owner", "days": 30}
    await run_operation(world, "keys_add", second)
    await world.change(let_keys_expire)
    with pytest.raises(Conflict, match="an owner with a key, and this is the only one"):
        await run_operation(world, "agents_disable", {"name": "alice"})
    assert await count(world) == 1


def zoe_id(world: World) -> str:
    zoe = world.agents.find_by_name("zoe")
    assert zoe is not None
    return zoe.id


async def test_recover_makes_an_owner_of_anybody(world: World, alice: Someone) -> None:
    await run_operation(world, "keys_add", {"name": "bob", "public_key": KEYS[1], "role": "guest"})
    await run_operation(world, "agents_disable", {"name": "bob"})
    made = await run_operation(world, "recover", {"name": "bob", "public_key": KEYS[0]})
    assert made["done"] == ["enabled", "owner (was guest)", "key added"]
    bob = world.agents.find_by_name("bob")
    assert bob is not None and (bob.role, bob.disabled) == ("owner", False)
    again = await run_operation(world, "recover", {"name": "bob", "public_key": KEYS[0]})
    assert again["done"] == []
    new = await run_operation(world, "recover", {"name": "zoe", "public_key": KEYS[2]})
    assert new["done"] == ["created", "key added"]
    await run_operation(world, "keys_add", {"name": "zoe", "public_key": KEYS[2], "days": 1})
    longer = await run_operation(world, "recover", {"name": "zoe", "public_key": KEYS[2]})
    assert longer["done"] == ["key no longer expires"]
    assert all(key.expires_at is None for key in world.agents.keys_of(zoe_id(world)))
    with pytest.raises(Conflict, match="already belongs to bob"):
        await run_operation(world, "recover", {"name": "alice", "public_key": KEYS[1]})
    assert alice.agent.role == "owner"
