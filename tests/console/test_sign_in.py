"""Getting into the console, and out of it."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from sshwarma.common.limits import MAX_BROWSER_SESSIONS_PER_AGENT
from support.console_tabs import Tabs, find_link
from support.driver import Person, Server
from support.driver.covers import covers
from support.waiting import wait_until


def ask(
    world: Server, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Send one request; return its status, body and headers."""
    host, _, port = world.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, named)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, {name.lower(): value for name, value in response.getheaders()}


def sign_in(world: Server, who: Person) -> str:
    """Sign in as a script does; return the cookie."""
    secret = urlsplit(find_link(who)).fragment
    body = json.dumps({"link": secret})
    status, _, headers = ask(world, "POST", "/in", body, Origin=f"http://{world.http}")
    assert status == 204
    return headers["set-cookie"].partition(";")[0]


@covers("web link", "web list", "web end")
def test_link_signs_in_one_browser_once(world: Server, alice: Person, tabs: Tabs) -> None:
    page = tabs(alice)
    assert page.title() == "Rooms · sshwarma"
    assert page.get_by_role("link", name="lobby").is_visible()
    assert "#" not in page.url and "swl_" not in page.evaluate("() => document.referrer")
    (browser,) = alice.json("web list")["browsers"]
    assert browser["address"] == "127.0.0.1" and "Chrome" in browser["browser"]
    alice.does(f"web end {browser['id']}")
    page.reload()
    assert page.get_by_role("heading", name="Sign in").is_visible()
    assert alice.json("web list")["browsers"] == []
    link = find_link(alice, "web link")
    page.goto(link)
    page.wait_for_url(f"http://{world.http}/")
    page.context.clear_cookies()
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("This link was used").wait_for()
    assert "swl_" not in page.url


def test_link_of_somebody_else_asks_first(alice: Person, bob: Person, tabs: Tabs) -> None:
    page = tabs(alice)
    page.goto(find_link(bob))
    page.get_by_text(f"This browser is signed in as {alice.name}.").wait_for()
    page.get_by_role("link", name=f"Stay {alice.name}").click()
    page.locator("header", has_text=alice.name).wait_for()
    page.goto("about:blank")
    page.goto(find_link(bob))
    go = page.get_by_role("button", name=f"Sign in as {bob.name}")
    assert go.is_disabled() and page.locator("#sure").is_disabled()
    page.get_by_label(f"I am {bob.name}").check()
    go.click()
    page.locator("header", has_text=bob.name).wait_for()


def test_link_on_another_page_asks_first(world: Server, bob: Person, browser: Browser) -> None:
    page = browser.new_page()
    link = find_link(bob)
    body = f'<a href="{link}">free</a>'
    page.route("http://evil.example/", lambda one: one.fulfill(body=body, content_type="text/html"))
    page.goto("http://evil.example/")
    page.get_by_text("free").click()
    page.get_by_text("Sign in only if you asked for the link yourself").wait_for()
    assert page.context.cookies() == [] and page.get_by_role("button").is_disabled()
    page.get_by_label("I asked for this link").check()
    page.get_by_role("button", name="Sign in").click()
    page.locator("header", has_text=bob.name).wait_for()
    page.close()


def test_links_on_other_pages_open_for_who_is_signed_in(
    world: Server, alice: Person, room: str, browser: Browser
) -> None:
    """Also with a fragment, and the second one in a tab."""
    page = browser.new_page()
    page.goto(find_link(alice))
    page.wait_for_url(f"http://{world.http}/")
    body = "".join(
        f'<a rel="noreferrer" href="http://{world.http}/room/{room}{end}">to{number}</a>'
        for number, end in enumerate(("", "#row-1", "?before=9#row-1"))
    )
    page.route("http://evil.example/", lambda one: one.fulfill(body=body, content_type="text/html"))
    for number in (1, 0, 2, 1):
        page.goto("http://evil.example/")
        page.get_by_text(f"to{number}").click()
        page.get_by_role("heading", name=room).wait_for()
        page.wait_for_url(lambda url: "again" not in url)
        assert page.url.endswith("#row-1") == (number != 0)
    page.context.clear_cookies()
    page.goto("http://evil.example/")
    page.get_by_text("to1").click()
    page.wait_for_url("**again**")
    assert page.get_by_role("heading", name="Sign in").is_visible()
    page.close()


