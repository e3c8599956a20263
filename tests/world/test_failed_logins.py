"""Failed logins at all doors, and the limits of their rows."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import (
    MAX_FAILURES_OF_STRANGERS,
    MAX_FAILURES_PER_ADDRESS,
    MAX_FAILURES_PER_TOKEN_OWNER,
    MAX_FAILURES_WITH_OFFERED_KEYS,
)
from sshwarma.world import agents, tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.audit import FAILED_LOGIN, AuditEntry, AuditFilter, Origin, read_audit
from sshwarma.world.bearer import authenticate_bearer
from sshwarma.world.world import World
from support.people import Someone, alice, bob, qwen, world
from support.waiting import until

__all__ = ["alice", "bob", "qwen", "world"]

FROM_ADDRESS = "more failed logins from this address are not recorded"
OF_OFFER = "more failed logins for this agent and address are not recorded"
OF_OFFERS = "more failed logins with keys that agents have are not recorded"
OF_TOKENS = "more failed logins with tokens of this agent are not recorded"
OF_STRANGERS = "more failed logins with unknown keys and tokens are not recorded"


async def read_failures(world: World) -> list[AuditEntry]:
    await world.failed_logins.close()
    wanted = AuditFilter(verbs=(FAILED_LOGIN,))
    return await world.store.read(lambda conn: read_audit(conn, wanted, 10_000))


async def test_limit_of_an_address_leaves_one_row_that_says_so(world: World) -> None:
    recorded = [world.failed_logins.record("ssh", "no", Origin("192.0.2.7")) for _ in range(30)]
    assert recorded == [True] * MAX_FAILURES_PER_ADDRESS + [False] * 20
    assert world.failed_logins.record("api", "no", Origin("192.0.2.8"))
    found = [(entry.origin.address, entry.request) for entry in await read_failures(world)]
    assert found == [
        *[("192.0.2.7", "no")] * MAX_FAILURES_PER_ADDRESS,
        ("192.0.2.7", FROM_ADDRESS),
        ("192.0.2.8", "no"),
    ]


async def test_flood_of_strangers_is_bounded_and_hides_no_known_key(
    world: World, alice: Someone
) -> None:
    """Each address of the flood is over its own limit, too."""
    for number in range(200):
        for _ in range(MAX_FAILURES_PER_ADDRESS + 5):
            world.failed_logins.record("mcp", "no", Origin(f"192.0.2.{number}"))
    world.failed_logins.record("ssh", "expired", Origin("192.0.2.1"), alice.id)
    found = await read_failures(world)
    assert len(found) == MAX_FAILURES_OF_STRANGERS + 2
    assert [entry.request for entry in found[-2:]] == [OF_STRANGERS, "expired"]
    assert (found[-1].agent_id, found[-1].door) == (alice.id, "ssh")


async def test_stranger_who_offers_a_known_key_hides_nobody_else(
    world: World, alice: Someone
) -> None:
    """Public keys are public, and a key that is refused was not proven."""
    for _ in range(100):
        world.failed_logins.record("ssh", "expired", Origin("192.0.2.1"), alice.id)
    assert world.failed_logins.record("ssh", "expired", Origin("192.0.2.2"), alice.id)
    found = await read_failures(world)
    assert len(found) == MAX_FAILURES_PER_ADDRESS + 2
    assert [entry.request for entry in found[-2:]] == [OF_OFFER, "expired"]


async def test_known_keys_cannot_fill_the_disk_either(world: World, alice: Someone) -> None:
    for number in range(MAX_FAILURES_WITH_OFFERED_KEYS + 50):
        world.failed_logins.record("ssh", "expired", Origin(f"2001:db8::{number:x}"), alice.id)
    found = await read_failures(world)
    assert len(found) == MAX_FAILURES_WITH_OFFERED_KEYS + 1
    assert (found[-1].request, found[-1].agent_id) == (OF_OFFERS, alice.id)


async def test_refused_tokens_have_the_limit_of_their_owner(world: World, alice: Someone) -> None:
    for number in range(2 * MAX_FAILURES_PER_TOKEN_OWNER):
        world.failed_logins.record("api", "revoked", Origin(f"192.0.2.{number}"), alice.id)
    found = await read_failures(world)
    assert len(found) == MAX_FAILURES_PER_TOKEN_OWNER + 1
    assert (found[-1].request, found[-1].agent_id) == (OF_TOKENS, alice.id)


@pytest.mark.parametrize("end", ["revoked", "expired", "disabled"])
async def test_refused_token_is_recorded_with_its_agent(
    world: World, alice: Someone, end: str
) -> None:
    token, secret = await world.change(
        lambda tx: tokens.issue_token(
            tx, alice.id, "t", 1e-9 if end == "expired" else None, None, TokenScope.ACT
        )
    )
    if end == "expired":
        await until(lambda: (token.seconds_left or 0.0) <= 0)
    if end == "revoked":
        await world.change(lambda tx: tokens.revoke_token(tx, token.id))
    if end == "disabled":
        await world.change(lambda tx: agents.update_agent(tx, alice.id, disabled=True))
    assert await authenticate_bearer(world, f"Bearer {secret}", "api", "192.0.2.9") is None
    [entry] = await read_failures(world)
    expected = {
        "revoked": "the token of alice was revoked",
        "expired": "the token of alice has expired",
        "disabled": "the account of alice is disabled",
    }
    assert entry.request == expected[end]
    assert entry.agent_id == alice.id
    assert entry.origin == Origin("192.0.2.9", f"token {token.id[:18]}")


async def test_unknown_token_is_recorded_without_its_text(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for secret in ("swt_secretsecret", "sk-secretsecret"):
        assert await authenticate_bearer(world, f"Bearer {secret}", "mcp", "192.0.2.9") is None
    assert await authenticate_bearer(world, "", "mcp", "192.0.2.9") is None, "no token, no login"
    found = await read_failures(world)
    assert [(entry.door, entry.request) for entry in found] == [("mcp", "the token is unknown")] * 2
    shown = capsys.readouterr()
    assert "token refused" in shown.out + shown.err
    assert "secretsecret" not in repr(found) + shown.out + shown.err
    assert world.failed_logins.counts["mcp"] == 2
