"""Panels of a room: beside its log, as pages of their own, and fetched again."""

from __future__ import annotations

from playwright.sync_api import expect

from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person

SETTLED = "() => new Promise((resolve) => setTimeout(resolve, 700))"
"""By then a panel that is fetched again after SETTLE_MILLISECONDS has been."""


def test_panel_opens_beside_the_log_and_keeps_what_is_typed(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}", viewport={"width": 1280, "height": 800})
    page.locator("#text").press_sequentially("half")
    page.get_by_role("link", name="Here", exact=True).click()
    page.wait_for_url(f"**/room/{room}/here")
    page.locator("#panel", has_text=room).wait_for()
    assert page.locator("#text").input_value() == "half"
    alice.does(f"vibe --room {room} = smells of rain")
    page.locator("#panel", has_text="smells of rain").wait_for()
    page.go_back()
    page.locator("#panel").wait_for(state="hidden")
    page.goto(f"{page.url}/here")
    page.locator("#panel", has_text="smells of rain").wait_for()
    say(page, "still here")
    page.locator("#log", has_text="still here").wait_for()


def test_panel_fills_a_phone_and_leads_back(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport={"width": 390, "height": 844})
    page.get_by_role("link", name="Here", exact=True).click()
    page.locator("#panel", has_text=room).wait_for()
    assert page.locator("#log").is_hidden()
    page.get_by_role("link", name="Log", exact=True).click()
    page.locator("#log").wait_for()


def test_panel_shows_what_came_while_somebody_typed_or_pressed(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}/files", viewport={"width": 1280, "height": 800})
    page.locator("#files-search").fill("half of a wo")
    alice.run(f"file put typed.txt --room {room}", b"x")
    page.locator("#log", has_text="typed.txt").wait_for()
    page.evaluate(SETTLED)
    assert page.locator("#files-search").input_value() == "half of a wo"
    assert page.locator("#panel .tree", has_text="typed.txt").count() == 0
    page.locator("#text").focus()
    page.locator("#panel .tree", has_text="typed.txt").wait_for()
    page.locator("#panel h2").first.hover()
    page.mouse.down()
    alice.run(f"file put pressed.txt --room {room}", b"x")
    page.locator("#log", has_text="pressed.txt").wait_for()
    page.evaluate(SETTLED)
    assert page.locator("#panel .tree", has_text="pressed.txt").count() == 0
    page.mouse.up()
    page.locator("#panel .tree", has_text="pressed.txt").wait_for()


def test_focus_goes_to_the_prompt_when_a_panel_is_closed(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}", viewport={"width": 1280, "height": 800})
    prompt = page.locator("#text")
    for close in ("Escape", "Log"):
        page.get_by_role("link", name="Here", exact=True).click()
        expect(page.locator("#panel")).to_be_focused()
        if close == "Escape":
            page.keyboard.press("Escape")
        else:
            page.get_by_role("link", name="Log", exact=True).click()
        page.locator("#panel").wait_for(state="hidden")
        expect(prompt).to_be_focused()
    phone = tabs(
        alice, f"/room/{room}/here", viewport={"width": 390, "height": 844}, has_touch=True
    )
    phone.get_by_role("link", name="Log", exact=True).tap()
    expect(phone.locator("#log")).to_be_focused()