def test_page_of_somebody_who_is_not_signed_in_any_more_does_nothing(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}")
    other = page.context.new_page()
    other.goto(find_link(bob))
    other.get_by_label(f"I am {bob.name}").check()
    other.get_by_role("button", name=f"Sign in as {bob.name}").click()
    other.locator("header", has_text=bob.name).wait_for()
    page.locator("#text").fill("said by whom?")
    page.locator("#text").press("Enter")
    page.get_by_text(f"This page is of {alice.name}").wait_for()
    assert page.locator("#text").input_value() == "said by whom?"
    assert "said by whom?" not in alice.does(f"history --room {room}")
    path = f"/live?in={room}&after=0&owner={alice.name}"
    ended = page.evaluate(
        "(path) => new Promise((resolve) => new WebSocket(path).onclose ="
        " ({ code, reason }) => resolve([code, reason]))",
        path,
    )
    assert ended[0] == 4403 and f"This page is of {alice.name}" in ended[1]
    other.close()


def test_form_of_a_page_of_somebody_else_is_refused(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    bob.does(f"tell {alice.name} for you")
    page = tabs(alice)
    other = page.context.new_page()
    other.goto(find_link(bob))
    other.get_by_label(f"I am {bob.name}").check()
    other.get_by_role("button", name=f"Sign in as {bob.name}").click()
    other.locator("header", has_text=bob.name).wait_for()
    page.get_by_role("button", name="Mark as read").click()
    page.get_by_text(f"This page is of {alice.name}").wait_for()
    other.close()


def test_malformed_requests_are_refused_in_words(world: Server, alice: Person) -> None:
    origin = f"http://{world.http}"
    assert ask(world, "POST", "/in", "[" * 999, Origin=origin)[0] == 422
    cookie = sign_in(world, alice)
    for path in ("row/", "call/", "call/1/attachment/"):
        status, body, _ = ask(world, "GET", f"/room/lobby/{path}{'9' * 5000}", Cookie=cookie)
        assert status == 404, path
        assert "Traceback" not in body


def test_opening_a_link_alone_uses_nothing_up(world: Server, alice: Person) -> None:
    """As a preview of a chat does, which sees no fragment."""
    link = find_link(alice)
    assert ask(world, "GET", "/in")[0] == 200
    body = json.dumps({"link": urlsplit(link).fragment})
    origin = f"http://{world.http}"
    assert ask(world, "POST", "/in", body, Origin=origin)[0] == 204
    assert ask(world, "POST", "/in", body, Origin=origin)[0] == 403


def test_cookie_is_of_this_world_and_for_no_script(world: Server, alice: Person) -> None:
    secret = urlsplit(find_link(alice)).fragment
    body = json.dumps({"link": secret})
    _, _, headers = ask(world, "POST", "/in", body, Origin=f"http://{world.http}")
    cookie = headers["set-cookie"].lower()
    assert cookie.startswith("sshwarma-") and "httponly" in cookie and "samesite=strict" in cookie
    named = headers["set-cookie"].partition(";")[0]
    assert ask(world, "GET", "/", Cookie=named)[0] == 200
    bearer = named.partition("=")[2]
    assert ask(world, "GET", "/api/v1/verbs", Authorization=f"Bearer {bearer}")[0] == 401
    token = world.operate("token_new", name=alice.name, scope="act")["token"]
    assert ask(world, "GET", "/", Cookie=f"{named.partition('=')[0]}={token}")[0] == 401


def test_session_ends_with_its_key(world: Server, alice: Person, tabs: Tabs) -> None:
    page = tabs(alice, "/room/lobby")
    page.locator("#here", has_text=alice.name).wait_for()
    world.operate("keys_remove", name=alice.name, fingerprint=alice.fingerprint)
    page.get_by_role("heading", name="Sign in").wait_for()


def test_session_ends_when_its_key_is_removed_over_ssh(
    world: Server, alice: Person, tabs: Tabs
) -> None:
    """By who has another key of the same account."""
    page = tabs(alice, "/room/lobby")
    page.locator("#here", has_text=alice.name).wait_for()
    again = Person(world, alice.name, world.stranger("other").identity)
    alice.does(f"keys add {again.public_key}")
    lasting = tabs(again, "/room/lobby")
    again.does(f"keys remove {alice.fingerprint}")
    page.get_by_role("heading", name="Sign in").wait_for()
    lasting.reload()
    lasting.locator("#here", has_text=alice.name).wait_for()
    again.hang_up()


def test_signing_out_takes_the_cookie(alice: Person, tabs: Tabs) -> None:
    page = tabs(alice)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    assert alice.json("web list")["browsers"] == []


def test_signing_out_over_https_takes_the_cookie_of_https(world: Server) -> None:
    origin = f"https://{world.http}"
    _, _, headers = ask(world, "POST", "/out", Origin=origin, X_Forwarded_Proto="https")
    assert headers["set-cookie"].startswith("__Host-") and "Secure" in headers["set-cookie"]


def test_the_oldest_session_ends_if_there_are_too_many(world: Server, alice: Person) -> None:
    first = sign_in(world, alice)
    for _ in range(MAX_BROWSER_SESSIONS_PER_AGENT):
        last = sign_in(world, alice)
    assert ask(world, "GET", "/", Cookie=first)[0] == 401
    assert ask(world, "GET", "/", Cookie=last)[0] == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/api", "/metrics", "/mcp", "/room/lobby"])
def test_another_host_is_refused_everywhere(world: Server, path: str) -> None:
    status, text, _ = ask(world, "GET", path, Host="evil.example")
    assert status == 421 and "evil.example" in text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:2280", "[::1]", "192.0.2.7:80"])
def test_addresses_and_localhost_are_known(world: Server, host: str) -> None:
    assert ask(world, "GET", "/healthz", Host=host)[0] == 200


def test_forms_of_other_sites_do_nothing(world: Server, alice: Person) -> None:
    cookie = sign_in(world, alice)
    own = f"http://{world.http}"
    for headers in (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": own, "Sec_Fetch_Site": "same-site"},
    ):
        status, _, _ = ask(world, "POST", "/room/lobby", "text=intruder", Cookie=cookie, **headers)
        assert status == 403, headers
    assert "intruder" not in alice.does("history --room lobby")
    status, _, _ = ask(world, "POST", "/room/lobby", "text=own", Cookie=cookie, Origin=own)
    assert status == 200
    assert "own" in alice.does("history --room lobby")


def test_every_page_has_a_policy_without_exceptions(world: Server, alice: Person) -> None:
    cookie = sign_in(world, alice)
    for path in ("/", "/in", "/room/lobby", "/room/nowhere", "/static/x/app.css"):
        _, _, headers = ask(world, "GET", path, Cookie=cookie)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff"


def test_login_of_a_browser_is_in_the_audit(world: Server, alice: Person) -> None:
    sign_in(world, alice)
    wait_until(lambda: _audit(world, alice))
    (row,) = _audit(world, alice)
    assert row["fingerprint"].startswith("token ")


def _audit(world: Server, alice: Person) -> list[dict[str, str]]:
    rows = [
        json.loads(line)
        for line in world.cli("audit", "--json", "--agent", alice.name).stdout.splitlines()
    ]
    return [row for row in rows if row["door"] == "web" and row["verb"] == "login"]
