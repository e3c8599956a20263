"""The terminal in a browser: the shell of ssh, its keys and its screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from console.test_for_everybody import AXE, DESK, PHONE
from support.console_tabs import Tabs
from support.driver import Person, Server
from support.driver.covers import covers


def open_terminal(tabs: Tabs, who: Person, room: str, **options: object) -> Page:
    """A tab with a terminal in a room, whose prompt is there."""
    page = tabs(who, f"/term?in={room}", **options)
    expect_screen(page, f"{room}>")
    return page


def expect_screen(page: Page, text: str) -> None:
    """Wait until the terminal shows a text in one line."""
    page.locator(".xterm-rows > div", has_text=text).first.wait_for()


def type_line(page: Page, text: str) -> None:
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def find_violations(page: Page) -> list[str]:
    """What axe finds but in the hidden text that is there for screen readers."""
    page.evaluate(AXE)
    found = page.evaluate("async () => await axe.run({ exclude: ['.xterm-accessibility'] })")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]


@covers("quit")
def test_terminal_is_the_shell_of_ssh(alice: Person, bob: Person, room: str, tabs: Tabs) -> None:
    page = open_terminal(tabs, alice, room)
    type_line(page, "/look")
    expect_screen(page, f"Here: {alice.name}")
    page.keyboard.type("/jour")
    page.keyboard.press("Tab")
    expect_screen(page, f"{room}> /journal")
    page.keyboard.press("Control+c")
    type_line(page, "hello 👩‍🚀 from a tab")
    expect_screen(page, "hello 👩‍🚀 from a tab")
    bob.does(f"say --room {room} hello from a pipe")
    expect_screen(page, "hello from a pipe")
    assert any("web" in line.split() for line in bob.run("who").lines if alice.name in line)
    type_line(page, "/quit")
    expect_screen(page, "Goodbye.")
    page.locator("#state", has_text="The session has ended. Enter connects again.").wait_for()
    page.keyboard.press("Enter")
    page.locator("#state", has_text="Connected.").wait_for()
    expect_screen(page, "hello 👩‍🚀 from a tab")
    assert page.locator(".xterm-rows", has_text="Goodbye.").count() == 1


def test_what_needs_the_ssh_key_is_refused_and_the_line_editor_works(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = open_terminal(tabs, alice, room)
    for line in ("token new x", "token list", "invite list", "web link"):
        type_line(page, f"/{line}")
        name = "_".join(line.split()[:2])
        expect_screen(page, f"{name} works only over ssh")
    type_line(page, "/allow 1")
    expect_screen(page, "No call with the number 1 waits")
    alice.does(f"mem session set fact old --room {room}")
    type_line(page, "/mem session edit fact")
    expect_screen(page, "= old")
    page.keyboard.type("er")
    page.keyboard.press("Enter")
    expect(page.locator(".xterm-rows")).to_contain_text('Changed "fact"')
    assert alice.json(f"mem session get fact --room {room}")["value"] == "older"


def test_control_c_stops_a_line_and_size_follows_the_window(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = open_terminal(tabs, alice, room, viewport=DESK)
    page.keyboard.type("half a line")
    page.keyboard.press("Control+c")
    expect_screen(page, f"{room}>")
    page.keyboard.press("Control+c")
    expect_screen(page, "Leave with Ctrl-D or /quit.")
    type_line(page, "wide " * 24)
    expect_screen(page, "wide " * 20)
    page.set_viewport_size({"width": 390, "height": 844})
    type_line(page, "word " * 24)
    expect_screen(page, "word word word")
    widest = page.wait_for_function(  # a screen that is drawn again is empty for a moment
        "() => Math.max(0, ...[...document.querySelectorAll('.xterm-rows > div')]"
        ".map((row) => row.textContent.trimEnd()).filter((row) => row.includes('word'))"
        ".map((row) => row.length))"
    )
    assert widest.json_value() < 60
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")


def test_paste_of_many_lines_waits_for_enter(alice: Person, room: str, tabs: Tabs) -> None:
    page = open_terminal(tabs, alice, room)
    lines = "\n".join(f"line {number}" for number in range(5))
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.setData("text/plain", text);
          const area = document.querySelector(".xterm-helper-textarea");
          area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }""",
        lines,
    )
    expect_screen(page, "line 4")
    assert "line 4" not in alice.run(f"history --room {room}").out
    page.keyboard.press("Enter")
    expect_screen(page, f"{alice.name}: line 0")
    assert "line 4" in alice.run(f"history --room {room}").out


