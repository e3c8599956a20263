"""Invite codes: their letters, their case, and how many one agent may have."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_OPEN_INVITES
from sshwarma.world import invites
from sshwarma.world.errors import Conflict, Invalid
from support.people import Someone


async def test_code_has_no_letters_that_look_alike(alice: Someone) -> None:
    codes = [
        await alice.world.change(lambda tx: invites.create_invite(tx, "member", 1, None))
        for _ in range(MAX_OPEN_INVITES + 1)  # the operator's codes are not counted
    ]
    letters = set("".join(codes))
    assert letters <= set(invites.CODE_LETTERS)
    assert not letters & set("1lIO0o-")
    assert len(set(codes)) == len(codes)


async def test_unused_codes_of_an_agent_are_limited(alice: Someone) -> None:
    async def make() -> str:
        return await alice.world.change(lambda tx: invites.create_invite(tx, "member", 1, alice.id))

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
