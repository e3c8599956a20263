"""Admission of keys: registrations and redeemed invites leave audit rows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.common.limits import LAST_USE_MINUTES
from sshwarma.common.units import MINUTE_MS
from sshwarma.settings import RegistrationMode, RegistrationSettings, ReloadableSettings
from sshwarma.ssh.door.login import RegisteredUser, UnregisteredUser, WorldAuthenticator
from sshwarma.ssh.door.login_audit import LoginAudit
from sshwarma.ssh.transport.interfaces import FailedLogin, Peer, Rejected
from sshwarma.world import agents, invites, last_use, login_keys
from sshwarma.world.audit import FAILED_LOGIN, LOGIN, AuditEntry, AuditFilter, Origin
from sshwarma.world.audit import read_audit as read_entries
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World
from support.people import Someone, alice, bob, qwen, world

__all__ = ["alice", "bob", "qwen", "world"]

PEER = Peer("192.0.2.1", 40000, "carol", "SHA256:carol", "ssh-ed25519 AAAA", "test")


async def read_audit(world: World) -> list[tuple[Any, ...]]:
    query = text("SELECT agent_id, room_id, door, verb, what FROM audit ORDER BY n")
    return [tuple(row) for row in await world.store.read(lambda conn: conn.execute(query).all())]


async def read_failures(world: World) -> list[AuditEntry]:
    await world.failed_logins.close()
    return await world.store.read(
        lambda conn: read_entries(conn, AuditFilter(verbs=(FAILED_LOGIN,)), 100)
    )


def authenticator(world: World, mode: RegistrationMode) -> WorldAuthenticator:
    registration = RegistrationSettings(mode=mode)
    return WorldAuthenticator(world, ReloadableSettings(registration=registration))


async def test_an_open_registration_is_audited(world: World) -> None:
    gate = WorldAuthenticator(
        world, ReloadableSettings(registration=RegistrationSettings(mode="open"))
    )
    user = await gate.enter(PEER)
    assert isinstance(user, RegisteredUser)
    assert await read_audit(world) == [
        (user.agent_id, None, "ssh", "register", "carol --role member")
    ]


async def test_a_redeemed_invite_is_audited_without_its_code(world: World, alice: Someone) -> None:
    invite = await world.change(lambda tx: invites.create_invite(tx, "guest", 1, alice.id))
    gate = WorldAuthenticator(
        world, ReloadableSettings(registration=RegistrationSettings(mode="invite"))
    )
    carol = await gate.redeem_invite(PEER, "carol", invite.code)
    assert await read_audit(world) == [
        (carol.id, None, "ssh", "redeem invite", f"carol --role guest {invite.id}")
    ]


@pytest.mark.parametrize("mode", ["invite", "open"])
async def test_refused_registration_is_recorded(
    world: World, alice: Someone, mode: RegistrationMode
) -> None:
    gate = authenticator(world, mode)
    with pytest.raises(WorldError):
        if mode == "invite":
            await gate.redeem_invite(PEER, "carol", "abcdefghijklm1")
        else:
            await gate.register(PEER, "alice")
    [entry] = await read_failures(world)
    assert entry.request.startswith('"carol" not registered: ')
    assert "abcdefghijklm1" not in entry.request
    assert entry.origin == Origin(PEER.address, PEER.fingerprint)


async def test_registration_over_the_rate_is_recorded(world: World) -> None:
    registration = RegistrationSettings(mode="invite", per_hour_per_address=1)
    gate = WorldAuthenticator(world, ReloadableSettings(registration=registration))
    for reason in ("Invalid invite code", "Too many registrations"):
        with pytest.raises(WorldError, match=reason):
            await gate.redeem_invite(PEER, "carol", "abcdefghijklm1")
    _, entry = await read_failures(world)
    assert "Too many registrations" in entry.request


@pytest.mark.parametrize("has_tried", [False, True])
async def test_newcomer_who_leaves_has_one_record(world: World, has_tried: bool) -> None:
    gate = authenticator(world, "invite")
    newcomer = await gate.enter(PEER)
    assert isinstance(newcomer, UnregisteredUser)
    newcomer.has_tried = has_tried  # which has left one already
    gate.left(PEER, newcomer, 1.0)
    assert len(await read_failures(world)) == (0 if has_tried else 1)


async def test_registration_has_address_and_key(world: World) -> None:
    user = await authenticator(world, "open").enter(PEER)
    assert isinstance(user, RegisteredUser)
    [entry] = await world.store.read(lambda conn: read_entries(conn, AuditFilter(), 10))
    assert entry.origin == Origin(PEER.address, PEER.fingerprint)


async def test_login_is_recorded_with_the_client(world: World, alice: Someone) -> None:
    gate = authenticator(world, "open")
    await world.change(
        lambda tx: login_keys.add_key(tx, alice.id, PEER.fingerprint, PEER.public_key)
    )
    await gate.enter(PEER)
    await gate.audit.close()
    [login] = await world.store.read(
        lambda conn: read_entries(conn, AuditFilter(verbs=(LOGIN,), agent_ids=(alice.id,)), 10)
    )
    assert login.request == PEER.client


async def test_expired_key_does_not_log_in_and_is_named(
    world: World, alice: Someone, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.change(
        lambda tx: login_keys.add_key(
            tx, alice.id, PEER.fingerprint, PEER.public_key, expires_at=tx.now
        )
    )
    gate = authenticator(world, "open")
    assert not gate.is_acceptable("carol", PEER.fingerprint), "nor is it registered again"
    with pytest.raises(Rejected, match="Your key has expired"):
        await gate.enter(PEER)
    offered = ("SHA256:other", PEER.fingerprint, "SHA256:last")
    gate.failed(FailedLogin("192.0.2.7", "SHA256:last", 3, "no key was accepted", offered, "al"))
    [entry] = await read_failures(world)
    assert re.fullmatch(r'the key of alice expired at 20\S+; 3 keys tried as "al"', entry.request)
    assert entry.agent_id == alice.id, "so that --agent finds it"
    assert entry.origin == Origin("192.0.2.7", PEER.fingerprint)
    shown = capsys.readouterr()
    assert "login refused: the key has expired" in shown.out + shown.err


async def test_key_of_a_disabled_account_is_named(world: World, alice: Someone) -> None:
    await world.change(
        lambda tx: login_keys.add_key(tx, alice.id, PEER.fingerprint, PEER.public_key)
    )
    await world.change(lambda tx: agents.update_agent(tx, alice.id, disabled=True))
    LoginAudit(world).record_failure(FailedLogin("192.0.2.7", PEER.fingerprint, 1, "no key"))
    [entry] = await read_failures(world)
    assert entry.request == 'the account of alice is disabled; 1 key tried as ""'
    assert entry.agent_id == alice.id


@pytest.mark.parametrize("has_tried", [False, True])
async def test_newcomer_who_leaves_is_recorded_once(world: World, has_tried: bool) -> None:
    """One who tried to register has a row of that."""
    gate = authenticator(world, "invite")
    newcomer = await gate.enter(PEER)
    assert isinstance(newcomer, UnregisteredUser)
    newcomer.has_tried = has_tried
    gate.left(PEER, newcomer, 1.0)
    expected = [] if has_tried else ['"carol" not registered: the key is unknown']
    assert [entry.request for entry in await read_failures(world)] == expected
    assert world.failed_logins.counts["ssh"] == len(expected)


async def test_name_that_a_client_sends_cannot_imitate_another_reason(world: World) -> None:
    forged = 'x"; the key of alice expired'
    LoginAudit(world).record_failure(FailedLogin("192.0.2.7", "", 1, "no key", (), forged))
    [entry] = await read_failures(world)
    assert entry.request == r'no key; 1 key tried as "x\"; the key of alice expired"'


async def test_unknown_key_under_a_known_name_is_refused_for_the_next_one(
    world: World, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    """ssh then offers the next key of its agent, which may be that of the name."""
    await world.change(lambda tx: login_keys.add_key(tx, alice.id, "SHA256:a", "ssh-x"))
    for mode, newcomers in (("open", True), ("invite", True), ("closed", False)):
        gate = authenticator(world, mode)  # type: ignore[arg-type]
        assert not gate.is_acceptable("alice", "SHA256:new")
        assert not gate.is_acceptable("ALICE", "SHA256:new")
        assert gate.is_acceptable("nobody", "SHA256:a"), "the key decides"
        for name in ("nobody", "bob", "qwen"):  # two have no key that could come later
            assert gate.is_acceptable(name, "SHA256:new") is newcomers


async def test_last_use_of_a_key_is_recorded_once_in_a_while(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.change(
        lambda tx: login_keys.add_key(tx, alice.id, PEER.fingerprint, PEER.public_key)
    )
    gate = authenticator(world, "closed")

    async def enter() -> list[int | None]:
        for _ in range(3):
            await gate.enter(PEER)
        await world.last_use.close()
        _, keys = await world.store.read(agents.read_agents)
        assert keys == world.agents.keys_of(alice.id), "the directory knows it, too"
        return [key.last_used_at for key in keys]

    [first] = await enter()
    assert first is not None
    assert await enter() == [first]
    later = first + LAST_USE_MINUTES * MINUTE_MS
    monkeypatch.setattr(last_use, "now_ms", lambda: later)
    assert await enter() == [later]
