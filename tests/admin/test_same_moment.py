"""Commands at the machine that are one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncssh
from sqlalchemy import text

from sshwarma.admin.server_operations import run_operation
from sshwarma.world.errors import NotFound
from sshwarma.world.world import World
from support.people import Someone


def key(comment: str = "a@b") -> str:
    made = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return made.export_public_key("openssh").decode()


async def test_commands_of_the_same_moment_see_each_other(world: World) -> None:
    """They are one transaction, before which all of them were checked."""

    async def run_both(*operations: tuple[str, dict[str, Any]]) -> list[Any]:
        running = (run_operation(world, name, args) for name, args in operations)
        return await asyncio.gather(*running, return_exceptions=True)

    first, second = key(), key("c@d")
    await run_operation(world, "keys_add", {"name": "carol", "public_key": first})
    await run_both(
        ("agents_remove", {"name": "carol"}),
        ("keys_add", {"name": "carol", "public_key": second}),
    )
    [kept] = await run_operation(world, "keys_list", {"name": "carol"})
    assert kept["comment"] == "c@d"
    await run_operation(world, "keys_add", {"name": "dave", "public_key": first})
    _, added = await run_both(
        ("agents_role", {"name": "carol", "role": "admin"}),
        ("keys_add", {"name": "carol", "public_key": second, "role": "guest"}),
    )
    assert added["role"] == world.agents.find("carol").role == "guest"
    _, refused = await run_both(
        ("agents_remove", {"name": "carol"}), ("token_new", {"name": "carol", "label": "x"})
    )
    assert isinstance(refused, NotFound)
    assert await run_operation(world, "token_list", {}) == []


async def test_change_of_nothing_is_not_audited(world: World, alice: Someone, bob: Someone) -> None:
    for name, args in (
        ("agents_role", {"name": "bob", "role": "member"}),
        ("agents_enable", {"name": "bob"}),
        ("agents_disable", {"name": "bob"}),
        ("agents_disable", {"name": "bob"}),
    ):
        await run_operation(world, name, args)
    audited = await world.store.read(
        lambda conn: conn.execute(text("SELECT verb, what FROM audit WHERE door = 'cli'")).all()
    )
    assert audited == [("agents", "disable bob")]
