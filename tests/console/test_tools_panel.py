"""The panel `tools`: the picker, and the form of a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs
from support.driver import Person
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

MakePerson = Callable[..., Person]

HOSTILE = "<script>alert(1)</script> \x1b[31m\u202eevil"


@pytest.fixture
def ann(person: MakePerson, name: Callable[[str], str]) -> Person:
    """An admin in a room of her own."""
    one = person("ann", role="admin")
    one.does(f"create {name('bench')}")
    return one


@pytest.fixture
def bench(ann: Person) -> str:
    """The room of ann."""
    return str(ann.json("files")["room"])


def install(ann: Person, kit_id: str, *functions: str) -> None:
    done = ann.run("toolset import", pack(kit(kit_id, functions=functions)), "-T")
    assert done.status == 0, done


def row(page: Page, tool: str) -> str:
    """What the picker says of a tool."""
    link = page.get_by_role("link", name=tool, exact=True)
    return page.locator("#panel .tools > li").filter(has=link).inner_text()


def press(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def run(page: Page, button: str = "Run") -> str:
    """Send the form of a tool, and return what it gives."""
    page.evaluate("() => { document.getElementById('tool-result').textContent = ''; }")
    press(page, button)
    page.wait_for_function(
        "() => !['', 'It runs …'].includes(document.getElementById('tool-result').textContent)"
    )
    return page.locator("#tool-result").inner_text()


@needs_bubblewrap
def test_what_one_browser_equips_another_shows_at_once(
    ann: Person, bench: str, person: MakePerson, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id, bob = name("kit"), person("bob")
    install(ann, kit_id, "paint", "ask")
    ann.does(f"tool set {kit_id}:ask approval on")
    ann.does(f'tool set {kit_id}:paint renderer {{"type": "code", "file": "$args.path"}}')
    page, other = tabs(ann, "/tools"), tabs(bob, f"/room/{bench}/tools")
    page.wait_for_url(f"**/room/{bench}/tools")
    for one in (page, other):
        titles = one.locator("#panel h2").all_inner_texts()
        assert titles[0].startswith("Builtin") and f"Toolset {kit_id} (2)" in titles
        assert "asks first" in row(one, f"{kit_id}:ask")
        assert "shown as code" in row(one, f"{kit_id}:paint")
        assert "Not equipped" in row(one, f"{kit_id}:paint")
    page.get_by_role("link", name=f"Toolset {kit_id} (2)").click()
    assert page.locator("#panel h2", has_text=f"Toolset {kit_id}").is_visible()
    assert "#tools-" in page.url
    press(page, f"Equip in the room {kit_id}:paint")
    for one in (page, other):
        paint = one.locator("#panel li", has_text=f"{kit_id}:paint")
        paint.get_by_text("Equipped: room").wait_for()
    assert f"Equipped {kit_id}:paint" in page.locator("#tools-answer").inner_text()
    assert f"✓ {kit_id}:paint" in ann.does("inv all")
    press(page, f"Equip for me {kit_id}:paint")
    page.get_by_text("Equipped: room, me").wait_for()
    press(page, f"Unequip in the room {kit_id}:paint")
    page.get_by_role("button", name=f"Equip in the room {kit_id}:paint", exact=True).wait_for()
    other.locator("#panel li", has_text=f"{kit_id}:paint").get_by_text("Not equipped").wait_for()
    ann.does(f"tool disable {kit_id}:ask")
    other.locator("#panel li", has_text=f"{kit_id}:ask").get_by_text("✗ disabled").wait_for()
    press(page, f"Equip in the room {kit_id}:*")
    page.locator("#panel li", has_text=f"{kit_id}:ask").get_by_text("Equipped: room").wait_for()
    ann.does(f"toolset disable {kit_id}")
    other.locator("#panel h2", has_text=kit_id).wait_for(state="detached")
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_filter_finds_tools_and_stays_when_others_change_something(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}/tools")
    before = page.locator("#panel .tools > li:visible").count()
    page.locator("#tools-filter").press_sequentially("sshwarma:lo")
    page.locator("#tools-count", has_text="1 tool has “sshwarma:lo”").wait_for()
    assert 0 < page.locator("#panel .tools > li:visible").count() < before
    alice.does("tool new coin = return 'heads'")
    page.locator("#panel h2", has_text="This room").wait_for(state="attached")
    assert page.locator("#tools-filter").input_value() == "sshwarma:lo"
    assert page.evaluate("() => document.activeElement.id") == "tools-filter"
    assert page.locator("#panel .tools > li:visible").count() < before
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(f"{page.url}?filter=coin")
    assert plain.locator("#panel .tools > li").count() == 1
    press(plain, f"Equip for me {room}:coin")
    assert "Equipped: room, me" in plain.locator("#panel").inner_text()
    plain.goto(f"{page.url}?filter=no-such-tool")
    assert "No tool matches." in plain.locator("#panel").inner_text()


def test_room_buttons_are_off_without_the_build_right(
    alice: Person, room: str, bob: Person, tabs: Tabs
) -> None:
    alice.does("tool new coin = return 'heads'")
    page = tabs(bob, f"/room/{room}/tools?filter=coin")
    assert "In the room: Permission denied" in page.locator("#panel").inner_text()
    button = page.get_by_role("button", name=f"Unequip in the room {room}:coin")
    assert button.is_disabled()
    page.get_by_role("link", name=f"{room}:coin").click()
    assert page.get_by_role("button", name="Disable for everybody").is_disabled()
    button.evaluate("(button) => { button.disabled = false; }")
    button.click()
    page.locator("#tools-answer", has_text="Permission denied").wait_for()


@needs_bubblewrap
def test_form_of_a_tool_calls_it_and_again_with_changes(
    ann: Person, bench: str, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id = name("kit")
    install(ann, kit_id, "paint")
    page = tabs(ann, f"/room/{bench}/tools/{kit_id}:paint")
    press(page, f"Equip in the room {kit_id}:paint")
    page.get_by_text("Equipped: room").wait_for()
    page.get_by_label("where").fill("{path")
    assert "where is not JSON" in run(page)
    assert page.get_by_label("where").input_value() == "{path"
    page.get_by_label("where").fill('{"times": 2}')
    assert "path" in run(page)
    page.get_by_label("where").fill('{"path": "a.txt", "times": 2}')
    page.get_by_role("radio", name="red").check()
    said = run(page)
    assert "✓" in said and kit_id in said
    assert ann.does("file get a.txt") == "red" * 4
    found = re.search(r"Row (\d+) of the log", said)
    assert found is not None
    page.goto(f"{page.url}?from={found[1]}")
    given = json.loads(page.get_by_label("where").input_value())
    assert given == {"path": "a.txt", "times": 2}
    assert page.get_by_role("radio", name="red").is_checked()
    assert page.locator("[name='arg.mode'][value='']").is_checked()
    page.get_by_label("where").fill('{"path": "b.txt"}')
    assert "✓" in run(page)
    assert ann.does("file get b.txt") == "red" * 2
    call = ann.json("sql SELECT args FROM tool_calls ORDER BY started_at DESC LIMIT 1")["rows"]
    assert json.loads(call[0][0]) == {"where": {"path": "b.txt"}, "colour": "red"}
    page.get_by_role("link", name="All of the call").click()
    page.locator("#panel .call-details").wait_for()
    page.locator("#panel").get_by_role("link", name="Run again with changes").click()
    page.get_by_label("where").wait_for()
    assert "b.txt" in page.get_by_label("where").input_value()
    page.goto(f"{page.url.partition('?')[0]}?from=99999")
    assert "Unknown row 99999" in page.locator("main").inner_text()
    ann.does(f"toolset uninstall {kit_id} --yes")


@needs_bubblewrap
def test_call_that_asks_first_waits_for_a_person(
    ann: Person, bench: str, bob: Person, name: Callable[[str], str], tabs: Tabs
) -> None:
    kit_id = name("kit")
    install(ann, kit_id, "ask")
    ann.does(f"tool set {kit_id}:ask approval on", f"equip room {kit_id}:ask")
    tabs(ann, f"/room/{bench}").locator("#here", has_text=ann.name).wait_for()
    page = tabs(bob, f"/room/{bench}/tools/{kit_id}:ask")
    assert "It asks first" in page.locator("#panel").inner_text()
    press(page, "Run")
    page.locator("#tool-result", has_text="It runs").wait_for()
    wait_until(lambda: f"{kit_id}:ask" in ann.does("approvals"))
    assert page.locator("#tool-result").inner_text() == "It runs …"
    ann.does("allow")
    page.locator("#tool-result", has_text="nothing").wait_for()
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_form_of_a_tool_works_without_scripts(ann: Person, bench: str, tabs: Tabs) -> None:
    page = tabs(ann, f"/room/{bench}/tools/sshwarma:say")
    plain = tabs(ann, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(page.url)
    plain.get_by_label("text").fill("one\ntwo")
    press(plain, "Run")
    assert "✓" in plain.locator("#tool-result").inner_text()
    assert plain.get_by_label("text").input_value() == "one\ntwo"
    assert "two" in ann.does("history show")


def test_hostile_words_are_text(ann: Person, bench: str, tabs: Tabs) -> None:
    ann.does("tool new trap = return args.text")
    described = ann.run(f"tool describe trap = {HOSTILE}".encode())
    assert described.status == 0, described
    page = tabs(ann, f"/room/{bench}/tools?filter=trap")
    for _ in range(2):
        words = page.locator("#panel").inner_text()
        assert "<script>alert(1)</script>" in words
        assert "\x1b" not in words and "\u202e" not in words
        page.goto(f"{page.url.partition('?')[0]}/{bench}:trap")
    page.locator("main").wait_for()
    page.goto(f"{page.url.partition('/tools')[0]}/tools/{'<script>'}")
    assert "<script>" in page.locator("main").inner_text()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_panel_has_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, size: dict[str, int]
) -> None:
    alice.does("tool new coin = return 'heads'")
    page = tabs(alice, f"/room/{room}/tools", viewport=size)
    for _ in range(2):
        assert find_violations(page) == [], page.url
        wide = page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        high = page.evaluate("() => document.documentElement.scrollHeight > innerHeight")
        assert not wide and not high, page.url
        page.goto(f"{page.url}/sshwarma:say")


def test_form_of_a_tool_decides_whether_it_asks(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    alice.does(f"tool new coin --room {room} = return 'heads'")
    page = tabs(alice, f"/room/{room}/tools/coin")
    page.get_by_role("button", name="Ask first").click()
    page.get_by_role("button", name="Call without asking").wait_for()
    page.get_by_text("It asks first").wait_for()
    page.get_by_role("button", name="Call without asking").click()
    page.get_by_role("button", name="Ask first").wait_for()
    other = tabs(bob, f"/room/{room}/tools/coin")
    other.get_by_role("heading", name="coin").wait_for()
    assert other.get_by_role("button", name="Ask first").count() == 0
