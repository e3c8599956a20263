"""Invite codes: their letters, their case, and how many one agent may have."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sshwarma.common.limits import MAX_OPEN_INVITES
from sshwarma.world import invites
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.ids import now_ms
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
