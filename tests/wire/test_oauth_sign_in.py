"""Signing in to an MCP server by an owner's browser: by pasting, by our port."""

from __future__ import annotations

import json
import re
import stat
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Server
from support.driver.covers import covers
from support.driver.guarded import Guarded, guarding, load, visit
from support.driver.person import Person

SECONDS = 40


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with guarding() as server:
        yield server


def state_of(server: Server, name: str) -> str:
    return str(server.owner.json(f"mcp show {name}")["state"])


def until(server: Server, name: str, state: str) -> None:
    """Wait until a server is in a state."""
    before = time.monotonic()
    while (found := state_of(server, name)) != state:
        assert time.monotonic() - before < SECONDS, f"{name} is {found}, and not {state}"
        time.sleep(0.1)


def add(server: Server, guarded: Guarded) -> None:
    added = server.owner.run(f"mcp add guarded {guarded.url} --allow-private")
    assert added.out.strip() == (
        "Added guarded, but it requires a sign-in. /mcp login guarded starts it."
    )


def kept(server: Server) -> Path:
    return server.data_dir / "signins" / "guarded.json"


def sign_in_by_pasting(owner: Person, guarded: Guarded) -> str:
    """Sign in, with a wrong address first; return the address that was pasted."""
    screen = owner.sit(100, 40)
    screen.enter("/mcp login guarded")
    screen.wait_for("Sign in to guarded in your browser:")
    screen.wait_for("/mcp login guarded ADDRESS")
    # A command over ssh prints the same on one line, and begins another sign-in.
    begun = owner.json("mcp login guarded")
    assert begun["host"] == guarded.url.split("/")[2]
    assert begun["redirect"] == "http://127.0.0.1:2280/oauth/callback"
    came_to = visit(begun["address"])
    assert came_to.startswith("http://127.0.0.1:2280/oauth/callback?code=")
    wrong = owner.run(f"mcp login guarded '{came_to}x'")
    assert "That URL does not belong to this sign-in." in wrong.err
    screen.enter(f"/mcp login guarded {came_to}")
    screen.wait_for("You are signed in. guarded is up with 2 tools", SECONDS)
    screen.enter("/equip room guarded:*")
    screen.wait_for("guarded:whoami")
    screen.enter("/run guarded:whoami")
    screen.wait_for("alice may read")
    again = owner.run(f"mcp login guarded '{came_to}'")
    assert "No sign-in to guarded is in progress." in again.err
    return came_to


def check_that_secrets_are_kept(server: Server, owner: Person, came_to: str) -> dict[str, str]:
    """Tokens are in one file, its owner's alone, and nowhere else; nor is the code."""
    tokens: dict[str, str] = json.loads(kept(server).read_text())["tokens"]
    assert stat.S_IMODE(kept(server).stat().st_mode) == 0o600
    assert stat.S_IMODE(kept(server).parent.stat().st_mode) == 0o700
    code = re.search(r"code=([^&]+)", came_to)
    assert code is not None
    said = owner.does("mcp show guarded") + json.dumps(owner.json("mcp show guarded"))
    assert "signed in through 127.0.0.1" in said
    secrets = [tokens["access_token"], tokens["refresh_token"], code[1]]
    everything = server.read_everything_stored()
    for secret in secrets:
        for place in (said, server.log(), everything):
            assert secret not in place
    return tokens


def call_verb(server: Server, token: str, verb: str, **arguments: str) -> dict[str, Any]:
    """Call a verb over HTTP; return its result."""
    request = urllib.request.Request(
        f"http://{server.http}/api/v1/verbs/{verb}",
        json.dumps(arguments).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@covers("mcp login")
def test_sign_in_over_http_leaves_its_code_nowhere(
    serve: Callable[..., Server],
) -> None:
    """The audit has the arguments of a call by name, but for secret ones."""
    server = serve()
    with guarding() as guarded:  # the other tests count what is asked of theirs
        add(server, guarded)
        owner = server.owner
        token = owner.json("token new web --scope build")["token"]
        begun = call_verb(server, token, "mcp_login", name="guarded")
        came_to = visit(begun["result"]["address"])
        call_verb(server, token, "mcp_login", name="guarded", address=came_to)
        until(server, "guarded", "up")
        rows = server.operate("audit_list", verb="mcp login")
        assert [(row["door"], row["request"]) for row in rows] == [("api", "/mcp login guarded")]
        check_that_secrets_are_kept(server, owner, came_to)


@covers("mcp login", "mcp logout", "run")
def test_owner_signs_in_by_pasting_and_stays_signed_in(
    serve: Callable[..., Server], guarded: Guarded
) -> None:
    server = serve("--http", "off")
    owner, guest = server.owner, server.person("gast")
    add(server, guarded)
    listed = guest.json("mcp")["servers"]
    assert [(one["name"], one["state"]) for one in listed] == [("guarded", "needs-sign-in")]
    assert "needs the own right" in guest.run("mcp login guarded").err
    came_to = sign_in_by_pasting(owner, guarded)
    tokens = check_that_secrets_are_kept(server, owner, came_to)

    # A token that is over is renewed by itself, while a call waits for it.
    guarded.control("expire")
    assert "alice may read" in guest.does("run guarded:whoami")
    assert guarded.seen[-1] == "refresh"
    assert json.loads(kept(server).read_text())["tokens"] != tokens

    # After a restart nobody signs in again.
    for one in (owner, guest):
        one.hang_up()
    server.stop()
    server.start()
    until(server, "guarded", "up")
    assert "alice may read" in owner.does("run guarded:whoami")

    # What the other side takes back ends it, visibly, and the tools say so.
    screen = owner.sit(100, 40)
    guarded.control("revoke")
    refused = guest.run("run guarded:whoami")
    said = " ".join((refused.out + refused.err).split())
    assert "its sign-in expired (invalid_grant). An owner signs in with /mcp login guarded" in said
    screen.wait_for("guarded: its sign-in expired (invalid_grant): /mcp login guarded", SECONDS)
    until(server, "guarded", "needs-sign-in")
    refused = guest.run("run guarded:whoami")
    assert "is unavailable: guarded is not connected: its sign-in expired" in refused.err

    came_to = visit(owner.json("mcp login guarded")["address"])
    assert "guarded is up with 2 tools" in owner.does(f"mcp login guarded '{came_to}'")
    assert "alice may read" in guest.does("run guarded:whoami")
    assert guarded.control("seen")["clients"] == 1, "it registered more than once"

    # A sign-out leaves nothing here, and revokes the tokens.
    assert "its tokens are deleted" in owner.does("mcp logout guarded")
    assert not kept(server).exists()
    assert guarded.seen[-1] == "revoke"
    until(server, "guarded", "needs-sign-in")
    for one in (owner, guest):
        one.hang_up()


@covers("mcp login", "mcp remove")
def test_oauth_callback_on_our_port_completes_the_sign_in(
    serve: Callable[..., Server], guarded: Guarded
) -> None:
    server = serve()
    owner = server.owner
    add(server, guarded)
    screen = owner.sit(100, 40)
    begun = owner.json("mcp login guarded")
    assert begun["redirect"] == f"http://{server.http}/oauth/callback"
    wrong = load(f"{begun['redirect']}?code=abc&state=nobody")
    assert "No sign-in is waiting for this page" in wrong
    assert "Received the sign-in response for guarded." in load(visit(begun["address"]))
    screen.wait_for("guarded: You are signed in.", SECONDS)
    until(server, "guarded", "up")

    # Removing a server takes along what is kept of it.
    assert kept(server).exists()
    owner.does("mcp remove guarded")
    assert not kept(server).exists()
    owner.hang_up()
