"""How one gets about: search, pages that stay in a room, and lists that narrow."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs
from support.driver import Person


@pytest.fixture
def other_room(alice: Person, name: Callable[[str], str]) -> str:
    """Another room of alice, in which she stands then."""
    made = name("attic")
    alice.does(f"create {made}")
    return made


def origin_of(page: Page) -> str:
    found = urlsplit(page.url)
    return f"{found.scheme}://{found.netloc}"


def plain_tab(page: Page, who: Person, tabs: Tabs, path: str) -> Page:
    """A tab without scripts, in which the same browser is signed in."""
    plain = tabs(who, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(f"{origin_of(page)}{path}")
    return plain


def test_front_page_searches_the_chosen_room(
    alice: Person, room: str, other_room: str, tabs: Tabs
) -> None:
    alice.does(
        f"say --room {room} a lantern <b>here</b>", f"say --room {other_room} a lantern there"
    )
    page = tabs(alice, viewport=PHONE)
    assert page.get_by_label("Search in").input_value() in (room, other_room, "lobby")
    page.get_by_label("Search in").select_option(room)
    page.get_by_label("Words").fill("lantern")
    page.get_by_role("button", name="Search").click()
    found = page.locator("#found", has_text="a lantern <b>here</b>")
    found.wait_for()
    assert "a lantern there" not in found.inner_text()
    page.get_by_label("Search in").select_option("")
    page.get_by_role("button", name="Search").click()
    page.locator("#found", has_text="a lantern there").wait_for()
    assert find_violations(page) == []
    plain = plain_tab(page, alice, tabs, "/")
    plain.get_by_label("Search in").select_option(other_room)
    plain.get_by_label("Words").fill("lantern")
    plain.get_by_role("button", name="Search").click()
    assert "a lantern there" in plain.locator("#result").inner_text()


def test_what_a_search_finds_leads_there(
    alice: Person, bob: Person, room: str, name: Callable[[str], str], tabs: Tabs
) -> None:
    word = name("zebra")
    alice.does(f"say --room {room} a {word} <b>here</b>")
    bob.does(f"tell {alice.name} the {word} again")
    page = tabs(alice)
    page.locator("#search").fill(word)
    page.locator("#search-in").select_option("")
    page.get_by_role("button", name="Search").click()
    found = page.locator(".hits li")
    found.nth(1).wait_for()
    assert "<b>here</b>" in found.nth(1).inner_text()
    assert find_violations(page) == []
    assert found.nth(0).locator("a").get_attribute("href") == f"/messages/{bob.name}"
    found.nth(1).locator("a").click()
    page.wait_for_url(f"**/room/{room}/row/*")
    assert word in page.locator(".row.marked").inner_text()


def test_search_offers_no_room_that_one_may_not_enter(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    alice.does(f"say --room {room} a secret", f"room private --room {room}")
    page = tabs(bob)
    assert room not in page.locator("#search-in option").all_inner_texts()


def test_top_bar_has_each_page_once_and_marks_the_current_one(alice: Person, tabs: Tabs) -> None:
    page = tabs(alice, "/verb/note", viewport=DESK)
    bar = page.locator("header nav")
    expect(bar.get_by_role("link", name="Verbs")).to_have_count(1)
    expect(bar.locator("[aria-current=page]")).to_have_text("Verbs")
    for name in ("Map", "Toolsets", "System", "Messages"):
        bar.get_by_role("link", name=name).click()
        expect(bar.locator("[aria-current=page]")).to_have_text(name)


def test_pages_stay_in_the_room_they_were_opened_from(
    alice: Person, room: str, other_room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{other_room}", viewport=DESK)
    page.goto(f"{origin_of(page)}/room/{room}")
    bar = page.locator("header nav")
    for name in ("Verbs", "Map", "Toolsets", "Servers", "System", "Figures"):
        bar.get_by_role("link", name=name).click()
        assert page.url.endswith(f"?in={room}"), name
    bar.get_by_role("link", name="Verbs").click()
    page.locator("#verbs").get_by_role("link", name="note", exact=True).click()
    page.wait_for_url(f"**/verb/note?in={room}")
    expect(page.locator("main")).to_contain_text(f"You are in {room}.")
    bar.get_by_role("link", name="Tools", exact=True).click()
    page.wait_for_url(f"**/room/{room}/tools")
    bar.get_by_role("link", name="Terminal").click()
    expect(page.locator("h1")).to_have_text(f"Terminal in {room}")
    page.goto(f"{origin_of(page)}/verb/create?in={room}")
    assert f"In {room}" not in page.locator("main").inner_text()
    page.keyboard.press("Control+k")
    page.wait_for_url(f"**/go?in={room}")


def test_form_that_moves_leads_to_the_new_room(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/create?in={room}")
    page.locator("#form .field input").first.fill(f"{room}-annex")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(f"**/room/{room}-annex")
    plain = plain_tab(page, alice, tabs, f"/verb/join?in={room}-annex")
    plain.locator("#form .field input").first.fill(room)
    plain.get_by_role("button", name="Run", exact=True).click()
    assert plain.url.endswith(f"/room/{room}")
    page.goto(f"{origin_of(page)}/verb/look?in={room}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("#result", has_text=room).wait_for()
    assert "/verb/look" in page.url


def test_verbs_narrow_while_one_types(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verbs?in={room}", viewport=DESK)
    shown = page.locator("#verbs li:visible")
    every = shown.count()
    page.get_by_label("Filter").press_sequentially("model add")
    expect(shown).to_have_count(1)
    assert page.locator("#verbs h2:visible").all_inner_texts() == ["Models"]
    page.get_by_label("Filter").fill("no such words")
    page.get_by_text("No verb has these words.").wait_for()
    page.get_by_label("Filter").fill("")
    expect(shown).to_have_count(every)
    page.get_by_label("Filter").press_sequentially("mem project")
    page.keyboard.press("Tab")
    first = page.evaluate("() => document.activeElement.textContent")
    assert first.startswith("mem project")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.textContent") != first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("() => document.activeElement.id") == "filter"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/verb/mem_project_*?in={room}")
    plain = plain_tab(page, alice, tabs, "/verbs?filter=model+add")
    expect(plain.locator("#verbs li:visible")).to_have_count(1)


def test_go_finds_verbs(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=PHONE)
    page.keyboard.press("Control+k")
    page.get_by_role("heading", name="Go to").wait_for()
    assert find_violations(page) == []
    page.locator("#to").press_sequentially("/model add")
    expect(page.locator("#places li:visible")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/verb/model_add?in={room}")
    page.goto(f"{origin_of(page)}/go")
    page.locator("#to").press_sequentially("note")
    page.keyboard.press("Enter")
    page.wait_for_url("**/verb/note")
    plain = plain_tab(page, alice, tabs, "/go?to=/model+add")
    assert plain.url.endswith("/verb/model_add")


def test_system_leads_to_what_one_may_add(alice: Person, owner: Person, tabs: Tabs) -> None:
    page = tabs(owner, "/system", viewport=DESK)
    card = page.locator("section", has=page.get_by_role("heading", name="Models", exact=True))
    card.get_by_role("link", name="Add a model").click()
    page.wait_for_url("**/verb/model_add")
    page.go_back()
    main = page.locator("main")
    assert main.get_by_role("link", name="MCP servers").get_attribute("href") == "/servers"
    assert main.get_by_role("link", name="Tools of").count() == 1
    assert find_violations(page) == []
    other = tabs(alice, "/system")
    assert other.get_by_role("link", name="Add a model").count() == 0
    assert "Only owners add one" in other.locator("main").inner_text()


def test_wide_tables_say_that_there_is_more(alice: Person, tabs: Tabs) -> None:
    for scheme in ("dark", "light"):
        page = tabs(alice, "/map", viewport=PHONE, color_scheme=scheme)
        shown = page.locator(".table").first.evaluate(
            "(table) => getComputedStyle(table).backgroundAttachment"
        )
        assert shown == "local, local, scroll, scroll"
        assert find_violations(page) == []


def test_room_leads_to_its_keys(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=DESK)
    page.get_by_role("link", name="All keys").click()
    page.get_by_role("heading", name="Keys").wait_for()
