"""Editors of code in a browser: the same text in the form, to the last line end."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person

UPGRADE = """async ([text, more]) => {
  const area = document.querySelector("[name=value]");
  area.textContent = text;
  for (const [name, value] of Object.entries({ "data-language": "python", ...more })) area.setAttribute(name, value);
  const source = document.querySelector("script[src$='edit.js']").src;
  await (await import(source)).upgrade();
}"""  # noqa: E501 - a line of script


def open_editor(page: Page, text: str, **attributes: str) -> None:
    """Make an editor of the text of a verb's form, as of a page that has one."""
    page.evaluate(UPGRADE, [text, {name.replace("_", "-"): v for name, v in attributes.items()}])
    page.locator(".cm-content").wait_for()


def store(page: Page, alice: Person, room: str) -> str:
    """Send the form; return the value that it has stored."""
    page.locator("[name=key]").fill("k")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("#result:not(:empty)").wait_for()
    stored: str = json.loads(alice.run(f"mem session get k --room {room} --json").out)["value"]
    return stored


TEXTS = {
    "tabs": "\tone\n  two\n\n",
    "windows": "one\r\ntwo\r\n",
    "mixed": "one\r\ntwo\n",
    "old": "a\rb",
    "hostile": "<script>alert(1)</script>\u202e",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_editor_changes_no_letter_that_nobody_typed(
    alice: Person, room: str, tabs: Tabs, text: str
) -> None:
    page = tabs(alice, f"/verb/mem_session_set?in={room}")
    open_editor(page, text)
    assert store(page, alice, room) == text
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("x")
    page.evaluate("() => { document.getElementById('result').textContent = ''; }")
    assert store(page, alice, room) == f"x{text}"


def test_tab_leaves_the_editor_and_changes_are_marked(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/mem_session_set?in={room}")
    open_editor(page, "if a:\n    b")
    form, text = page.locator("#form"), page.locator(".cm-content")
    assert text.get_attribute("aria-label") == page.locator("label[for=field-value]").inner_text()
    text.click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+]")
    assert page.locator("[name=value]").input_value() == "  if a:\n    b"
    assert form.get_attribute("data-unsaved") == ""
    page.keyboard.press("Control+z")
    assert form.get_attribute("data-unsaved") is None
    page.keyboard.press("Tab")
    assert not text.evaluate("(one) => one.contains(document.activeElement)")
    assert page.locator("[name=value]").input_value() == "if a:\n    b"
    assert page.locator(".cm-content .s-code-keyword").inner_text() == "if"
    text.press("End")
    page.keyboard.type("#")
    assert form.get_attribute("data-unsaved") == ""
    store(page, alice, room)
    page.locator("#form:not([data-unsaved])").wait_for()


def test_read_only_text_cannot_be_changed(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/mem_session_set?in={room}")
    open_editor(page, "fixed", readonly="")
    page.locator(".cm-content").click()
    page.keyboard.type("x")
    page.keyboard.press("Delete")
    assert page.locator("[name=value]").input_value() == "fixed"
    assert page.locator(".cm-content").get_attribute("aria-readonly") == "true"


def test_conflict_is_settled_piece_by_piece(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, f"/verb/mem_session_set?in={room}")
    page.evaluate(
        """() => {
          const other = document.createElement("textarea");
          other.id = "other";
          other.value = "one\\ntheirs\\n3\\n4\\n5\\nlast";
          document.getElementById("form").append(other);
        }"""
    )
    open_editor(page, "one\nmine\n3\n4\n5\nend", data_other="other")
    assert page.locator("#other").is_hidden()
    page.get_by_role("button", name="Keep what is here").first.click()
    page.get_by_role("button", name="Take the other text").click()
    assert page.locator("[name=value]").input_value() == "one\nmine\n3\n4\n5\nlast"
    assert page.get_by_role("button", name="Keep what is here").count() == 0


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_draft_of_a_skill_is_edited_and_stored(
    alice: Person, room: str, tabs: Tabs, scheme: str, size: dict[str, int]
) -> None:
    skill = f"s-{room}"
    alice.does(f"skill new {skill} = # Be kind")
    page = tabs(alice, f"/room/{room}", viewport=size, color_scheme=scheme)
    say(page, f"/skill edit {skill}")
    page.locator("#answer .cm-content .s-code-keyword", has_text="Be kind").wait_for()
    assert find_violations(page) == []
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
    page.locator("#answer .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" and brief")
    page.get_by_role("button", name="Store").click()
    page.locator("#answer .cm-content").wait_for(state="detached")
    assert "Be kind and brief" in alice.run(f"skill show {skill}").out