def test_text_of_others_moves_nothing_on_the_screen(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    page = open_terminal(tabs, alice, room)
    hostile = "<script>alert(1)</script> \x1b]0;title\x07 \x1b]52;c;aGk=\x07 \x1b[2J \u202e back"
    bob.run(f"say --room {room} --stdin", hostile)
    expect_screen(page, "<script>alert(1)</script>")
    expect_screen(page, "^[]0;title^G")
    assert page.title() == "Terminal · sshwarma"
    assert page.locator("#terminal script").count() == 0


def test_ended_session_closes_the_terminal(alice: Person, room: str, tabs: Tabs) -> None:
    page = open_terminal(tabs, alice, room)
    (browser,) = alice.json("web list")["browsers"]
    alice.does(f"web end {browser['id']}")
    page.locator("#state", has_text="Enter leads to signing in.").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Sign in").wait_for()


def test_lost_connection_comes_back_with_what_was_on_the_screen(serve: object, tabs: Tabs) -> None:
    server: Server = serve()  # type: ignore[operator]
    owner = server.owner
    page = tabs(owner, "/term")
    expect_screen(page, "lobby>")
    type_line(page, "before the restart")
    expect_screen(page, f"{owner.name}: before the restart")
    server.stop()
    page.locator("#state", has_text="The server restarts. Enter connects again.").wait_for()
    server.flags = ("--http", server.http)
    server.start()
    page.keyboard.press("Enter")
    page.locator("#state", has_text="Connected.").wait_for()
    rows = page.locator(".xterm-rows > div", has_text=f"{owner.name}: before the restart")
    expect(rows).to_have_count(2)  # as it was, and in the log of the room
    owner.hang_up()


def test_keys_of_a_phone(alice: Person, room: str, tabs: Tabs) -> None:
    page = open_terminal(tabs, alice, room, viewport=PHONE, has_touch=True, is_mobile=True)
    bar = page.get_by_role("toolbar", name="Keys")
    page.keyboard.type("/jour")
    bar.get_by_role("button", name="Tab").click()
    expect_screen(page, f"{room}> /journal")
    bar.get_by_role("button", name="Ctrl").click()
    assert bar.get_by_role("button", name="Ctrl").get_attribute("aria-pressed") == "true"
    page.keyboard.type("u")
    assert bar.get_by_role("button", name="Ctrl").get_attribute("aria-pressed") == "false"
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    expect_screen(page, f"{alice.name}: first")
    bar.get_by_role("button", name="Up").click()
    expect_screen(page, f"{room}> first")
    bar.get_by_role("button", name="Left").click()
    page.keyboard.type("_")
    expect_screen(page, f"{room}> firs_t")
    for button in bar.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None and box["height"] >= 44


def test_f6_leaves_the_terminal_and_comes_back(alice: Person, room: str, tabs: Tabs) -> None:
    page = open_terminal(tabs, alice, room)
    label = page.locator(".xterm-helper-textarea").get_attribute("aria-label")
    assert label is not None and "F6 leaves it" in label
    inside = "() => document.getElementById('terminal').contains(document.activeElement)"
    assert page.evaluate(inside)
    page.keyboard.press("Tab")
    assert page.evaluate(inside)
    page.keyboard.press("F6")
    assert not page.evaluate(inside)
    for _ in range(2):
        page.keyboard.press("F6")
    assert page.evaluate(inside)
    type_line(page, "back again")
    expect_screen(page, f"{alice.name}: back again")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_terminal_has_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, scheme: str, size: dict[str, int]
) -> None:
    page = open_terminal(tabs, alice, room, viewport=size, color_scheme=scheme)
    type_line(page, "/help")
    expect_screen(page, "help")
    assert find_violations(page) == []
    page.get_by_label("For a screen reader").check()
    page.locator(".xterm-accessibility").wait_for(state="attached")
    assert find_violations(page) == []
    page.reload()
    assert page.get_by_label("For a screen reader").is_checked()
    page.locator(".xterm-accessibility").wait_for(state="attached")
