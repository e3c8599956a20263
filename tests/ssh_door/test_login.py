"""Admission of keys: registrations and redeemed invites leave audit rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from sshwarma.settings import RegistrationMode, RegistrationSettings, ReloadableSettings
from sshwarma.ssh.door.login import RegisteredUser, WorldAuthenticator
from sshwarma.ssh.transport.interfaces import Peer
from sshwarma.world import invites
from sshwarma.world.world import World
from support.people import Someone, alice, world

__all__ = ["alice", "world"]

PEER = Peer("192.0.2.1", 40000, "carol", "SHA256:carol", "ssh-ed25519 AAAA", "test")


async def read_audit(world: World) -> list[tuple[Any, ...]]:
    query = text("SELECT agent_id, room_id, door, verb, what FROM audit ORDER BY n")
    return [tuple(row) for row in await world.store.read(lambda conn: conn.execute(query).all())]


def authenticator(world: World, mode: RegistrationMode) -> WorldAuthenticator:
    registration = RegistrationSettings(mode=mode)
    return WorldAuthenticator(world, ReloadableSettings(registration=registration))


async def test_an_open_registration_is_audited(world: World) -> None:
    gate = WorldAuthenticator(
        world, ReloadableSettings(registration=RegistrationSettings(mode="open"))
    )
    user = await gate.enter(PEER)
    assert isinstance(user, RegisteredUser)
    assert await read_audit(world) == [(user.agent_id, None, "ssh", "register", "carol")]


async def test_a_redeemed_invite_is_audited_without_its_code(world: World, alice: Someone) -> None:
    invite = await world.change(lambda tx: invites.create_invite(tx, "guest", 1, alice.id))
    gate = WorldAuthenticator(
        world, ReloadableSettings(registration=RegistrationSettings(mode="invite"))
    )
    carol = await gate.redeem_invite(PEER, "carol", invite.code)
    assert await read_audit(world) == [(carol.id, None, "ssh", "redeem invite", "carol")]
