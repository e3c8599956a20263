"""Tool calls in a browser: cards in the log, their pages, and what those may do."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from console.test_for_everybody import DESK, PHONE, find_violations
from support.console_tabs import Tabs, find_link
from support.driver import Person, Server
from support.driver.fixtures import serving
from support.driver.installed import PROGRAMS
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import pack

EXAMPLES = Path(__file__).parents[2] / "examples" / "toolsets"

PAINTER = PROGRAMS / "painter.py"

SPY = """<!doctype html><title>spy</title><body><script>
const found = [];
const attempt = (name, work) => { try { work(); found.push(name); } catch {} };
attempt("parent", () => parent.document.title);
attempt("cookie", () => { if (!document.cookie) throw 0; });
attempt("storage", () => localStorage.setItem("a", "b"));
attempt("data", () => { if (window.__TOOL_DATA__ !== "<" + "/script><b>x") throw 0; });
attempt("webrtc", () => new RTCPeerConnection());
fetch("/").then(() => found.push("fetch"), () => {}).finally(() => {
  document.body.append(found.join(" ") || "nothing");
  parent.postMessage({ height: 333 }, "*");
  parent.postMessage({ height: 1e9 }, "http://evil.example");
});
</script>"""

MANIFEST = """manifest_version: "1"
id: shown
name: Shown
version: "1"
tools:
  - id: spy
    entrypoint: tools.shown:say
    renderer: {type: html, artifact: artifacts/spy.html}
  - id: own
    entrypoint: tools.shown:say
    renderer: {type: frame, url: "$return"}
"""

SAY = """def say(text: str) -> str:
    return text
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving() as server:
        for name in ("charts", "app-builder"):
            folder = tmp_path_factory.mktemp("zip")
            packed = shutil.make_archive(str(folder / name), "zip", EXAMPLES / name)
            assert server.owner.run("toolset import", Path(packed).read_bytes(), "-T").status == 0
        files = {"toolset.yaml": MANIFEST, "tools/shown.py": SAY, "artifacts/spy.html": SPY}
        assert server.owner.run("toolset import", pack(files), "-T").status == 0
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}", "equip room charts:*,app-builder:*,shown:*")
    yield one
    one.hang_up()


@pytest.fixture
def bench(ann: Person) -> str:
    return str(ann.json("files")["room"])


def run(person: Person, tool: str, **arguments: Any) -> None:
    """Call a tool over ssh."""
    done = person.run(f"run {tool} {json.dumps(arguments)}")
    assert done.status == 0, done


def open_card(page: Page, text: str) -> None:
    """Open the card of a call in the log."""
    card = page.locator("#log details.call", has_text=text).last
    card.locator("summary").click()
    card.locator(".call-details").wait_for()


@needs_bubblewrap
def test_card_shows_code_and_leads_to_its_file(ann: Person, bench: str, tabs: Tabs) -> None:
    page = tabs(ann, f"/room/{bench}", viewport=DESK)
    page.locator("#here", has_text=ann.name).wait_for()
    run(ann, "app-builder:write_file", path="a.py", content="print('<b>hi</b>')\n")
    open_card(page, "app-builder:write_file")
    card = page.locator("#log details.call .call-details")
    assert card.locator(".s-code-string").inner_text() == "'<b>hi</b>'"
    assert card.locator("dd", has_text="print").count() == 1
    assert card.get_by_role("link", name="Open in workspace").get_attribute("href") == (
        f"/room/{bench}/files/a.py"
    )
    card.get_by_role("link", name="Details").click()
    panel = page.locator("#panel")
    panel.locator("dt", has_text="Ended").wait_for()
    panel.locator("summary", has_text="Raw").click()
    assert json.loads(panel.locator("#raw-arguments").inner_text())["path"] == "a.py"
    for size in (DESK, PHONE):
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        assert find_violations(page) == []


@needs_bubblewrap
def test_page_of_a_tool_reaches_nothing_but_its_data(ann: Person, bench: str, tabs: Tabs) -> None:
    page = tabs(ann, f"/room/{bench}", viewport=DESK)
    page.locator("#here", has_text=ann.name).wait_for()
    run(ann, "shown:spy", text="</script><b>x")
    open_card(page, "shown:spy")
    frame = page.frame_locator("#log .frame iframe")
    frame.locator("body", has_text="data").wait_for()
    assert frame.locator("body").inner_text().strip() == "data"
    expect(page.locator("#log .frame iframe")).to_have_attribute("height", "333")
    path = page.locator("#log .frame iframe").get_attribute("src")
    answer = page.request.get(f"{page.url.partition('/room')[0]}{path}")
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts;")
    alone = page.context.new_page()
    alone.goto(answer.url)
    assert "shown in its room alone" in alone.locator("body").inner_text()
    alone.close()
    stranger = page.context.browser.new_context()  # type: ignore[union-attr]
    assert stranger.request.get(answer.url).status == 401
    stranger.close()


