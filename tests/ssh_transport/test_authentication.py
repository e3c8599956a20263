"""Identity is the key that signed.

VULNERABILITY (soft-serve, critical): a client offers the victim's public key, is answered that it
would do, then signs with its own. A server that remembers the account of the first key is fooled.
THESE TESTS: offer and sign in every order, under one name and under two, back to back so that the
requests overlap; each login has the identity of the key that signed. The honest victim still can.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable

import asyncssh
import pytest

from sshwarma.ssh.transport.server import SshServer
from support.scripted_ssh import Scripted, scripted
from support.ssh_server import Connect, Serve, Ssh, World, within
from support.waiting import until

Key = asyncssh.SSHKey
Script = Callable[[Scripted, Key, Key], None]


def _offer_victim_then_sign(c: Scripted, victim: Key, own: Key) -> None:
    c.ask("victim", victim)
    c.sign("victim", own)


def _sign_then_offer_victim(c: Scripted, victim: Key, own: Key) -> None:
    c.sign("victim", own)
    c.ask("victim", victim)


def _offer_victim_rename_sign(c: Scripted, victim: Key, own: Key) -> None:
    c.ask("victim", victim)
    c.sign("mallory", own)


def _sign_rename_offer_victim(c: Scripted, victim: Key, own: Key) -> None:
    c.sign("mallory", own)
    c.ask("victim", victim)


def _offer_both_rename_and_back(c: Scripted, victim: Key, own: Key) -> None:
    c.ask("victim", own)
    c.ask("mallory", victim)
    c.ask("victim", victim)
    c.sign("victim", own)


def _forge_then_sign(c: Scripted, victim: Key, own: Key) -> None:
    c.sign("victim", victim, signer=own)
    c.sign("victim", own)


def _sign_then_forge(c: Scripted, victim: Key, own: Key) -> None:
    c.sign("victim", own)
    c.sign("victim", victim, signer=own)


ENDING_IN_OWN_SIGNATURE = [
    _offer_victim_then_sign,
    _offer_victim_rename_sign,
    _offer_both_rename_and_back,
    _forge_then_sign,
]
FOLLOWED_BY_SOMETHING_ELSE = [_sign_then_offer_victim, _sign_rename_offer_victim, _sign_then_forge]


@pytest.mark.parametrize("order", ENDING_IN_OWN_SIGNATURE + FOLLOWED_BY_SOMETHING_ELSE)
async def test_identity_is_the_key_that_signed(
    order: Script, server: SshServer, world: World, connect: Connect
) -> None:
    victim = asyncssh.generate_private_key("ssh-ed25519")
    own = asyncssh.generate_private_key("ssh-ed25519")
    client = await scripted(server, lambda c: order(c, victim, own))
    await until(lambda: world.entered or client.answered)
    if order in ENDING_IN_OWN_SIGNATURE:
        await until(lambda: world.entered)
    assert [peer.fingerprint for peer in world.entered] in ([], [own.get_fingerprint()])
    if world.entered:
        await until(lambda: client.let_in)
    client.abort()
    await within(client.wait_closed())
    await until(lambda: server.connections == 0)

    world.entered.clear()
    await connect(server, username="victim", client_keys=[victim])
    assert world.entered[0].fingerprint == victim.get_fingerprint()


async def test_key_query_without_a_signature_does_not_log_in(
    server: SshServer, world: World, key: Key
) -> None:
    client = await scripted(server, lambda c: c.ask("alice", key))
    await until(lambda: client.answered)
    assert (client.let_in, world.entered) == (False, [])
    client.abort()


async def test_key_that_signed_last_is_the_identity(server: SshServer, world: World) -> None:
    victim = asyncssh.generate_private_key("ssh-ed25519")
    own = asyncssh.generate_private_key("ssh-ed25519")
    client = await scripted(server, lambda c: _offer_victim_rename_sign(c, victim, own))
    await until(lambda: world.entered)
    (peer,) = world.entered
    assert (peer.username, peer.fingerprint) == ("mallory", own.get_fingerprint())
    client.abort()


async def test_signature_of_another_key_is_refused(server: SshServer, world: World) -> None:
    victim = asyncssh.generate_private_key("ssh-ed25519")
    own = asyncssh.generate_private_key("ssh-ed25519")

    def forge(c: Scripted) -> None:
        c.sign("victim", victim, signer=own)
        c.claim("victim", b"none")
        c.claim("victim", b"password", b"\0" + b"\0\0\0\0")
        c.claim("victim", b"keyboard-interactive", b"\0\0\0\0" * 2)

    client = await scripted(server, forge)
    await until(lambda: client.refusals)
    client.ask("victim", own)
    await until(lambda: client.answered > client.refusals)
    assert not world.entered
    assert not client.let_in
    client.abort()
    await until(lambda: server.counters.auth_failed == 1)


async def test_only_publickey_authentication_is_offered(server: SshServer) -> None:
    methods = await within(
        asyncssh.get_server_auth_methods("127.0.0.1", server.port, username="alice", config=None)
    )
    assert methods == ["publickey"]


@pytest.mark.parametrize("username", ["", "a" * 1023, "../x", "@all", "ａｄｍｉｎ", "bob "])
async def test_username_is_normalized_and_truncated(
    username: str, server: SshServer, world: World, key: Key
) -> None:
    client = await scripted(server, lambda c: c.sign(username, key))
    await until(lambda: world.entered)
    # asyncssh folds names by RFC 4013 (full-width letters become plain ones).
    assert world.entered[0].username == unicodedata.normalize("NFKC", username)[:128]
    client.abort()


async def test_refused_keys_per_connection_are_limited(serve: Serve, world: World) -> None:
    world.known = set()
    server = await serve(max_refused_keys=3)
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(20)]
    asked: list[str] = []
    remember = world.is_acceptable

    def is_acceptable(username: str, fingerprint: str) -> bool:
        asked.append(fingerprint)
        return remember(username, fingerprint)

    world.is_acceptable = is_acceptable

    with pytest.raises(asyncssh.DisconnectError, match="too many keys tried"):
        await within(
            asyncssh.connect(
                *("127.0.0.1", server.port),
                known_hosts=None,
                config=None,
                client_keys=keys,
                username="alice",
            )
        )
    assert len(asked) == 3
    await until(lambda: server.connections == 0)
    assert server.counters.auth_failed == 1


async def test_key_queries_per_connection_are_limited(serve: Serve, key: Key) -> None:
    server = await serve(max_auth_requests=20)
    client = await scripted(server, lambda c: [c.ask("alice", key) for _ in range(500)])
    await within(client.wait_closed())
    await until(lambda: server.connections == 0)


async def test_sha1_signatures_are_refused(server: SshServer, world: World) -> None:
    old = asyncssh.generate_private_key("ssh-rsa", key_size=2048)

    def script(c: Scripted) -> None:
        c.sign("alice", old)  # signs with the key's first algorithm name: ssh-rsa, SHA-1

    client = await scripted(server, script)
    await until(lambda: client.refusals)
    assert not world.entered
    client.abort()


@pytest.mark.parametrize("bits", [1024, 2048])
async def test_weak_rsa_keys_are_refused(bits: int, server: SshServer, connect: Connect) -> None:
    weak = asyncssh.generate_private_key("ssh-rsa", key_size=bits)
    if bits < 2048:
        with pytest.raises(asyncssh.PermissionDenied):
            await connect(server, client_keys=[weak])
    else:
        await connect(server, client_keys=[weak])


async def test_refusal_of_the_authenticator_is_shown_to_the_client(
    server: SshServer, world: World, ssh: Ssh
) -> None:
    world.refusal = "registration is closed; ask for an invite"
    client = await ssh(server, "exit 0")
    _, err = await within(client.communicate())
    assert b"registration is closed; ask for an invite" in err
    await until(lambda: server.connections == 0)
    assert server.counters.refused["not_admitted"] == 1
    assert server.clients == []


async def test_channel_waits_for_the_authenticator(
    server: SshServer, world: World, connect: Connect
) -> None:
    world.admit = asyncio.Event()
    client = await connect(server)
    opening = asyncio.ensure_future(client.run("exit 0"))
    await asyncio.wait([opening], timeout=0.05)
    assert not world.programs
    assert not opening.done()
    world.admit.set()
    assert (await within(opening)).exit_status == 0
    assert world.entered


async def test_authenticator_timeout_ends_the_connection(
    serve: Serve, world: World, connect: Connect
) -> None:
    world.admit = asyncio.Event()
    server = await serve(enter_seconds=0.05)
    client = await connect(server)
    await within(client.wait_closed())
    await until(lambda: server.connections == 0)
    assert server.counters.refused["admit_timeout"] == 1


async def test_connections_per_key_are_limited(serve: Serve, connect: Connect) -> None:
    server = await serve(max_connections_per_key=2)
    first, second = await connect(server), await connect(server)
    third = await connect(server)
    await within(third.wait_closed())
    await until(lambda: len(server.clients) == 2)
    second.abort()
    await until(lambda: server.connections == 1)
    assert (await within((await connect(server)).run("exit 5"))).exit_status == 5
    assert (await within(first.run("exit 6"))).exit_status == 6
