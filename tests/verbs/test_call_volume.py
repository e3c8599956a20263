"""What calls of tools store counts toward the hour's text, as what is said does."""

from __future__ import annotations

import pytest

from sshwarma.services import services_of
from sshwarma.world import rooms
from sshwarma.world.errors import Conflict, RateLimited
from support.people import Someone, do, everything, refused
from support.queries import equip_texts


async def test_arguments_and_results_of_calls_are_counted(alice: Someone, bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"text_mib_per_hour": 1})
    tools = services_of(bob.caller).tools
    long = "x" * 500_000
    for _ in range(2):  # refused by the verb, and recorded with its arguments
        outcome = await tools.call(bob.caller, "sshwarma:note", {"text": long})
        assert outcome.ending == "error"
    before = await everything(bob.world)
    with pytest.raises(RateLimited, match="at most 1 MiB of text in an hour"):
        await tools.call(bob.caller, "sshwarma:note", {"text": long})
    assert await everything(bob.world) == before
    await do(alice, "/say others are not concerned")


@pytest.mark.parametrize("verb", ["fork", "clone"])
async def test_texts_of_copied_rooms_are_counted(alice: Someone, verb: str) -> None:
    alice.limits = alice.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(alice, "/create den")
    await equip_texts(alice, 4, "x" * 100_000)
    await do(alice, f"/{verb} den copy-1")
    for _ in range(3):
        with pytest.raises(Conflict, match="copy-1 already exists"):
            await do(alice, f"/{verb} den copy-1")
    await do(alice, f"/{verb} den copy-2")
    with pytest.raises(RateLimited, match="at most 1 MiB of text in an hour"):
        await do(alice, f"/{verb} den copy-3")
    assert await alice.world.store.read(lambda conn: rooms.find_room_id(conn, "copy-3")) is None


async def test_each_copied_thing_is_counted(alice: Someone) -> None:
    """Thousands of texts of a letter are megabytes of rows."""
    alice.limits = alice.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(alice, "/create den")
    await equip_texts(alice, 1_100, "x")
    await do(alice, "/fork den copy-1")
    with pytest.raises(RateLimited, match="at most 1 MiB of text in an hour"):
        await do(alice, "/fork den copy-2")


async def test_room_with_more_text_than_an_hour_allows_is_not_copied(alice: Someone) -> None:
    """To wait would not help."""
    alice.limits = alice.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(alice, "/create den")
    await equip_texts(alice, 1, "é" * 600_000)
    why = await refused(alice, "/fork den copy")
    assert "text of den" in why.message and "1048576 bytes" in why.message


async def test_refused_copy_of_a_room_is_not_counted(bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(bob, "/create den")
    for number in range(20):
        await do(bob, f"line {number} " + "x" * 15_000)
    for _ in range(4):
        with pytest.raises(Conflict, match="den already exists"):
            await do(bob, "/clone den den")
    await do(bob, "/clone den copy")


@pytest.mark.parametrize("line", ["/describe {}", "/vibe {}", "/alias long {}"])
async def test_short_texts_that_are_changed_often_are_counted(bob: Someone, line: str) -> None:
    bob.limits = bob.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(bob, "/create den")
    bob.caller.charge_text_volume(2**20 - 100)
    with pytest.raises(RateLimited, match="at most 1 MiB of text in an hour"):
        await do(bob, line.format("x" * 400))


async def test_copies_of_a_room_and_skills_are_counted(bob: Someone) -> None:
    bob.limits = bob.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(bob, "/create den")
    for number in range(20):
        await do(bob, f"line {number} " + "x" * 15_000)
    await do(bob, "/clone den copy-1")
    with pytest.raises(RateLimited, match="at most 1 MiB of text in an hour"):
        for number in range(2, 9):
            await do(bob, f"/clone den copy-{number}")
    with pytest.raises(RateLimited):
        for number in range(40):
            await do(bob, f"/skill new s{number} = " + "x" * 16_000)
