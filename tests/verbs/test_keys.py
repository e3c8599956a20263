"""The verbs of one's own ssh keys, without a connection."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sshwarma.common.limits import MAX_KEYS_PER_AGENT
from sshwarma.common.public_key import parse_public_key
from sshwarma.verbs.completion import complete
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import login_keys
from sshwarma.world.audit import Origin
from sshwarma.world.errors import Forbidden, WorldError
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do, refused

KEYS = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo one",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f two",
)
FIRST, SECOND = (parse_public_key(line)[0] for line in KEYS)


@pytest.mark.parametrize("door", ["api", "mcp", "model", "web", "lua"])
@pytest.mark.parametrize("line", ["/keys", f"/keys add {KEYS[0]}", f"/keys remove {FIRST} --yes"])
async def test_keys_are_managed_over_ssh_alone(bob: Someone, door: str, line: str) -> None:
    bob.connection.door = door  # type: ignore[assignment]
    with pytest.raises(Forbidden, match="only over ssh, with your ssh key"):
        await do(bob, line)


@pytest.mark.parametrize("line", ["/hi", f"/hi add {KEYS[0]}", f"/hi remove {FIRST}"])
async def test_no_alias_changes_keys(bob: Someone, line: str) -> None:
    """A token or a browser can set one, which its owner types later with a key."""
    meaning = "/keys" if " " in line else f"/keys add {KEYS[0]}"
    bob.connection.door = "api"
    await do(bob, f"/alias hi = {meaning}")
    bob.connection.door = "ssh"
    refusal = await refused(bob, line)
    assert str(refusal).startswith("The alias /hi may not run /keys ")


async def test_keys_of_one_agent_have_a_limit(world: World, bob: Someone) -> None:
    def fill(tx: Change) -> None:
        for number in range(MAX_KEYS_PER_AGENT - 1):
            login_keys.add_key(tx, bob.id, f"SHA256:{number:043}", "ssh-ed25519 AAAA")

    await world.change(fill)
    await do(bob, f"/keys add {KEYS[0]}")
    refusal = await refused(bob, f"/keys add {KEYS[1]}")
    assert str(refusal) == "An agent can have at most 100 keys. Remove one first."
    assert not (await do(bob, f"/keys add {KEYS[0]}")).is_new, "the same again is not one more"


async def test_two_removals_at_once_leave_the_last_key(world: World, bob: Someone) -> None:
    """Neither is the last when it is typed."""
    for line in KEYS:
        await do(bob, f"/keys add {line}")
    done = await asyncio.gather(
        *(do(bob, f"/keys remove {fingerprint}") for fingerprint in (FIRST, SECOND)),
        return_exceptions=True,
    )
    (refusal,) = [one for one in done if isinstance(one, WorldError)]
    assert "It is your last key" in refusal.message
    assert len(world.agents.keys_of(bob.id)) == 1


async def test_a_key_that_has_expired_is_no_way_in(world: World, bob: Someone) -> None:
    for line in KEYS:
        await do(bob, f"/keys add {line}")
    key = world.agents.find_key(SECOND)
    assert key is not None
    await world.change(lambda tx: login_keys.set_key_expiry(tx, key, 1))
    assert "It is your last key" in (await refused(bob, f"/keys remove {FIRST}")).message
    await do(bob, f"/keys remove {SECOND}")


async def test_removal_says_what_follows_for_this_connection(bob: Someone) -> None:
    for line in KEYS:
        await do(bob, f"/keys add {line}")
    here = replace(bob.caller, origin=Origin("192.0.2.1", FIRST))
    with pytest.raises(WorldError, match="the key of this connection, which ends at once"):
        await run_line(here, f"/keys remove {FIRST}")
    listed = await run_line(here, "/keys list")
    assert [key.is_of_connection for key in listed.keys] == [True, False]
    await run_line(here, f"/keys remove {FIRST} --yes")


async def test_own_fingerprints_are_completed(alice: Someone, bob: Someone) -> None:
    await do(bob, f"/keys add {KEYS[0]}")
    found = await complete(bob.caller, "/keys remove ", len("/keys remove "))
    assert FIRST in str(found)
    assert FIRST not in str(await complete(alice.caller, "/keys remove ", len("/keys remove ")))
