"""The prompt of a room, by keys: completion, drafts and earlier lines."""

from __future__ import annotations

from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person


def test_tab_completes_as_in_a_terminal(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    page.locator("#text").press_sequentially("/loo")
    page.locator("#completions li", has_text="/look").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#text").input_value() == "/look "
    page.locator("#text").fill("/join lob")
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.getElementById('text').value === '/join lobby '")
    page.locator("#text").press_sequentially("x")
    page.keyboard.press("Escape")
    assert page.locator("#completions").is_hidden()


def test_drafts_survive_a_reload_and_the_history(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    say(page, "the first line")
    page.locator("#log", has_text="the first line").wait_for()
    page.locator("#text").press_sequentially("half a thou")
    page.keyboard.press("ArrowUp")
    assert page.locator("#text").input_value() == "the first line"
    page.keyboard.press("ArrowDown")
    assert page.locator("#text").input_value() == "half a thou"
    page.reload()
    assert page.locator("#text").input_value() == "half a thou"
    path = page.url
    page.goto(path.rpartition("/")[0] + "/lobby")
    assert page.locator("#text").input_value() == ""
    page.goto(path)
    assert page.locator("#text").input_value() == "half a thou"
