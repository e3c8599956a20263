"""The console by keyboard, on a phone, and read aloud."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page

from support.console_tabs import Tabs
from support.driver import Person

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}


def find_violations(page: Page) -> list[str]:
    """What axe finds wrong with a page."""
    page.evaluate(AXE)
    found: dict[str, Any] = page.evaluate("async () => await axe.run()")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_have_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, scheme: str, size: dict[str, int]
) -> None:
    alice.does(f"say --room {room} hello", f"note --room {room} a note")
    page = tabs(alice, viewport=size, color_scheme=scheme)
    origin = page.url.rstrip("/")
    panels = [f"/room/{room}/{name}" for name in ("here", "memory")]
    for path in (
        "/",
        f"/room/{room}",
        *panels,
        "/room/nowhere",
        "/system",
        "/messages",
        "/verbs",
        "/verb/note",
        "/go",
        "/keys",
        "/in",
    ):
        page.goto(f"{origin}{path}")
        assert find_violations(page) == [], path
        wide = page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{path} scrolls sideways"


@pytest.mark.parametrize(
    "size",
    [(390, 400), (640, 400), (390, 460), (390, 320)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_prompt_is_seen_over_a_keyboard_and_at_a_high_zoom(
    alice: Person, room: str, tabs: Tabs, size: tuple[int, int]
) -> None:
    width, height = size
    alice.does(f"say --room {room} the newest line", f"vibe --room {room} = smells of rain")
    page = tabs(alice, f"/room/{room}", viewport={"width": width, "height": height})
    page.locator("#text").fill("\n".join(str(number) for number in range(12)))
    for place in ("#text", "#prompt button"):
        box = page.locator(place).bounding_box()
        assert box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height, place
    row = page.locator("#log .row", has_text="the newest line").bounding_box()
    log = page.locator("#log").bounding_box()
    assert row is not None and log is not None and row["height"] <= log["height"]
    assert find_violations(page) == []


def test_everything_is_reached_by_keyboard(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    assert page.evaluate("() => document.activeElement.id") == "text"
    page.keyboard.type("/look")
    page.keyboard.press("Shift+Enter")
    assert page.locator("#text").input_value() == "/look\n"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#answer", has_text=room).wait_for()
    page.goto(page.url)
    seen = set()
    page.evaluate("() => document.activeElement.blur()")
    for _ in range(24):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("() => document.activeElement.textContent.trim().slice(0, 20)"))
    assert {"To the content", "Rooms", "Sign out", "Send"} <= seen


def test_letters_that_are_composed_are_not_sent(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/room/{room}")
    page.fill("#text", "にほん")
    page.locator("#text").dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    page.locator("#text").dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    assert page.locator("#text").input_value() == "にほん"
    assert page.locator("#log .row", has_text="にほん").count() == 0
