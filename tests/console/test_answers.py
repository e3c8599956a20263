"""Answers of models in a browser, as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from support.console_tabs import Tabs
from support.driver import Server
from support.driver.fixtures import answering_with

begin, more, finish = Event(), Event(), Event()
"""What the model waits for, in this order."""

goes_on = Event()
"""What an answer that somebody stops waits for."""


def _answers(asked: dict[str, Any]) -> Iterator[str]:
    if "for ever" in str(asked["messages"][-1]):
        yield "It goes on"
        goes_on.wait(60)
        return
    yield "First **part**"
    begin.wait(60)
    yield " and second part"
    more.wait(60)
    yield ".\n\n```python\nprint('<b>')\n```\n"
    finish.wait(60)


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


def test_answer_grows_and_is_drawn_when_it_is_whole(house: Server, tabs: Tabs) -> None:
    owner = house.owner
    page = tabs(owner, "/room/lobby")
    page.fill("#text", "@qwen say something")
    page.press("#text", "Enter")
    draft = page.locator("#log .draft")
    draft.filter(has_text="qwen: First **part**").wait_for()
    assert draft.get_attribute("aria-hidden") == "true"
    assert page.locator("#state").inner_text() == "qwen is answering."
    begin.set()
    draft.filter(has_text="First **part** and second part").wait_for()
    more.set()
    finish.set()
    row = page.locator("#log .row:not(.draft)", has_text="First part and second part.")
    row.wait_for()
    assert draft.count() == 0
    assert row.locator(".s-strong").inner_text() == "part"
    assert row.locator(".s-code-string").inner_text() == "'<b>'"
    assert page.locator("#state").inner_text() == ""


def test_answer_is_stopped_by_a_button(house: Server, tabs: Tabs) -> None:
    page = tabs(house.owner, "/room/lobby")
    page.locator("#here", has_text=house.owner.name).wait_for()
    stop = page.get_by_role("button", name="Stop", exact=True)
    assert not stop.is_visible()
    page.fill("#text", "@qwen go on for ever")
    page.press("#text", "Enter")
    page.locator("#log .draft", has_text="It goes on").wait_for()
    stop.click()
    page.locator("#answer", has_text="topped").wait_for()
    page.locator("#log .draft").wait_for(state="detached")
    stop.wait_for(state="hidden")
    goes_on.set()
