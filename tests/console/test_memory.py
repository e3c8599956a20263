"""Memories in a browser, and the page about the server."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, Route, expect

from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs, write_text
from support.driver import Person


def view(page: Page, key: str) -> None:
    """Open the window of a key."""
    page.get_by_role("link", name=f"View {key}", exact=True).click()


def test_keys_come_and_go_without_a_reload(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}/memory?scope=session", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    assert page.locator("#memory-empty").is_visible()
    assert page.locator("#memory-count").inner_text() == "0 keys"
    assert "nder construction" not in page.content()
    alice.does(f"mem session set --room {room} plan = one")
    expect(page.locator("#memory-count")).to_have_text("1 key")
    alice.does(
        f"mem session set --room {room} plan2 = two", f"mem session delete --room {room} plan"
    )
    page.locator("#panel", has_text="plan2").wait_for()
    expect(page.locator("#memory-count")).to_have_text("1 key")


def test_both_windows_show_the_key_that_was_asked_for(alice: Person, room: str, tabs: Tabs) -> None:
    hostile = "<script>alert(1)</script> \x1b[31m"
    for key, value in (("a", "first"), ("b", hostile)):
        alice.run(f"mem session set {key} --room {room}", value.encode())
        alice.run(f"mem project set {room}-{key} --room {room}", value.encode())
    page = tabs(alice, f"/room/{room}/memory?scope=session", viewport=DESK)
    late: list[Route] = []
    page.route("**/value?key=a", lambda route: late.append(route))
    view(page, "a")
    session = page.locator("#memory-session")
    expect(session.locator("h2")).to_have_text("[session] a")
    assert session.get_by_text("Loading").is_visible()
    view(page, "b")
    session.get_by_text("<script>alert(1)</script> ^[[31m").wait_for()
    expect(session.locator("h2")).to_have_text("[session] b")
    page.locator("#panel").get_by_role("link", name="Project", exact=True).click()
    view(page, f"{room}-a")
    project = page.locator("#memory-project")
    project.get_by_text("first", exact=True).wait_for()
    expect(project.locator("h2")).to_have_text(f"[project] {room}-a")
    late[0].fulfill(body="too late")
    expect(session.locator("h2")).to_have_text("[session] b")
    assert session.is_visible() and "too late" not in session.inner_text()
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    assert project.is_hidden() and session.is_visible()


@pytest.mark.parametrize("value", ["one\ntwo", "a\tb\r\nc\r\n", "no end"])
def test_value_is_edited_as_it_is(alice: Person, room: str, tabs: Tabs, value: str) -> None:
    alice.run(f"mem session set k --room {room}", value.encode())
    page = tabs(alice, f"/room/{room}/memory/session/key?key=k", viewport=DESK)
    page.get_by_text("Edit", exact=True).click()
    write_text(page, "#draft", "X", adds=True)
    page.get_by_role("button", name="Store").click()
    page.locator("#draft-answer", has_text="k").wait_for()
    stored = json.loads(alice.run(f"mem session get k --room {room} --json").out)["value"]
    assert stored.replace("X", "", 1) == value and "X" in stored


def test_edit_over_another_change_is_refused(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does(f"mem session set --room {room} k = mine")
    page = tabs(alice, f"/room/{room}/memory/session/key?key=k", viewport=PHONE)
    page.get_by_text("Edit", exact=True).click()
    write_text(page, "#draft", "from the browser")
    alice.does(f"mem session set --room {room} k = from ssh")
    page.get_by_role("button", name="Store").click()
    page.locator("#draft-answer", has_text="ersion").wait_for()
    assert alice.json(f"mem session get k --room {room}")["value"] == "from ssh"
    assert page.locator("#draft").input_value() == "from the browser"


def test_key_is_deleted_after_a_question(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does(f"mem session set --room {room} gone = x")
    page = tabs(alice, f"/room/{room}/memory/session/key?key=gone", viewport=DESK)
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete").click()
    assert alice.json(f"mem session get gone --room {room}")["found"]
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.locator("#memory-answer", has_text="gone").wait_for()
    assert alice.run(f"mem session get gone --room {room}").status == 1


def test_page_about_the_server(alice: Person, tabs: Tabs) -> None:
    page = tabs(alice, "/system", viewport=PHONE)
    facts, tools = alice.json("env"), alice.json("tools info")
    text = page.locator("main").inner_text()
    for name in ("OS", "Shell", "Initial CWD", "Working directory"):
        assert page.locator("dt", has_text=name).first.is_visible()
    assert facts["initialCwd"] in text
    assert f"{tools['totalCount']} tools loaded" in text
    assert f"sshwarma/verbs/ ({tools['builtinCount']} built-in)" in text
    names = [one.removeprefix("· ") for one in page.locator(".names li").all_inner_texts()]
    assert names == tools["names"] and len(names) == tools["totalCount"]
    heights = page.locator(".scrolls").evaluate("(one) => [one.scrollHeight, one.clientHeight]")
    assert heights[0] > heights[1]
    order = [one.split("\n")[0] for one in page.locator("main section h2").all_inner_texts()]
    assert order[1].endswith(("skill", "skills")) and order[2].endswith("tools loaded")
    assert find_violations(page) == []
    (own,) = alice.json("web list")["browsers"]
    other = tabs(alice)
    page.reload()
    assert page.get_by_text("this one").count() == 1
    (found,) = [one for one in alice.json("web list")["browsers"] if one["id"] != own["id"]]
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f"Sign out {found['id'][:18]}").click()
    page.locator("#browser-answer", has_text="out").wait_for()
    assert alice.json("web list")["browsers"][0]["id"] == own["id"]
    other.reload()
    other.get_by_role("heading", name="Sign in").wait_for()
