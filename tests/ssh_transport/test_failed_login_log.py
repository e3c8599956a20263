"""What the log says of a login over ssh that failed."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import asyncssh
import pytest
from structlog.testing import capture_logs

from sshwarma.ssh.transport.server import SshServer
from support.scripted_ssh import scripted
from support.ssh_server import Connect, World
from support.waiting import until


def find_failure(logs: list[MutableMapping[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in logs if one["event"] == "ssh.auth_failed"]
    return dict(found)


async def test_unknown_key_is_named_with_its_fingerprint(
    server: SshServer, world: World, connect: Connect, key: asyncssh.SSHKey
) -> None:
    world.known = set()
    with capture_logs() as logs:
        with pytest.raises(asyncssh.PermissionDenied):
            await connect(server)
        await until(lambda: server.counters.auth_failed == 1)
    assert find_failure(logs) == {
        "event": "ssh.auth_failed",
        "log_level": "warning",
        "kind": "the key is unknown or may not log in",
        "address": "127.0.0.1",
        "name": "alice",
        "tries": 1,
        "fingerprint": key.get_fingerprint(),
        "not_logged_before": 0,
    }


async def test_signature_of_another_key_is_called_not_valid(
    server: SshServer, key: asyncssh.SSHKey
) -> None:
    own = asyncssh.generate_private_key("ssh-ed25519")
    with capture_logs() as logs:
        client = await scripted(server, lambda c: c.sign("alice", key, signer=own))
        await until(lambda: client.refusals)
        client.abort()
        await until(lambda: server.counters.auth_failed == 1)
    found = find_failure(logs)
    assert found["kind"] == "the signature by the key is not valid"
    assert found["fingerprint"] == key.get_fingerprint()
    assert "error" not in found


async def test_fault_of_the_connection_stands_beside_the_kind(
    server: SshServer, world: World
) -> None:
    """As of a client that offers more keys than a connection may."""
    world.known = set()
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(30)]
    with capture_logs() as logs:
        client = await scripted(server, lambda c: [c.ask("alice", one) for one in keys])
        await until(lambda: server.counters.auth_failed == 1)
        client.abort()
    found = find_failure(logs)
    assert found["kind"] == "the key is unknown or may not log in"
    assert "too many keys tried" in found["error"]
