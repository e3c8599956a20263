"""Invite codes: their letters, their case, and how many one agent may have."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sshwarma.common.limits import MAX_OPEN_INVITES
from sshwarma.world import agent_removal, invites, owners
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from support.people import Someone


async def test_code_has_no_letters_that_look_alike(alice: Someone) -> None:
    codes = [
        (await alice.world.change(lambda tx: invites.create_invite(tx, "member", 1, None))).code
        for _ in range(MAX_OPEN_INVITES + 1)  # the operator's codes are not counted
    ]
    letters = set("".join(codes))
    assert letters <= set(invites.CODE_LETTERS)
    assert not letters & set("1lIO0o-")
    assert len(set(codes)) == len(codes)


async def test_new_invite_has_the_expiry_that_is_stored(alice: Someone) -> None:
    before = now_ms()
    invite = await alice.world.change(lambda tx: invites.create_invite(tx, "member", 1.5, None))
    stored = await alice.world.store.read(
        lambda conn: conn.execute(text("SELECT expires_at FROM invites")).scalar_one()
    )
    assert invite.expires_at == stored
    assert before + 5_400_000 <= stored <= now_ms() + 5_400_000


async def test_unused_codes_of_an_agent_are_limited(alice: Someone) -> None:
    async def make() -> str:
        invite = await alice.world.change(
            lambda tx: invites.create_invite(tx, "member", 1, alice.id)
        )
        return invite.code

    code = await make()
    for _ in range(MAX_OPEN_INVITES - 1):
        await make()
    with pytest.raises(Conflict, match="unused invite codes"):
        await make()
    await alice.world.change(
        lambda tx: invites.redeem_invite(tx, f" {code} ", "dave", "SHA256:x", "ssh-x")
    )
    await make()
    with pytest.raises(Invalid, match="unknown, used or expired"):
        await alice.world.change(
            lambda tx: invites.redeem_invite(tx, code, "erin", "SHA256:y", "ssh-y")
        )


@pytest.mark.parametrize(
    ("role", "act"),
    [
        ("guest", "disable"),
        ("admin", "demote to admin"),
        ("member", "demote to member"),
        ("guest", "remove"),
    ],
)
async def test_invite_ends_with_the_right_of_its_maker(
    alice: Someone, bob: Someone, role: str, act: str
) -> None:
    """Somebody who was disabled would come back with their own codes."""
    world = alice.world
    await world.change(lambda tx: owners.set_agent_role(tx, alice.id, "owner"))
    await world.change(lambda tx: owners.set_agent_role(tx, bob.id, "owner"))
    invite = await world.change(lambda tx: invites.create_invite(tx, role, 1, bob.id))

    def take_right(tx: Change) -> None:
        if act == "disable":
            owners.set_agent_disabled(tx, bob.id, True)
        elif act == "remove":
            agent_removal.remove_agent(tx, bob.id)
        else:
            owners.set_agent_role(tx, bob.id, act.rpartition(" ")[2])

    def redeem(tx: Change) -> object:
        return invites.redeem_invite(tx, invite.code, "dave", "SHA256:x", "ssh-x")

    await world.change(take_right)
    listed = await world.store.read(invites.read_invites)
    assert [one.state for one in listed] == ([] if act == "remove" else ["void"])
    with pytest.raises(invites.InvalidInviteCode):
        await world.change(redeem)
    if act != "remove":
        await world.change(lambda tx: owners.set_agent_disabled(tx, bob.id, False))
        await world.change(lambda tx: owners.set_agent_role(tx, bob.id, "owner"))
        await world.change(redeem)