@needs_bubblewrap
def test_pages_of_tools_and_of_other_servers_are_never_shown_at_once(
    ann: Person, bench: str, browser: Browser
) -> None:
    """They would reach each other, and the other server's may send what it is given."""
    run(ann, "shown:spy", text="x")
    run(ann, "shown:own", text="http://localhost:1/")
    page = browser.new_page()
    link = find_link(ann)
    page.goto(link)
    page.wait_for_url(lambda url: url.endswith("/"))
    page.goto(f"{link.partition('/in')[0]}/room/{bench}")
    for number in (0, 1):
        page.locator("#log details.call").nth(number).locator("summary").click()
    own = page.locator("#log .frame:not([data-asks])")
    own.locator("iframe").wait_for()
    page.get_by_role("button", name="Load http://localhost:1/").click()
    page.locator("#log .frame[data-asks] iframe").wait_for()
    assert own.locator("iframe").count() == 0
    own.get_by_role("button", name="Load Page of shown:spy").click()
    own.locator("iframe").wait_for()
    assert page.locator("#log .frame[data-asks] iframe").count() == 0
    page.close()


@needs_bubblewrap
def test_pages_of_the_consoles_own_name_are_not_framed(ann: Person, bench: str, tabs: Tabs) -> None:
    page = tabs(ann, f"/room/{bench}", viewport=DESK)
    page.locator("#here", has_text=ann.name).wait_for()
    run(ann, "shown:own", text="http://127.0.0.1:1/")
    open_card(page, "shown:own")
    assert page.locator("#log", has_text="is also the name of this console").is_visible()
    assert page.locator("#log .frame").count() == 0
    port = page.url.split("/")[2].rpartition(":")[2]
    run(ann, "shown:own", text=f"http://localhost:{port}/")
    page.locator("#log details.call").nth(1).locator("summary").click()
    page.locator("#log", has_text="it is this console itself").wait_for()
    run(ann, "shown:own", text="http://localhost:1/")
    page.locator("#log details.call").nth(2).locator("summary").click()
    page.get_by_role("button", name="Load http://localhost:1/").wait_for()
    run(ann, "shown:own", text="http://evil.example/")
    page.locator("#log details.call").nth(3).locator("summary").click()
    page.locator("#log", has_text="Pages of evil.example are not embedded").wait_for()


def test_image_of_a_result_is_drawn_and_downloaded(
    house: Server, ann: Person, bench: str, tabs: Tabs
) -> None:
    house.owner.does(f"mcp add painter -- {shlex.join([sys.executable, str(PAINTER)])}")
    ann.does("equip room painter:*", "run painter:flag")
    page = tabs(ann, f"/room/{bench}", viewport=PHONE)
    open_card(page, "painter:flag")
    picture = page.locator("#log .call-details img")
    assert (picture.get_attribute("src") or "").startswith("data:image/png;base64,")
    assert find_violations(page) == []
    link = page.get_by_role("link", name="Download attachment 1").get_attribute("href")
    answer = page.request.get(f"{page.url.partition('/room')[0]}{link}")
    assert answer.body().startswith(b"\x89PNG")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    house.owner.does("mcp remove painter")


@needs_bubblewrap
def test_calls_of_a_removed_toolset_still_show(
    house: Server, ann: Person, bench: str, tabs: Tabs
) -> None:
    once = MANIFEST.replace("id: shown", "id: once")
    files = {"toolset.yaml": once, "tools/shown.py": SAY, "artifacts/spy.html": SPY}
    assert house.owner.run("toolset import", pack(files), "-T").status == 0
    ann.does("equip room once:*")
    run(ann, "once:spy", text="still to be read")
    house.owner.does("toolset uninstall once --yes")
    page = tabs(ann, f"/room/{bench}", viewport=DESK)
    open_card(page, "once:spy")
    assert page.locator("#log .call-details", has_text="still to be read").is_visible()
    assert page.locator("#log .call-details", has_text="not installed any more").is_visible()


TwoTabs = tuple[Page, Page]
"""The tabs of somebody who may answer for a room, and of somebody who may not."""


