"""What calls of tools store counts toward the hour's text, as what is said does."""

from __future__ import annotations

import pytest

from sshwarma.services import services_of
from sshwarma.world.errors import Conflict, RateLimited
from support.people import Someone, do, everything


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
