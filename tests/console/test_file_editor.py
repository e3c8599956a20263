"""The editor of a file in a browser: exact bytes, and texts that others change."""

from __future__ import annotations

from playwright.sync_api import Dialog, expect

from console.test_files import put, read, save
from support.console_tabs import Tabs, write_text
from support.driver import Person

LATEX = b"\\begin{x}\r\n\ta\r\n\\end{x}"
"""A text with tabs and line ends of Windows, whose last line has none."""


def test_editor_keeps_every_byte_that_nobody_typed(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "a.tex", LATEX)
    mixed = b"\n one\r\ntwo\n\tthree\nfour"
    put(alice, room, "mixed.txt", mixed)
    page = tabs(alice, f"/room/{room}/files/a.tex")
    page.get_by_role("link", name="Edit", exact=True).click()
    text = page.locator("#file-text")
    assert text.input_value() == LATEX.decode().replace("\r\n", "\n")
    write_text(page, "#file-text", text.input_value().replace("a", "b"))
    save(page, "Changed a.tex")
    assert read(alice, room, "a.tex") == LATEX.replace(b"a", b"b")
    write_text(page, "#file-text", "")
    save(page, "Changed a.tex (0 B)")
    assert read(alice, room, "a.tex") == b""
    history = alice.json(f"file history --room {room}")["versions"]
    assert history[0]["source"] == "edit"
    page.goto(page.url.replace("a.tex", "mixed.txt"))
    write_text(page, "#file-text", text.input_value().replace("two", "two\nmore"))
    save(page, "Changed mixed.txt")
    assert read(alice, room, "mixed.txt") == mixed.replace(b"two\n", b"two\nmore\n")


def test_editor_says_that_the_file_has_changed_and_joins_lines(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    put(alice, room, "plan.md", "".join(lines))
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    page.locator("#here", has_text=alice.name).wait_for()
    put(bob, room, "plan.md", "".join(["of bob\n", *lines[1:]]))
    page.wait_for_function("() => document.getElementById('file-text').value.startsWith('of bob')")
    write_text(page, "#file-text", "".join(["of bob\n", *lines[1:8], "of alice\n"]))
    put(bob, room, "plan.md", "".join(["bob again\n", *lines[1:]]))
    page.locator("#file-changed", has_text="has changed since you opened it").wait_for()
    assert bob.name in page.locator("#file-changed").inner_text()
    assert "of alice" in page.locator("#file-text").input_value()
    save(page, "both are in")
    joined = "".join(["bob again\n", *lines[1:8], "of alice\n"])
    assert read(alice, room, "plan.md").decode() == joined
    page.wait_for_function("() => document.getElementById('file-text').value.startsWith('bob ag')")
    expect(page.locator("#file-save")).to_be_focused()
    write_text(page, "#file-text", f"{joined}more\n")
    save(page, "Changed plan.md (")
    assert read(alice, room, "plan.md").decode() == f"{joined}more\n"


def test_unsaved_text_is_not_left_without_a_question(alice: Person, room: str, tabs: Tabs) -> None:
    put(alice, room, "plan.md", "one\n")
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", stay)
    write_text(page, "#file-text", "two\n")
    page.get_by_role("link", name="Show the file").click()
    assert asked == ["Something here is not saved yet. Leave it?"]
    assert page.locator("#file-text").input_value() == "two\n"
    page.keyboard.press("Control+s")
    page.locator("#files-answer", has_text="Changed plan.md").wait_for()
    page.get_by_role("link", name="Show the file").click()
    page.locator(".file-text", has_text="two").wait_for()
    assert len(asked) == 1


def test_text_that_was_joined_by_ctrl_s_is_typed_on(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    put(alice, room, "plan.md", "".join(lines))
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    write_text(page, "#file-text", "".join([*lines[:8], "of alice\n"]))
    put(bob, room, "plan.md", "".join(["of bob\n", *lines[1:]]))
    page.locator("#file-changed", has_text="has changed").wait_for()
    page.keyboard.press("Control+s")
    page.wait_for_function("() => document.getElementById('file-text').value.startsWith('of bob')")
    expect(page.locator("#panel .cm-content")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("more\n")
    page.keyboard.press("Control+s")
    page.locator("#files-answer", has_text="Changed plan.md (").wait_for()
    expect(page.locator("#panel .cm-content")).to_be_focused()
    assert read(alice, room, "plan.md").decode().endswith("of alice\nmore\n")
