"""Scopes of tokens: reading changes nothing, talking builds nothing.

Tokens create no tokens.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sshwarma.common.limits import MAX_TOKENS_PER_AGENT
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.registry import Verb, every_verb
from sshwarma.world import tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.errors import Conflict, Forbidden, Invalid, WorldError
from sshwarma.world.tokens import Token
from sshwarma.world.world import World
from support.people import Someone, do, everything

LOOKING = [verb for verb in every_verb() if verb.scope is TokenScope.READ]
CHANGES = [
    ("/say hello", TokenScope.ACT),
    ("hello", TokenScope.ACT),
    ("/tell bob hello", TokenScope.ACT),
    ("/note hello", TokenScope.ACT),
    ("/join home", TokenScope.ACT),
    ("/run sshwarma:look", TokenScope.ACT),
    ("/set plain on", TokenScope.ACT),
    ("/alias zz = /look", TokenScope.ACT),
    ("/create den", TokenScope.BUILD),
    ("/vibe calm", TokenScope.BUILD),
    ("/put note = x", TokenScope.BUILD),
    ("/equip me sshwarma:look", TokenScope.ACT),
    ("/load global me", TokenScope.ACT),
    ("/equip room sshwarma:put", TokenScope.BUILD),
    ("/skill new tidy = Keep it tidy.", TokenScope.BUILD),
    ("/namespace new git", TokenScope.BUILD),
    ("/tool disable sshwarma:look", TokenScope.BUILD),
    ("/context window 3", TokenScope.BUILD),
    ("/state add dry", TokenScope.BUILD),
    ("/portal north home", TokenScope.BUILD),
    ("/nav", TokenScope.READ),
    ("/nav off", TokenScope.BUILD),
    ("/room", TokenScope.READ),
    ("/room builder bob", TokenScope.BUILD),
    ("/mute bob", TokenScope.BUILD),
    ("/gc orphans", TokenScope.BUILD),
]


@pytest.mark.parametrize("verb", LOOKING, ids=lambda verb: verb.name)
@pytest.mark.process
async def test_read_scope_changes_nothing(
    verb: Verb, world: World, alice: Someone, bob: Someone
) -> None:
    """The owner may do everything, so that only the scope is in the way."""
    before = await everything(world)
    for example in verb.examples:
        try:
            await run_line(replace(alice.caller, scope=TokenScope.READ), example)
        except WorldError as refused:
            assert refused.message
    assert await everything(world) == before


@pytest.mark.parametrize(("line", "needed"), CHANGES)
async def test_insufficient_scope_is_refused_and_changes_nothing(
    line: str, needed: TokenScope, world: World, alice: Someone, bob: Someone
) -> None:
    before = await everything(world)
    for scope in TokenScope:
        if scope.allows(needed):
            continue
        with pytest.raises(Forbidden, match=rf"needs the scope \w+; this token has {scope}\."):
            await run_line(replace(alice.caller, scope=scope), line)
    assert await everything(world) == before
    if "run" not in line:
        await run_line(replace(alice.caller, scope=needed), line)


async def test_new_token_has_the_requested_scope_and_expiry(world: World, bob: Someone) -> None:
    made = await do(bob, "/token new dashboard --scope read --days 2")
    known = await world.store.read(lambda conn: tokens.find_token(conn, made.token))
    assert isinstance(known, Token)
    assert (known.agent_id, known.label, known.scope) == (bob.id, "dashboard", TokenScope.READ)
    assert known.expires_at is not None
    assert known.expires_at - known.created_at == 2 * 86_400_000
    listed = await do(bob, "/token")
    assert [(one.id, one.scope) for one in listed.tokens] == [(known.id, "read")]
    await do(bob, f"/token revoke {known.id}")
    revoked = await world.store.read(lambda conn: tokens.find_token(conn, made.token))
    assert revoked is not None and not revoked.is_live
    assert (await do(bob, "/token list")).tokens == ()


async def test_default_token_scope_is_act(bob: Someone) -> None:
    assert (await do(bob, "/token new laptop")).scope == "act"


async def test_token_of_another_agent_cannot_be_revoked(alice: Someone, bob: Someone) -> None:
    made = await do(bob, "/token new laptop")
    with pytest.raises(WorldError, match="Unknown token"):
        await do(alice, f"/token revoke {made.id}")
    assert len((await do(bob, "/token")).tokens) == 1


@pytest.mark.parametrize("door", ["api", "mcp", "model"])
@pytest.mark.parametrize("line", ["/token", "/token new another"])
async def test_token_cannot_create_tokens(bob: Someone, door: str, line: str) -> None:
    bob.connection.door = door  # type: ignore[assignment]
    with pytest.raises(Forbidden, match="your ssh key"):
        await do(bob, line)


async def test_token_arguments_and_count_are_limited(world: World, bob: Someone) -> None:
    for line in (
        "/token new",
        "/token revoke",
        "/token new x --days 0",
        "/token new x --days 3651",
    ):
        with pytest.raises(Invalid):
            await do(bob, line)
    for number in range(MAX_TOKENS_PER_AGENT):
        await do(bob, f"/token new t{number}")
    with pytest.raises(Conflict, match="at most 100 tokens"):
        await do(bob, "/token new one-more")
