"""A browser whose session ends: unsaved texts stay, and the page says why."""

from __future__ import annotations

from playwright.sync_api import Dialog, Page, expect

from console.test_files import put, read
from support.console_tabs import Tabs, find_link, write_text
from support.driver import Person, Server


def end_session(who: Person) -> None:
    """Sign out the one browser of somebody over ssh."""
    (browser,) = who.json("web list")["browsers"]
    who.does(f"web end {browser['id']}")


def sign_in_beside(page: Page, who: Person) -> None:
    """Sign in again in another tab of the same browser, and come back."""
    other = page.context.new_page()
    other.goto(find_link(who))
    other.get_by_role("heading", name="Rooms").wait_for()
    other.close()
    page.bring_to_front()


def test_unsaved_text_stays_when_the_session_ends(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "plan.md", "one\n")
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    page.locator("#here", has_text=alice.name).wait_for()
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    write_text(page, "#file-text", "two\n")
    end_session(alice)
    bar = page.get_by_role("alert")
    bar.wait_for()
    assert "This browser was signed out. Your text is still on this page" in bar.inner_text()
    assert page.locator("#state").inner_text() == "Signed out: nothing new comes here."
    for _ in range(2):  # what the page asks by itself is refused, too
        with page.expect_response("**/waiting"):
            page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.keyboard.press("Control+s")
    page.locator("#files-answer", has_text="its session was ended").wait_for()
    assert bar.count() == 1 and asked == []
    assert page.locator("#file-text").input_value() == "two\n"
    sign_in_beside(page, alice)
    page.keyboard.press("Control+s")
    page.locator("#files-answer", has_text="Changed plan.md").wait_for()
    bar.wait_for(state="detached")
    assert read(alice, room, "plan.md") == b"two\n"
    alice.run(f"say --room {room} back again")
    page.locator("#log", has_text="back again").wait_for()


def test_page_without_unsaved_text_says_that_the_session_has_ended(
    world: Server, alice: Person, room: str, tabs: Tabs
) -> None:
    put(alice, room, "plan.md", "one\r\ntwo\r\n")
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    page.locator("#here", has_text=alice.name).wait_for()
    page.locator("#panel .cm-content").wait_for()
    world.operate("keys_remove", name=alice.name, fingerprint=alice.fingerprint)
    page.get_by_role("heading", name="Sign in").wait_for()
    said = page.locator("main").inner_text()
    assert "This browser was signed out: its session was ended, its key was removed" in said
    page.context.clear_cookies()
    page.reload()
    page.get_by_text("You are not signed in.").wait_for()


def test_line_that_is_refused_after_the_session_stays(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, "/verb/say?in=" + room)
    page.locator("#field-text").fill("a long thought")
    end_session(alice)
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("#result", has_text="was signed out").wait_for()
    expect(page.get_by_role("alert")).to_have_count(1)
    assert page.locator("#field-text").input_value() == "a long thought"
    page.locator("#field-text").fill("")
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("heading", name="Sign in").wait_for()


def test_line_of_a_prompt_comes_back_after_the_session(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(alice, f"/room/{room}")
    page.locator("#here", has_text=alice.name).wait_for()
    page.locator("#text").fill("a long thought")
    end_session(alice)
    page.get_by_role("alert").wait_for()
    page.press("#text", "Enter")
    page.locator("#answer", has_text="was signed out").wait_for()
    assert page.locator("#text").input_value() == "a long thought"
    sign_in_beside(page, alice)
    page.press("#text", "Enter")
    page.locator("#log", has_text="a long thought").wait_for()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_signing_out_says_so(alice: Person, tabs: Tabs) -> None:
    page = tabs(alice)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text(
        "You have signed out. To sign in again: ssh HOST web prints a link."
    ).wait_for()
    page.reload()
    page.get_by_text("This page needs the link").wait_for()
