"""Two texts of a file, of two people: compared, joined, and one of them removed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from console.test_files import put, read, save, yes
from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs, write_text
from support.driver import Person

BASE = "one\n2\n3\n4\n5\nsix\n"
OF_BOB = "one of bob\n2\n3\n4\n5\nsix of bob\n"
OF_ALICE = "one of alice\n2\n3\n4\n5\nsix of alice\n"


def meet_conflict(page: Page, bob: Person, room: str) -> None:
    """Type a text over one that bob changes meanwhile, and save it by Ctrl-S."""
    write_text(page, "#file-text", OF_ALICE)
    put(bob, room, "plan.md", OF_BOB)
    page.locator("#file-changed", has_text="has changed").wait_for()
    page.keyboard.press("Control+s")
    page.get_by_role("heading", name="plan.md.from-").wait_for()


def keep_text(alice: Person, bob: Person, room: str) -> None:
    """Make a conflict of two texts over ssh."""
    base = put(alice, room, "plan.md", BASE)
    put(bob, room, "plan.md", OF_BOB)
    alice.run(f"file put plan.md --base {base} --room {room}", OF_ALICE)


def test_save_that_meets_a_conflict_leads_to_both_texts(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    put(alice, room, "plan.md", BASE)
    page = tabs(alice, f"/room/{room}/files/plan.md?edit")
    meet_conflict(page, bob, room)
    kept = f"plan.md.from-{alice.name}"
    warning = page.get_by_role("alert")
    expect(warning).to_be_focused()
    expect(warning).to_contain_text("Your text is not in the file: it is beside it.")
    expect(warning).to_contain_text(f"Yours is {kept}.")
    assert page.url.endswith(f"/files/{kept}")
    shown = page.locator("#panel").inner_text()
    assert "-one of bob" in shown and "+one of alice" in shown
    assert "Two files differ (both of version" in shown and "1 file changed" not in shown
    assert f"plan.md → {kept}" in shown
    assert read(alice, room, kept).decode() == OF_ALICE
    assert read(alice, room, "plan.md").decode() == OF_BOB


@pytest.mark.parametrize("takes", [True, False], ids=["take", "keep"])
def test_choice_names_whose_text_it_takes(
    alice: Person, bob: Person, room: str, tabs: Tabs, takes: bool
) -> None:
    keep_text(alice, bob, room)
    kept = f"plan.md.from-{alice.name}"
    page = tabs(bob, f"/room/{room}/files/{kept}")
    taken = f"text: plan.md becomes what {kept} says"
    page.get_by_role("button", name=f"Take {alice.name}'s {taken}").wait_for()
    page = tabs(alice, f"/room/{room}/files/{kept}")
    yes(page)
    other = f"Keep plan.md as it is: {kept} is removed"
    page.get_by_role("button", name=f"Take your {taken}" if takes else other).click()
    page.wait_for_url("**/files/plan.md")
    page.get_by_role("heading", name="plan.md", exact=True).wait_for()
    assert read(alice, room, "plan.md").decode() == (OF_ALICE if takes else OF_BOB)
    assert alice.json(f"files --room {room}")["count"] == 1


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_texts_are_joined_by_hand_and_the_rest_is_removed(
    alice: Person, bob: Person, room: str, tabs: Tabs, size: dict[str, int]
) -> None:
    keep_text(alice, bob, room)
    kept = f"plan.md.from-{alice.name}"
    page = tabs(alice, f"/room/{room}/files/{kept}", viewport=size)
    page.get_by_role("link", name="Join both by hand").click()
    take = page.get_by_role("button", name=f"Take the lines of {kept}")
    take.first.wait_for()
    page.reload()
    expect(take).to_have_count(2)
    assert page.locator("#file-text").input_value() == OF_BOB
    assert page.locator("#file-kept-text").is_hidden()
    assert page.locator("#file-joined").is_hidden()
    assert find_violations(page) == []
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
    page.get_by_role("button", name="Keep the lines of plan.md").first.click()
    take.click()
    save(page, "Changed plan.md (")
    joined = OF_BOB.replace("six of bob", "six of alice")
    assert read(alice, room, "plan.md").decode() == joined
    page.get_by_role("button", name=f"Remove {kept}").click()
    page.locator("#files-answer", has_text=f"Removed {kept}").wait_for()
    page.get_by_role("heading", name="plan.md", exact=True).wait_for()
    assert alice.json(f"files --room {room}")["count"] == 1
    page.go_back()
    page.get_by_text(f"There is no {kept} beside plan.md any more").wait_for()


def test_second_conflict_of_a_join_keeps_both_again(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    keep_text(alice, bob, room)
    kept = f"plan.md.from-{alice.name}"
    page = tabs(alice, f"/room/{room}/files/plan.md?edit&join={kept}")
    write_text(page, "#file-text", "joined\n")
    put(bob, room, "plan.md", "bob again\n")
    page.locator("#file-changed", has_text="has changed").wait_for()
    page.keyboard.press("Control+s")
    page.get_by_role("heading", name=f"{kept}-2").wait_for()
    page.get_by_role("button", name="Take your text").wait_for()
    assert read(alice, room, f"{kept}-2") == b"joined\n"
    assert read(alice, room, "plan.md") == b"bob again\n"


def test_texts_are_joined_without_scripts(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    keep_text(alice, bob, room)
    kept = f"plan.md.from-{alice.name}"
    page = tabs(alice, "/verbs")
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(page.url.replace("/verbs", f"/room/{room}/files/{kept}"))
    plain.get_by_role("link", name="Join both by hand").click()
    assert plain.get_by_label("The other text").input_value() == OF_ALICE
    assert plain.get_by_label("The other text").is_visible()
    plain.get_by_label("Text of plan.md").fill("joined\n")
    plain.get_by_role("button", name="Save", exact=True).click()
    plain.get_by_text("both texts are kept").wait_for()
    plain.get_by_role("button", name=f"Remove {kept}").click()
    plain.locator(".file-text", has_text="joined").wait_for()
    assert plain.get_by_text("Two texts.").count() == 0
    assert read(alice, room, "plan.md") == b"joined\n"
    assert alice.json(f"files --room {room}")["count"] == 1
