"""The panel Debug: contexts of models, turns as a tree, and calls by time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from sshwarma.common.limits import MAX_OPEN_CALLS
from sshwarma.wrap.tokens import MESSAGE_OVERHEAD_TOKENS, estimate_tokens
from support.console_tabs import Tabs
from support.driver import Person, Server
from support.driver.fixtures import answering
from support.driver.model import Asked, Model, question

CALLS_AT_ONCE = 8
"""Calls that a model may make in one step."""

MANY_CALLS = 56
HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e back"


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    words = question(asked)
    is_first = asked["messages"][-1]["role"] != "tool"
    done = sum(message["role"] == "tool" for message in asked["messages"])
    if "many calls" in words and done < MANY_CALLS:
        for number in range(CALLS_AT_ONCE):
            yield {"name": "note", "arguments": {"text": f"note {number}"}}
    elif "look twice" in words and is_first:
        yield {"name": "look"}
        yield {"name": "who"}
    else:
        yield f"answer to {words.removeprefix('@qwen ')}"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    server = Model(_answers)
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_server(model: Model) -> Iterator[Server]:
    with answering(model) as server:
        yield server


def open_debug(tabs: Tabs, who: Person, room: str, view: str, **options: object) -> Page:
    return tabs(who, f"/room/{room}/debug?view={view}", viewport=DESK, **options)


def read_count(shown: str) -> int:
    """A number with commas."""
    return int(shown.replace(",", ""))


def count_tokens(asked: Asked) -> int:
    """Tokens of all texts of a request, by our estimate."""
    tools = asked.get("tools", [])
    texts = [json.dumps(tools, ensure_ascii=False, separators=(",", ":"))]  # as they are sent
    for message in asked["messages"]:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts += [part["text"] for part in parts]
    overhead = MESSAGE_OVERHEAD_TOKENS * len(asked["messages"])
    return sum(map(estimate_tokens, texts)) + overhead


def test_layers_add_up_to_the_tokens_that_the_provider_gets(
    alice: Person, room: str, tabs: Tabs, model: Model
) -> None:
    alice.does("@qwen one", "say in between")
    page = open_debug(tabs, alice, room, "context")
    context = alice.json("wrap @qwen")
    shown = read_count(page.locator("#context-total").inner_text())
    rows = page.locator("#panel tbody tr").filter(has=page.locator("td:nth-child(8)"))
    tokens = [read_count(row.locator("td").nth(4).inner_text()) for row in rows.all()]
    assert shown == context["total_tokens"] == sum(tokens)
    titles = page.locator("#panel svg rect title").all_text_contents()
    words = [int(re.findall(r"([\d,]+) tokens?$", one)[0].replace(",", "")) for one in titles]
    assert words == tokens
    alice.does("@qwen …")
    counted = count_tokens(model.asked[-1])
    assert abs(shown - counted) <= 0.05 * counted, (shown, counted)


def test_context_follows_the_room_and_shows_what_changed(
    alice: Person, room: str, tabs: Tabs
) -> None:
    page = open_debug(tabs, alice, room, "context")
    page.locator("#panel", has_text="No request was sent to qwen").wait_for()
    alice.does("@qwen one")
    page.locator("#panel #context-equal", has_text="stayed equal").wait_for()
    page.locator("#panel", has_text="the provider counted 100 tokens").wait_for()
    alice.does("say in between")
    page.locator("#context-diff .s-ok", has_text="in between").wait_for(state="attached")
    page.get_by_text("The last request that was sent").click()
    page.locator("#raw-last .line", has_text='"messages"').first.wait_for()
    page.get_by_text("The last answer, as its rows").click()
    page.locator("#raw-answer", has_text="answer to one").wait_for()


def test_hostile_text_is_text_in_every_view(alice: Person, room: str, tabs: Tabs) -> None:
    alice.run(f"say --room {room} --stdin", f"@qwen {HOSTILE}")
    page = open_debug(tabs, alice, room, "context")
    for view in ("context", "turns", "calls"):
        page.goto(f"{page.url.partition('?')[0]}?view={view}")
        for one in page.locator("#panel details").all():
            one.evaluate("(details) => { details.open = true; }")
        assert page.locator("#panel script").count() == 0
        if view != "calls":
            seen = page.locator("#panel", has_text="<script>alert(1)</script>")
            seen.wait_for()
            assert "^[[31m" in seen.inner_text() and "<U+202E>" in seen.inner_text()
    page.goto(f"{page.url.partition('?')[0]}?view=context&model=%3Cscript%3E")
    page.locator("#panel", has_text="Unknown model").wait_for()


def test_turns_are_a_tree_whose_buttons_change_it(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does("@qwen one", "@qwen two", "retry")
    first, second, again = alice.json("message list")["turns"]
    page = open_debug(tabs, alice, room, "turns")
    ids = page.locator(".turns > li").evaluate_all("(all) => all.map((one) => one.id)")
    assert ids == [f"turn-{one['short']}" for one in (first, second, again)]
    left = page.locator(f"#turn-{second['short']}")
    assert "on another branch" in left.inner_text() and "1 other beside it" in left.inner_text()
    assert "branch-1" in (left.get_attribute("class") or "")
    assert "head" in page.locator(f"#turn-{again['short']}").inner_text()
    left.get_by_role("button", name="Switch to it").click()
    page.locator(f"#turn-{second['short']}", has_text="head").wait_for()
    page.locator("#debug-answer", has_text="continues from").wait_for()
    page.locator(f"#turn-{first['short']}").get_by_role("button", name="Drop").click()
    page.locator(f"#turn-{first['short']}", has_text="dropped").wait_for()
    page.locator(f"#turn-{first['short']}").get_by_role("button", name="Restore").click()
    page.locator(f"#turn-{first['short']}", has_text="in the conversation").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.locator(f"#turn-{second['short']}", has_text="dropped").wait_for()
    assert alice.json("message list")["turns"][1]["status"] == "dropped"
    page.get_by_role("button", name="Ask my last question again").click()
    page.locator(".turns > li").nth(3).wait_for()


def test_buttons_of_turns_work_without_scripts(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does("@qwen one")
    page = tabs(alice)
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(f"{page.url.rstrip('/')}/room/{room}/debug?view=turns")
    plain.get_by_role("button", name="Drop").click()
    plain.wait_for_url("**/debug?view=turns")
    plain.get_by_role("button", name="Restore").wait_for()
    assert alice.json("message list")["turns"][0]["status"] == "dropped"


def test_who_may_not_change_turns_has_no_buttons(
    alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    alice.does("@qwen one")
    (turn,) = alice.json("message list")["turns"]
    page = open_debug(tabs, bob, room, "turns")
    page.locator(f"#turn-{turn['short']}").wait_for()
    assert page.locator("#panel form").count() == 0
    answer = page.evaluate(
        """async (turn) => {
          const body = new URLSearchParams({ turn });
          const path = "/verb/message_drop" + new URL(`?in=${location.pathname.split("/")[2]}`, location).search;
          return (await fetch(path, { method: "POST", body, headers: { Accept: "text/html;part" } })).status;
        }""",  # noqa: E501 - a line of script
        turn["id"],
    )
    assert answer == 403
    assert alice.json("message list")["turns"][0]["status"] == "completed"
    alice.does(f"room private --room {room}")
    page.reload()
    assert page.get_by_role("heading", name="Not done").is_visible()


def test_calls_are_drawn_where_they_were(alice: Person, room: str, tabs: Tabs) -> None:
    page = open_debug(tabs, alice, room, "calls")
    page.locator("#panel", has_text="No model or tool was called").wait_for()
    alice.does("@qwen look twice")
    page.locator("#panel .span", has_text="sshwarma:who").wait_for()
    (turn,) = alice.json("trace")["turns"]
    length = turn["ended_at"] - turn["at"]
    for call in turn["calls"]:
        link = page.locator(f"#call-{call['seq']}")
        assert link.get_attribute("href") == f"/room/{room}/call/{call['seq']}"
        bar = link.locator("rect.tool-time")
        drawn = float((bar.get_attribute("x") or "").rstrip("%"))
        assert abs(drawn - 100 * (call["ran_at"] - turn["at"]) / length) < 0.5
    bars = page.locator("rect.model-time").filter(has_not=page.locator("title"))
    assert bars.count() == 1 + len(turn["requests"])  # and that of the legend
    page.get_by_text("As a table").click()
    assert page.locator("#panel tbody tr").count() == len(turn["requests"]) + len(turn["calls"])


def test_many_calls_are_folded(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does("@qwen one", "@qwen many calls")
    page = open_debug(tabs, alice, room, "calls")
    (_, turn) = alice.json("trace")["turns"]
    lines = len(turn["calls"]) + len(turn["requests"])
    assert len(turn["calls"]) >= MANY_CALLS > MAX_OPEN_CALLS
    groups = page.locator("#panel > div > details")
    assert [one.get_attribute("open") is not None for one in groups.all()] == [True, False]
    assert groups.first.locator(":scope > ul > li").count() == MAX_OPEN_CALLS
    rest = groups.first.locator("details", has_text=re.compile(r"^\d+ more")).first
    assert rest.get_attribute("open") is None
    assert rest.locator("li").count() == lines - MAX_OPEN_CALLS


def test_nested_calls_are_folded_into_their_caller(alice: Person, room: str, tabs: Tabs) -> None:
    alice.run("tool new twice", b"host.call('sshwarma:look') return host.call('sshwarma:who')")
    alice.does(f"run {room}:twice")
    outer, *inner = alice.json("trace")["calls"]
    assert [one["parent"] for one in inner] == [outer["seq"]] * 2
    page = open_debug(tabs, alice, room, "calls")
    nested = page.locator(f"#nested-call-{outer['seq']}")
    assert nested.get_attribute("open") is None
    nested.get_by_text("2 nested calls").press("Enter")
    page.locator(f"#call-{inner[0]['seq']}", has_text="sshwarma:look").wait_for()
    assert page.locator("#panel > div > details > ul > li").count() == 1


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_debug_has_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, size: dict[str, int]
) -> None:
    alice.run("tool new twice", b"host.call('sshwarma:look') return host.call('sshwarma:who')")
    alice.does("@qwen look twice", "@qwen two", "retry", f"run {room}:twice")
    page = tabs(alice, f"/room/{room}/debug", viewport=size)
    for view in ("context", "turns", "calls"):
        page.goto(f"{page.url.partition('?')[0]}?view={view}")
        for one in page.locator("#panel details").all():
            one.evaluate("(details) => { details.open = true; }")
        assert find_violations(page) == [], view
        wide = page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{view} scrolls sideways"
