"""What happens while an answer of the server is on its way."""

from __future__ import annotations

from playwright.sync_api import Page, Route, expect

from console.test_for_everybody import DESK
from console.test_room import say
from support.console_tabs import Tabs, write_text
from support.driver import Person
from support.waiting import wait_until


def hold(page: Page, pattern: str) -> list[Route]:
    """Keep requests to addresses of a pattern until the test lets them go."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route))
    return held


def release(page: Page, held: list[Route]) -> None:
    """Let a request go, once it has come."""
    while not held:
        page.wait_for_timeout(20)
    held.pop(0).continue_()


def test_next_line_is_typed_while_the_first_runs(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    held = hold(page, f"**/room/{room}")
    say(page, "the first line")
    expect(page.locator("#text")).to_have_value("")
    page.locator("#text").press_sequentially("the second")
    release(page, held)
    page.locator("#log", has_text="the first line").wait_for()
    assert page.locator("#text").input_value() == "the second"
    page.keyboard.press("Enter")
    say(page, "the third line")
    release(page, held)
    release(page, held)
    page.locator("#log", has_text="the third line").wait_for()
    page.locator("#log", has_text="the second").wait_for()


def test_refresh_does_not_stop_who_opens_another_panel(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}/here", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    held = hold(page, f"**/room/{room}/memory")
    page.locator("#tabs").get_by_role("link", name="Memory").click()
    alice.does(f"vibe --room {room} smells of rain")
    page.locator("#log", has_text="smells of rain").wait_for()
    page.wait_for_timeout(500)  # the refresh would come by now
    release(page, held)
    page.locator("#memory-count").wait_for()
    assert page.url.endswith("/memory")


def test_text_typed_while_a_file_is_stored_stays(alice: Person, room: str, tabs: Tabs) -> None:
    alice.run(f"file put plan.md --room {room}", b"one\n")
    page = tabs(alice, f"/room/{room}/files/plan.md?edit", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    held = hold(page, "**/verb/file_put*")
    write_text(page, "#file-text", "two\n")
    page.get_by_role("button", name="Save").click()
    write_text(page, "#file-text", "typed while saving ", adds=True)
    release(page, held)
    page.locator("#files-answer", has_text="Changed plan.md").wait_for()
    assert page.locator("#file-text").input_value() == "typed while saving two\n"
    assert page.locator("form.file-form[data-unsaved]").count() == 1
    page.unroute("**/verb/file_put*")
    page.get_by_role("button", name="Save").click()
    wait_until(lambda: "typed while" in alice.run(f"file get plan.md --room {room}").out)


def test_escape_without_a_panel_does_nothing(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    say(page, "/look")
    page.locator("#answer", has_text=room).wait_for()
    page.evaluate("() => { document.activeElement.blur(); window.isSame = true; }")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    assert page.evaluate("() => window.isSame") is True
    assert page.locator("#answer", has_text=room).is_visible()


def test_panel_shows_what_changed_while_the_tab_was_cut_off(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}/memory?scope=session", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    page.context.set_offline(True)
    alice.does(f"mem session set --room {room} plan = one")
    page.context.set_offline(False)
    expect(page.locator("#memory-count")).to_have_text("1 key")
