"""Private messages in a browser: with whom, what was said, and what is unread."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page, expect

from console.test_for_everybody import DESK, PHONE, find_violations
from console.test_getting_about import origin_of, plain_tab
from support.console_tabs import Tabs
from support.driver import Person
from support.waiting import wait_until

HOSTILE = "<img src=x onerror=alert(1)> \x1b[31m \u202e back"


def badge(page: Page) -> str:
    return " ".join(page.locator("#waiting").inner_text().split())


def test_messages_are_listed_and_read_one_by_one(
    alice: Person, bob: Person, person: Callable[..., Person], tabs: Tabs
) -> None:
    carol = person("carol")
    carol.does(f"tell {alice.name} from carol")
    bob.run(f"tell {alice.name} --stdin", HOSTILE)
    page = tabs(alice, "/figures", viewport=PHONE)
    page.locator("#waiting").get_by_role("link", name="2 private messages").click()
    items = page.locator("main ul.rooms").first.locator("li")
    expect(items).to_have_count(2)
    assert bob.name in items.nth(0).inner_text() and carol.name in items.nth(1).inner_text()
    assert "1 new" in items.nth(0).inner_text()
    assert "<img src=x" in items.nth(0).inner_text() and "<U+202E>" in items.nth(0).inner_text()
    assert find_violations(page) == []
    items.nth(0).get_by_role("link", name=bob.name).click()
    talk = page.locator("#conversation", has_text="<img src=x onerror")
    talk.wait_for()
    assert talk.locator("img").count() == 0 and "^[[31m" in talk.inner_text()
    wait_until(lambda: page.get_by_role("button", name="Mark as read").count() == 0)
    wait_until(lambda: "1 private message" in badge(page))
    assert find_violations(page) == []
    page.goto(f"{origin_of(page)}/messages")
    items = page.locator("main ul.rooms").first.locator("li")
    assert "new" not in items.nth(0).inner_text().replace(bob.name, "")
    assert "1 new" in items.nth(1).inner_text()


def test_messages_are_answered_and_come_to_the_page(alice: Person, bob: Person, tabs: Tabs) -> None:
    page = tabs(alice, f"/messages/{bob.name}", viewport=DESK)
    page.get_by_text("have not exchanged private messages").wait_for()
    page.get_by_label(f"Write to {bob.name}").fill("are you <b>there</b>?")
    page.get_by_role("button", name="Send").click()
    page.locator("#conversation", has_text="are you <b>there</b>?").wait_for()
    assert page.get_by_label(f"Write to {bob.name}").input_value() == ""
    bob.does(f"tell {alice.name} yes, here")
    page.locator("#conversation", has_text="yes, here").wait_for()
    page.get_by_role("link", name="All messages").click()
    page.get_by_role("link", name=bob.name).first.wait_for()
    assert find_violations(page) == []


def test_messages_of_others_are_seen_by_nobody_else(
    alice: Person, bob: Person, person: Callable[..., Person], tabs: Tabs
) -> None:
    carol = person("carol")
    bob.does(f"tell {alice.name} a secret of two")
    page = tabs(carol, "/messages")
    assert "a secret of two" not in page.content()
    for name in (alice.name, bob.name):
        page.goto(f"{origin_of(page)}/messages/{name}")
        page.get_by_text("have not exchanged private messages").wait_for()
        assert "a secret of two" not in page.content()
    # Neither can she mark them as read.
    page.evaluate(
        "(of) => fetch('/messages/read', {method: 'POST', body: new URLSearchParams(of)})",
        {"of": bob.name, "before": "9000000000000000"},
    )
    other = tabs(alice, "/messages")
    assert "1 new" in other.locator("main").inner_text()


def test_messages_without_scripts(alice: Person, bob: Person, tabs: Tabs) -> None:
    bob.does(f"tell {alice.name} plain words")
    page = tabs(alice)
    plain = plain_tab(page, alice, tabs, f"/messages/{bob.name}")
    assert "plain words" in plain.locator("#conversation").inner_text()
    plain.get_by_role("button", name="Mark as read").click()
    assert plain.get_by_role("button", name="Mark as read").count() == 0
    plain.locator("#tell").fill("plain answer")
    plain.get_by_role("button", name="Send").click()
    assert plain.url.endswith(f"/messages/{bob.name}")
    assert "plain answer" in plain.locator("#conversation").inner_text()


def test_older_messages_are_behind_a_link(alice: Person, bob: Person, tabs: Tabs) -> None:
    bob.does(*(f"tell {alice.name} message {number}" for number in range(60)))
    count = len(json.loads(alice.run(f"history @{bob.name} --json").out)["entries"])
    page = tabs(alice, f"/messages/{bob.name}")
    talk = page.locator("#conversation")
    assert f"message {60 - count}\n" in talk.inner_text() and "older:" not in talk.inner_text()
    page.get_by_role("link", name="Older").click()
    expect(talk).to_contain_text(f"message {59 - count}")
    page.get_by_role("link", name="Newest").click()
    expect(talk).to_contain_text("message 59")
