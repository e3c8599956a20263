"""A room in a browser: its log as it grows, and lines that are typed."""

from __future__ import annotations

from playwright.sync_api import Page

from sshwarma.common.limits import MAX_CONSOLE_ROWS
from support.console_tabs import Tabs
from support.driver import Person, Server
from support.waiting import wait_until


def say(page: Page, text: str) -> None:
    """Type a line into the prompt and send it."""
    page.fill("#text", text)
    page.press("#text", "Enter")


def test_two_browsers_and_a_terminal_hear_each_other(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    first, second = tabs(alice, f"/room/{room}"), tabs(bob, f"/room/{room}")
    first.locator("#here", has_text=bob.name).wait_for()
    terminal = alice.sit()
    terminal.type(f"/join {room}\r")
    terminal.wait_for(room)
    say(first, "hello from a browser")
    second.locator("#log", has_text="hello from a browser").wait_for()
    terminal.wait_for("hello from a browser")
    terminal.type("hello from a terminal\r")
    for page in (first, second):
        page.locator("#log", has_text="hello from a terminal").wait_for()
    assert first.locator("#text").input_value() == ""


def test_refused_line_stays_in_the_prompt(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    say(page, "/nosuch thing")
    page.locator("#answer", has_text="Unknown verb /nosuch").wait_for()
    assert page.locator("#text").input_value() == "/nosuch thing"
    say(page, "/look")
    page.locator("#answer", has_text=room).wait_for()
    assert page.locator("#text").input_value() == ""


def test_text_of_others_is_text(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    page.locator("#here", has_text=alice.name).wait_for()
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script> \x1b[31m \u202e back"
    bob.run(f"say --room {room} --stdin", hostile)
    row = page.locator("#log .row", has_text="<script>")
    row.wait_for()
    assert row.locator("img, script").count() == 0
    assert "^[[31m" in row.inner_text() and "<U+202E>" in row.inner_text()
    page.reload()
    page.locator("#log .row", has_text="<script>alert(2)</script>").wait_for()


def test_links_to_other_ports_of_this_host_are_none(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    """Browsers send them the cookie that signs in."""
    page = tabs(alice, f"/room/{room}")
    page.locator("#here", has_text=alice.name).wait_for()
    bob.run(f"file put notes.md --room {room}", b"<http://127.0.0.1:1/steal> <http://x.example/>\n")
    page.goto(f"{page.url}/files/notes.md")
    page.locator(".file-text", has_text="steal").wait_for()
    links = page.locator(".file-text a")
    found = links.evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert found == [None, "http://x.example/"]
    page.goto(page.url.replace("/files/notes.md", "/row/99999999999999999999"))
    assert "There is no row" in page.locator("main").inner_text()


def test_tab_shows_what_it_missed_once(
    serve: object, tabs: Tabs, room: str, alice: Person, world: Server
) -> None:
    page = tabs(alice, f"/room/{room}")
    page.locator("#here", has_text=alice.name).wait_for()
    page.context.set_offline(True)
    alice.does(f"say --room {room} while you were away", f"say --room {room} and more")
    page.context.set_offline(False)
    page.locator("#log", has_text="and more").wait_for()
    assert page.locator("#log .row", has_text="while you were away").count() == 1


def test_page_works_without_scripts(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    state = page.context.storage_state()
    plain = tabs(alice, java_script_enabled=False, storage_state=state)
    plain.goto(page.url)
    plain.fill("#text", "said without a script")
    plain.get_by_role("button", name="Send").click()
    plain.locator("#log", has_text="said without a script").wait_for()


def test_scrolled_up_the_view_stays(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    for number in range(60):
        bob.does(f"say --room {room} line {number}")
    page = tabs(alice, f"/room/{room}", viewport={"width": 800, "height": 600})
    page.locator("#here", has_text=alice.name).wait_for()
    page.locator("#log").hover()
    page.mouse.wheel(0, -10_000)
    wait_until(lambda: page.locator("#log").evaluate("(log) => log.scrollTop") == 0)
    bob.does(f"say --room {room} something new")
    page.get_by_role("button", name="1 new ↓").click()
    assert page.locator("#log .row", has_text="something new").is_visible()
    assert page.get_by_role("button", name="1 new ↓").is_hidden()


def distance(page: Page) -> float:
    """Pixels between the view of the log and its end."""
    found: float = page.locator("#log").evaluate(
        "(log) => log.scrollHeight - log.scrollTop - log.clientHeight"
    )
    return found


def test_view_stays_at_the_end_whatever_comes(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    for number in range(60):
        bob.does(f"say --room {room} line {number}")
    page = tabs(alice, f"/room/{room}", viewport={"width": 1280, "height": 700})
    page.locator("#here", has_text=alice.name).wait_for()
    bob.run(f"say --room {room} --stdin", b"a tall\n" * 30)
    page.locator("#log", has_text="a tall").wait_for()
    wait_until(lambda: distance(page) < 2)
    page.locator("#tabs").get_by_role("link", name="Memory").click()
    page.locator("#memory-count").wait_for()
    wait_until(lambda: distance(page) < 2)
    say(page, "/help")
    page.locator("#answer", has_text="/look").wait_for()
    wait_until(lambda: distance(page) < 2)
    assert page.get_by_role("button", name="new ↓").count() == 0
    page.locator("#log").hover()
    page.mouse.wheel(0, -10_000)
    wait_until(lambda: distance(page) > 100)
    say(page, "my own line")
    page.locator("#log", has_text="my own line").wait_for()
    wait_until(lambda: distance(page) < 2)
    say(page, "/look")
    page.locator("#answer", has_text=room).wait_for()
    page.get_by_role("button", name="Close the result").click()
    assert page.locator("#answer").inner_text() == ""


def test_older_rows_are_a_link_away(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    bob.does(*(f"say --room {room} line {number}" for number in range(MAX_CONSOLE_ROWS + 5)))
    page = tabs(alice, f"/room/{room}")
    assert page.locator("#log .row", has_text="line 0").count() == 0
    page.get_by_role("link", name="Older").click()
    page.locator("#log .row", has_text="line 0").wait_for()
    page.get_by_role("link", name="Newest").click()
    page.locator("#log .row", has_text=f"line {MAX_CONSOLE_ROWS + 4}").wait_for()


def test_who_joins_another_room_sees_its_page(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    say(page, "/join lobby")
    page.wait_for_url("**/room/lobby")
    say(page, f"/join {room}")
    page.wait_for_url(f"**/room/{room}")


def test_closed_room_ends_its_tabs(
    world: Server, alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    page = tabs(bob, f"/room/{room}")
    page.locator("#here", has_text=bob.name).wait_for()
    alice.does(f"room private --room {room}")
    world.owner.does(f"say --room {room} not for bob")
    page.wait_for_function("() => document.getElementById('state').textContent !== ''")
    assert "not for bob" not in page.locator("#log").inner_text()
    page.reload()
    assert page.get_by_role("heading", name="Not done").is_visible()
