"""Signing in: failures on the way, attempts by strangers, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sshwarma.mcp.client import oauth_sign_in
from sshwarma.mcp.client.credentials import CredentialStore, StoredCredentials
from sshwarma.mcp.client.pending_sign_in import ClientMetadata
from sshwarma.settings import HttpSettings, McpSettings
from sshwarma.verbs.mcp_login import SignInInstructions
from sshwarma.web.oauth_callback import make_client_metadata
from sshwarma.world.errors import Unavailable
from support.driver.guarded import Guarded, guarding, visit
from support.hub import Hubbed
from support.people import do, refused

SECONDS = 30


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with guarding() as server:
        yield server


async def begun(hubbed: Hubbed) -> SignInInstructions:
    page = await do(hubbed.owner, "/mcp login guarded")
    assert isinstance(page, SignInInstructions)
    return page


async def visited(page: SignInInstructions) -> str:
    return await asyncio.to_thread(visit, page.address)


async def signed_in(hubbed: Hubbed, guarded: Guarded) -> None:
    """A hub with a server that somebody is signed in to, whose tools are equipped."""
    await hubbed.add("guarded", url=guarded.url, allow_private=True, wait=False)
    condition = await hubbed.hub.wait_until_settled("guarded", SECONDS)
    assert condition.state == "needs-sign-in"
    came_to = await visited(await begun(hubbed))
    await do(hubbed.owner, f"/mcp login guarded {came_to}")
    await hubbed.until(lambda: hubbed.state("guarded") == "up", SECONDS)
    await hubbed.equip("guarded:*")
    assert (await hubbed.call("guarded:whoami")).text == "alice may read"


async def test_concurrent_calls_refresh_an_expired_token_once(
    hubbed: Hubbed, guarded: Guarded
) -> None:
    await signed_in(hubbed, guarded)
    before = guarded.seen
    guarded.control("expire")
    outcomes = await asyncio.gather(*(hubbed.call("guarded:whoami") for _ in range(10)))
    assert {outcome.text for outcome in outcomes} == {"alice may read"}
    assert guarded.seen[len(before) :] == ["refresh"]
    assert hubbed.state("guarded") == "up"


async def test_token_about_to_expire_is_refreshed_first(
    hubbed: Hubbed,
) -> None:
    with guarding(seconds=20) as guarded:
        await signed_in(hubbed, guarded)
        before = guarded.seen
        assert (await hubbed.call("guarded:whoami")).text == "alice may read"
        assert guarded.seen[len(before) :] == ["refresh"]


async def test_cancelled_call_does_not_cancel_the_token_refresh(
    hubbed: Hubbed, guarded: Guarded
) -> None:
    await signed_in(hubbed, guarded)
    guarded.control("expire")
    guarded.control("slow")
    before = guarded.seen
    call = asyncio.create_task(hubbed.call("guarded:whoami"))
    await hubbed.until(lambda: guarded.control("seen")["waiting"] == 1, SECONDS)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await hubbed.call("guarded:whoami")).text == "alice may read"
    assert guarded.seen[len(before) :] == ["refresh"]
    guarded.control("slow")


async def test_slow_call_does_not_block_another(hubbed: Hubbed, guarded: Guarded) -> None:
    await signed_in(hubbed, guarded)
    slow = asyncio.create_task(hubbed.call("guarded:ponder"))
    server = await hubbed.server("guarded")
    await hubbed.until(lambda: hubbed.hub.status_of(server).in_flight == 1, SECONDS)
    while not slow.done():  # the slow one may not be there yet
        assert (await hubbed.call("guarded:whoami")).text == "alice may read"
    assert (await slow).text == "Somebody asked."


async def test_authorization_server_outage_keeps_the_sign_in(
    hubbed: Hubbed, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await signed_in(hubbed, guarded)
    monkeypatch.setattr("sshwarma.mcp.client.sdk.bearer.RENEW_RETRY_SECONDS", 0.0)
    guarded.control("trouble")
    guarded.control("expire")
    outcome = await hubbed.call("guarded:whoami")
    assert "authorization server failed: it responded with HTTP 503" in outcome.text
    assert hubbed.state("guarded") == "up"
    guarded.control("trouble")
    assert (await hubbed.call("guarded:whoami")).text == "alice may read"


async def test_abandoned_sign_in_cannot_be_completed(hubbed: Hubbed, guarded: Guarded) -> None:
    await hubbed.add("guarded", url=guarded.url, allow_private=True, wait=False)
    await hubbed.hub.wait_until_settled("guarded", SECONDS)
    first = await visited(await begun(hubbed))
    second = await visited(await begun(hubbed))
    why = await refused(hubbed.owner, f"/mcp login guarded {first}")
    assert "That URL does not belong to this sign-in." in str(why)
    await do(hubbed.owner, "/mcp disable guarded")
    why = await refused(hubbed.owner, f"/mcp login guarded {second}")
    assert "No sign-in to guarded is in progress" in str(why)
    await do(hubbed.owner, "/mcp enable guarded")
    third = await visited(await begun(hubbed))
    await do(hubbed.owner, "/mcp remove guarded")
    await do(hubbed.owner, f"/mcp add guarded {guarded.url} --allow-private")
    why = await refused(hubbed.owner, f"/mcp login guarded {third}")
    assert "No sign-in to guarded is in progress" in str(why)


async def test_denied_or_unanswered_sign_in_ends(
    hubbed: Hubbed, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hubbed.add("guarded", url=guarded.url, allow_private=True, wait=False)
    await hubbed.hub.wait_until_settled("guarded", SECONDS)
    page = await begun(hubbed)
    state = page.address.partition("state=")[2].partition("&")[0]
    no = f"{page.redirect}?error=access_denied&state={state}"
    why = await refused(hubbed.owner, f"/mcp login guarded {no}")
    assert str(why) == "You were not signed in: access_denied."
    monkeypatch.setattr(oauth_sign_in, "SIGN_IN_TIMEOUT_SECONDS", 5.0)
    page = await begun(hubbed)
    server = await hubbed.server("guarded")
    await hubbed.until(lambda: server.id not in hubbed.hub.oauth_sign_ins._pending, SECONDS)
    why = await refused(hubbed.owner, f"/mcp login guarded {await visited(page)}")
    assert "No sign-in to guarded is in progress" in str(why)


async def test_response_of_another_issuer_is_refused(hubbed: Hubbed, guarded: Guarded) -> None:
    await hubbed.add("guarded", url=guarded.url, allow_private=True, wait=False)
    await hubbed.hub.wait_until_settled("guarded", SECONDS)
    came_to = await visited(await begun(hubbed))
    before = guarded.seen
    why = await refused(hubbed.owner, f"/mcp login guarded {came_to}&iss=http://evil.example")
    assert "iss mismatch" in str(why)
    assert guarded.seen == before, "the code was sent"


async def test_code_is_sent_only_to_the_configured_issuer(
    hubbed: Hubbed, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARDED_SECRET", "s3cret")
    await hubbed.add(
        "guarded", url=guarded.url, allow_private=True, wait=False, oauth_client_id="us",
        oauth_client_secret="${GUARDED_SECRET}", oauth_issuer="https://elsewhere.example",
    )  # fmt: skip
    await hubbed.hub.wait_until_settled("guarded", SECONDS)
    why = await refused(hubbed.owner, "/mcp login guarded")
    assert ", not https://elsewhere.example" in str(why)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": ("true",)}, "is a local program"),
        ({"url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer ${X}"}}, "a key"),
    ],
)
async def test_login_is_refused_where_oauth_does_not_apply(
    hubbed: Hubbed, entry: dict[str, Any], why: str
) -> None:
    await hubbed.add("other", wait=False, **entry)
    assert why in str(await refused(hubbed.owner, "/mcp login other"))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"oauth_client_id": "a", "oauth_client_secret": "abc"}, "environment of the server"),
        ({"oauth_client_id": "a", "oauth_client_secret": "${A}"}, "needs oauth_client_id and"),
        ({"oauth_machine": True}, "oauth_machine needs oauth_client_secret"),
        ({"oauth_scope": "a", "headers": {"authorization": "${A}"}}, "no Authorization header"),
        ({"oauth_issuer": "ftp://a"}, "must be a URL, such as"),
    ],
)
def test_invalid_oauth_settings_are_refused(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        McpSettings.model_validate({"name": "a", "url": "https://a.example/mcp", **entry})


# What is kept.


async def test_stored_credentials_are_private_and_bound_to_one_url(tmp_path: Path) -> None:
    url, path = "https://mcp.example/mcp", tmp_path / "signins" / "a.json"
    kept = StoredCredentials(url, tokens={"access_token": "t0ken"}, expires_at=1.0)
    await CredentialStore(path, url).store(kept)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "t0ken" not in repr(kept) + repr(CredentialStore(path, url))
    again = CredentialStore(path, url)
    assert (await again.load()).tokens == {"access_token": "t0ken"}
    assert again.is_expired()
    assert (await CredentialStore(path, "https://evil.example/mcp").load()).tokens is None
    path.chmod(0o644)
    with pytest.raises(Unavailable, match="Other users can access"):
        await CredentialStore(path, url).load()
    path.chmod(0o600)
    path.write_text("{")
    with pytest.raises(Unavailable, match="is damaged"):
        await CredentialStore(path, url).load()
    await again.delete()
    assert not path.exists()
    assert not again.token
    assert list(path.parent.iterdir()) == []


async def test_registration_for_another_redirect_uri_is_not_reused(
    hubbed: Hubbed, guarded: Guarded
) -> None:
    await hubbed.add("guarded", url=guarded.url, allow_private=True, wait=False)
    await hubbed.hub.wait_until_settled("guarded", SECONDS)
    clients = guarded.control("seen")["clients"]
    await begun(hubbed)
    await begun(hubbed)
    assert guarded.control("seen")["clients"] == clients + 1
    hubbed.hub.oauth_sign_ins.client_metadata = replace(
        ClientMetadata(), redirect="http://127.0.0.1:9/oauth/callback"
    )
    assert (await begun(hubbed)).redirect == "http://127.0.0.1:9/oauth/callback"
    assert guarded.control("seen")["clients"] == clients + 2


@pytest.mark.parametrize(
    ("settings", "port", "redirect", "document"),
    [
        ({}, 2280, "http://127.0.0.1:2280/oauth/callback", ""),
        ({"listen": "0.0.0.0:99"}, 99, "http://127.0.0.1:99/oauth/callback", ""),
        ({"listen": "[::1]:99"}, 99, "http://[::1]:99/oauth/callback", ""),
        ({"listen": "off"}, None, "http://127.0.0.1:2280/oauth/callback", ""),
        (
            {"public_url": "https://world.example.org/"},
            2280,
            "https://world.example.org/oauth/callback",
            "https://world.example.org/oauth/client.json",
        ),
        (
            {"public_url": "http://world.lan"},
            2280,
            "http://world.lan/oauth/callback",
            "",
        ),
    ],
)
def test_client_metadata_has_the_redirect_uri(
    settings: dict[str, str], port: int | None, redirect: str, document: str
) -> None:
    assert make_client_metadata(HttpSettings(**settings), port) == ClientMetadata(
        redirect, document
    )
