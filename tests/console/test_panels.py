"""Panels of a room: beside its log, as pages of their own, and fetched again."""

from __future__ import annotations

from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person


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
