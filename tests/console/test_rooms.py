"""The first page and how one gets about: what is new, what waits, keys."""

from __future__ import annotations

from playwright.sync_api import expect

from console.test_for_everybody import DESK, PHONE, find_violations
from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person
from support.waiting import wait_until


def test_rooms_say_what_is_new(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=PHONE)
    page.locator("#here", has_text=alice.name).wait_for()
    bob.does(f"say --room {room} seen by her")
    page.locator("#log", has_text="seen by her").wait_for()
    page.goto(page.url.partition("/room")[0])
    item = page.locator("main li", has_text=room)
    assert item.locator(".unread").count() == 0
    bob.does(f"say --room {room} one <b>more</b>")

    def shows_one_more() -> bool:
        page.reload()
        return item.locator(".unread").count() == 1

    wait_until(shows_one_more)
    assert f"{bob.name}: one <b>more</b>" in item.inner_text()
    assert find_violations(page) == []
    page.goto(f"{page.url.rstrip('/')}/room/{room}")
    page.locator("#log", has_text="one <b>more</b>").wait_for()


def test_rooms_that_one_may_not_enter_show_nothing_of_it(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    alice.does(f"say --room {room} a secret", f"room private --room {room}")
    page = tabs(bob, viewport=DESK)
    assert "a secret" not in page.content()


def test_keys_lead_everywhere(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}", viewport=DESK)
    page.locator("#here", has_text=alice.name).wait_for()
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "text"
    assert page.locator("#text").input_value() == ""
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.locator("#panel", has_text="Memory").wait_for()
    page.keyboard.press("Escape")
    page.locator("#panel").wait_for(state="hidden")
    page.keyboard.press("F6")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    assert find_violations(page) == []
    page.get_by_label("Keys of one letter").uncheck()
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("g")
    page.reload()
    assert not page.get_by_label("Keys of one letter").is_checked()
    page.get_by_label("Keys of one letter").check()
    page.keyboard.press("Control+k")
    page.get_by_role("heading", name="Go to").wait_for()
    page.keyboard.type(room)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/room/{room}")
    page.goto(f"{page.url.partition('/room')[0]}/go?to=figur")
    page.wait_for_url("**/figures")
    page.goto(f"{page.url.rpartition('/')[0]}/go?to=nosuch")
    assert page.get_by_text("Nothing here has such a name.").is_visible()


def test_private_messages_are_shown_until_they_were_read(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    bob.does(f"tell {alice.name} only <b>you</b>")
    page = tabs(alice, viewport=PHONE)
    page.get_by_text("1 private message that you have not read").wait_for()
    assert "only <b>you</b>" in page.locator("main").inner_text()
    assert find_violations(page) == []
    page.get_by_role("button", name="Mark as read").click()
    expect(page.get_by_text("that you have not read")).to_have_count(0)
    page.goto(f"{page.url.rstrip('/')}/room/{room}")
    page.locator("#here", has_text=alice.name).wait_for()
    sent = bob.run(f"tell {alice.name} once more")
    assert "away" not in sent.out
    page.locator("#log", has_text="once more").wait_for()
    say(page, f"/tell {bob.name} got it")
    page.locator("#log", has_text="got it").wait_for()
    assert "got it" in bob.run(f"history @{alice.name}").out


def test_addresses_of_nothing_are_pages_that_lead_on(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice)
    origin = page.url.rstrip("/")
    for path, words in (
        ("/nope", "no page at this address"), ("/call/1", "no page at this address"),
        ("/room/nowhere-at-all", "nowhere-at-all"),
        (f"/room/{room}/row/99999", "Unknown row 99999"),
    ):  # fmt: skip
        answer = page.goto(f"{origin}{path}")
        assert answer is not None and answer.status == 404, path
        assert words in page.locator("main").inner_text()
        page.get_by_role("link", name="Rooms").click()
        page.wait_for_url(f"{origin}/")
    assert page.request.get(f"{origin}/api/nope", headers={"Accept": "text/html"}).status == 404
    page.context.clear_cookies()
    page.goto(f"{origin}/nope")
    assert page.locator("header").inner_text().strip() == "sshwarma"


def test_row_has_an_address(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    bob.does(*(f"say --room {room} line {number}" for number in range(5)))
    page = tabs(alice, f"/room/{room}", viewport=DESK)
    row = page.locator("#log .row", has_text="line 2")
    row.hover()
    row.get_by_role("link", name="Link to row").click()
    page.wait_for_url("**/row/*")
    expect(page.locator(".row.marked")).to_contain_text("line 2")
