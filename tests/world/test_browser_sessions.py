"""Links and sessions of browsers."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import (
    BROWSER_IDLE_SECONDS,
    BROWSER_SESSION_SECONDS,
    MAX_SIGN_IN_LINKS_PER_AGENT,
)
from sshwarma.common.units import DAY_MS, HOUR_MS
from sshwarma.verbs.web import name_browser
from sshwarma.web.console.socket_end import MAX_REASON_BYTES
from sshwarma.world import browser_sessions, login_keys, owners
from sshwarma.world.browser_sessions import SignInLink, SignInLinks
from sshwarma.world.errors import Forbidden
from sshwarma.world.events import TokenRevoked
from sshwarma.world.tokens import Token
from sshwarma.world.world import World
from support.people import Someone

KEY = "SHA256:" + "k" * 43


async def sign_in(world: World, who: Someone, expires_at: int | None = None) -> tuple[Token, str]:
    """A session of somebody who has that key."""

    def work(tx: object) -> tuple[Token, str]:
        login_keys.ensure_key(tx, who.id, KEY, "ssh-ed25519 AAAA", expires_at=expires_at)  # type: ignore[arg-type]
        return browser_sessions.sign_in(tx, SignInLink(who.id, KEY, 0), "192.0.2.1", "x")  # type: ignore[arg-type]

    return await world.change(work)


async def find(world: World, secret: str) -> Token | None:
    return await world.store.read(lambda conn: browser_sessions.find_session(conn, secret))


def test_link_works_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    links = SignInLinks()
    secret = links.make("a", KEY)
    found = links.take(secret)
    assert found is not None and (found.agent_id, found.fingerprint) == ("a", KEY)
    assert links.take(secret) is None
    assert links.take("swl_guessed") is None
    monkeypatch.setattr(browser_sessions, "SIGN_IN_LINK_SECONDS", 0)
    assert links.take(links.make("a", KEY)) is None


def test_oldest_link_of_an_agent_ends_if_there_are_too_many() -> None:
    links = SignInLinks()
    other = links.make("b", KEY)
    made = [links.make("a", KEY) for _ in range(MAX_SIGN_IN_LINKS_PER_AGENT + 1)]
    assert links.take(made[0]) is None
    assert all(links.take(secret) for secret in (*made[1:], other))


async def test_session_ends_when_it_is_not_used(
    world: World, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = await sign_in(world, bob)
    assert await find(world, secret) == token
    later = token.created_at + BROWSER_IDLE_SECONDS * 1000 + 1
    monkeypatch.setattr(browser_sessions, "now_ms", lambda: later)
    assert await find(world, secret) is None


async def test_session_ends_with_its_key_at_the_latest(world: World, bob: Someone) -> None:
    token, _ = await sign_in(world, bob)
    assert token.expires_at == token.created_at + BROWSER_SESSION_SECONDS * 1000
    await world.change(lambda tx: owners.remove_key(tx, bob.id, KEY))
    with pytest.raises(Forbidden, match="no longer valid"):
        await world.change(
            lambda tx: browser_sessions.sign_in(tx, SignInLink(bob.id, KEY, 0), "", "")
        )
    ends_at = token.created_at + HOUR_MS
    short, _ = await sign_in(world, bob, expires_at=ends_at)
    assert short.expires_at == ends_at


async def test_removal_and_a_new_end_of_the_key_end_its_sessions(
    world: World, bob: Someone
) -> None:
    revoked: list[str] = []
    world.bus.on_event(TokenRevoked, lambda event: revoked.append(event.token_id))
    first, secret = await sign_in(world, bob)
    await world.change(
        lambda tx: login_keys.ensure_key(
            tx, bob.id, KEY, "ssh-ed25519 AAAA", expires_at=tx.now + DAY_MS, sets_expiry=True
        )
    )
    assert await find(world, secret) is None
    second, secret = await sign_in(world, bob)
    await world.change(lambda tx: owners.remove_key(tx, bob.id, KEY))
    assert await find(world, secret) is None
    assert revoked == [first.id, second.id]


async def test_end_of_a_session_is_explained_as_far_as_it_is_known(
    world: World, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def explain(secret: str) -> str:
        return await world.store.read(lambda conn: browser_sessions.explain_end(conn, secret))

    for unknown in ("", "swb_guessed", "swt_no-cookie"):
        assert await explain(unknown) == "You are not signed in."
    token, secret = await sign_in(world, bob)
    ended, ended_secret = await sign_in(world, bob)
    await world.change(lambda tx: browser_sessions.end_session(tx, ended.id, bob.id))
    said = await explain(ended_secret)
    assert said.startswith("This browser was signed out: its session was ended, its key")
    assert len(said.encode()) <= MAX_REASON_BYTES
    later = token.created_at + BROWSER_IDLE_SECONDS * 1000 + 1
    monkeypatch.setattr(browser_sessions, "now_ms", lambda: later)
    assert await explain(secret) == "This browser was signed out: its session has expired."


AGENTS = {  # what browsers say they are, and their names
    "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150": "Firefox 150 on Linux",
    "Mozilla/5.0 (Windows NT 10.0) Chrome/156.0 Safari/537.36 Edg/156.0": "Edge 156 on Windows",
    "Mozilla/5.0 (Linux; Android 15) Chrome/156.0 Mobile Safari/537.36": "Chrome 156 on Android",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/19.0 Safari/605.1": (
        "Safari 19 on Mac OS X"
    ),
    "curl/8.5": "curl/8.5",
    "": "",
}


@pytest.mark.parametrize("said", AGENTS)
def test_browser_has_a_short_name(said: str) -> None:
    assert name_browser(said) == AGENTS[said]