@pytest.fixture
def two_tabs(
    house: Server, ann: Person, bench: str, name: Callable[[str], str], tabs: Tabs
) -> Iterator[TwoTabs]:
    bob = house.person(name("bob"))
    bob.does(f"join {bench}")
    page, other = tabs(ann, f"/room/{bench}", viewport=DESK), tabs(bob, f"/room/{bench}")
    page.locator("#here", has_text=bob.name).wait_for()
    yield page, other
    bob.hang_up()


def ask_to_run(page: Page, command: str) -> None:
    """Run a command that waits for an approval, in the prompt of a tab."""
    page.fill("#text", f"/run app-builder:run_command {json.dumps({'command': command})}")
    page.press("#text", "Enter")


@needs_bubblewrap
def test_call_is_allowed_once_its_arguments_were_seen(two_tabs: TwoTabs) -> None:
    page, other = two_tabs
    command = "echo hello" + "\n" * 60 + "echo worse"
    ask_to_run(other, command)
    card = page.locator("#questions .question")
    card.get_by_text("Scroll the arguments to their end").wait_for()
    allow = card.get_by_role("button", name="Allow once")
    assert allow.is_disabled()
    assert card.get_by_role("button", name="Deny").is_enabled()
    card.locator("pre").focus()
    page.keyboard.press("End")
    expect(allow).to_be_enabled()
    assert card.get_by_text("Scroll the arguments").is_hidden()
    allow.click()
    card.wait_for(state="detached")
    other.locator("#answer", has_text="worse").wait_for()


@needs_bubblewrap
def test_card_that_takes_the_place_of_another_is_not_pressed(
    ann: Person, bench: str, two_tabs: TwoTabs
) -> None:
    page, other = two_tabs
    for word in ("first", "second"):
        ask_to_run(other, f"echo {word}")
        page.locator("#questions .question", has_text=word).wait_for()
    buttons = page.get_by_role("button", name="Allow once")
    expect(buttons.first).to_be_enabled()
    box = buttons.first.bounding_box()
    assert box is not None
    page.evaluate(
        "() => new MutationObserver(() => { window.wasRemoved = true; }).observe("
        "document.getElementById('questions'), { childList: true })"
    )
    number = page.locator("#questions input[name=number]").first.input_value()
    ann.does(f"deny {number} --room {bench}")
    page.wait_for_function("() => window.wasRemoved")
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    expect(buttons).to_be_enabled()
    assert page.locator("#questions .question", has_text="second").count() == 1
    buttons.click()
    other.locator("#log", has_text="second").wait_for()


@needs_bubblewrap
def test_approval_is_answered_in_either_place(ann: Person, bench: str, two_tabs: TwoTabs) -> None:
    page, other = two_tabs
    ask_to_run(other, "echo '<b>done</b>'")
    card = page.locator("#questions .question")
    card.wait_for()
    assert "<b>done</b>" in card.locator("pre").inner_text()
    other.locator("#questions", has_text="Owners and builders").wait_for()
    assert other.get_by_role("button", name="Allow once").count() == 0
    assert find_violations(page) == []
    card.get_by_role("button", name="Allow once").click()
    card.wait_for(state="detached")
    other.locator("#questions .question").wait_for(state="detached")
    other.locator("#answer", has_text="<b>done</b>").wait_for()
    ask_to_run(other, "echo '<b>done</b>'")
    card.wait_for()
    ann.does(f"deny not now --room {bench}")
    card.wait_for(state="detached")
    other.locator("#answer", has_text="not now").wait_for()


@needs_bubblewrap
def test_focus_goes_to_the_prompt_after_an_answer(
    ann: Person, bench: str, two_tabs: TwoTabs
) -> None:
    page, other = two_tabs
    card = page.locator("#questions .question")
    prompt, why = page.locator("#text"), page.locator("#questions [name=why]")

    def ask() -> None:
        ask_to_run(other, "true")
        expect(card.get_by_role("button", name="Allow once")).to_be_enabled()

    answers: tuple[Callable[[], None], ...] = (
        lambda: card.get_by_role("button", name="Allow once").click(),
        lambda: card.get_by_role("button", name="Allow once").press("Enter"),
        lambda: card.get_by_role("button", name="Deny").click(),
        lambda: why.press("Enter"),
    )
    for answer in answers:
        ask()
        answer()
        card.wait_for(state="detached")
        expect(prompt).to_be_focused()
    ask()
    why.press_sequentially("not n")
    ann.does(f"deny --room {bench}")
    card.wait_for(state="detached")
    expect(page.locator("#log")).to_be_focused()
