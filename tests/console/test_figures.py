"""The page of figures: what /stats says, drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from sshwarma.web.console.svg import Bar, draw_bars, draw_columns, make_element
from support.console_tabs import Tabs
from support.driver import Person, Server
from support.driver.fixtures import answering_with
from support.driver.model import Asked

HOSTILE = "</svg><script>alert(1)</script> \x1b[31m \u202e"


def _answers(asked: Asked) -> Iterator[str]:
    yield "an answer"


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


def read_bars(page: Page, figure: str) -> dict[str, float]:
    """The numbers of a picture, by the names of its bars."""
    found = {}
    for title in page.locator(f"#{figure} rect title").all_text_contents():
        name, _, words = title.rpartition(": ")
        number = re.match(r"\$?([\d,.]+)", words)
        assert number is not None, title
        found[name] = float(number[1].replace(",", ""))
    return found


def read_rows(page: Page, figure: str) -> dict[str, list[str]]:
    rows = page.locator(f"section[aria-labelledby=figure-{figure}] tbody tr")
    cells = [row.locator("th, td").all_inner_texts() for row in rows.all()]
    return {name: rest for name, *rest in cells}


def test_bars_and_rows_are_what_stats_say(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does("@qwen one", "@qwen two", "run sshwarma:look", "run sshwarma:who")
    alice.does("run sshwarma:look")
    alice.run("tool new broken", b"error('no')")
    alice.run(f"run {room}:broken")
    stats = alice.json("stats --days 30")
    page = tabs(alice, f"/figures?in={room}")
    for figure, name, uses in (("day", "day", stats["days"]), ("model", "model", stats["spent"])):
        assert {one: v for one, v in read_bars_of(page, f"{figure}-tokens").items() if v} == {
            use[name]: use["total_tokens"] for use in uses
        }
        rows = read_rows(page, figure)
        assert {one: [int(cell) for cell in cells[:5]] for one, cells in rows.items()} == {
            use[name]: [
                use["answers"], use["requests"], use["prompt_tokens"], use["completion_tokens"],
                use["total_tokens"],
            ]
            for use in uses
        }  # fmt: skip
    assert read_bars_of(page, "tool-calls") == {one["tool"]: one["calls"] for one in stats["tools"]}
    errors = {one["tool"]: one["errors"] for one in stats["tools"] if one["errors"]}
    assert errors and read_bars_of(page, "tool-errors") == errors
    total = page.locator("#total").inner_text()
    assert f"{stats['total']['answers']} answers, {stats['total']['total_tokens']} tokens" in total
    widths = page.locator("svg[aria-labelledby=tool-calls-title] rect").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().width)"
    )
    calls = [one["calls"] for one in stats["tools"]]
    assert [one / widths[0] for one in widths] == pytest.approx(
        [one / calls[0] for one in calls], abs=0.01
    )


def read_bars_of(page: Page, picture: str) -> dict[str, float]:
    page.locator(f"#{picture}-title").wait_for(state="attached")
    page.evaluate(
        "(id) => { document.getElementById(`${id}-title`).parentElement.id = id; }", picture
    )
    return read_bars(page, picture)


def test_choice_of_room_and_period_is_a_form(alice: Person, room: str, tabs: Tabs) -> None:
    alice.does("@qwen one")
    page = tabs(alice, f"/figures?in={room}", viewport=DESK)
    page.get_by_label("Period").select_option("7 days")
    page.get_by_label("Room").select_option("lobby")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/figures?in=lobby&days=7")
    assert "In lobby, in 7 days" in page.locator("#total").inner_text()
    page.goto(f"{page.url.partition('?')[0]}?in=lobby&days=0")
    page.get_by_text("days: must be a number from 1 to").wait_for()


def test_every_room_needs_the_right_that_stats_need(
    world: Server, alice: Person, room: str, tabs: Tabs
) -> None:
    alice.does("@qwen one")
    page = tabs(alice, "/figures?in=lobby")
    assert page.locator("option", has_text="Every room").count() == 0
    page.goto(f"{page.url.partition('?')[0]}?in=")
    assert page.get_by_role("heading", name="Not done").is_visible()
    page = tabs(world.owner, "/figures?in=")
    stats = world.owner.json("stats --all --days 30")
    assert read_bars_of(page, "room-tokens") == {
        use["room"]: use["total_tokens"] for use in stats["rooms"]
    }
    assert room in read_rows(page, "room")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_figures_have_no_fault_that_axe_finds(
    alice: Person, room: str, tabs: Tabs, size: dict[str, int], scheme: str
) -> None:
    alice.does("@qwen one", "run sshwarma:look")
    page = tabs(alice, f"/figures?in={room}", viewport=size, color_scheme=scheme)
    page.locator("svg").first.wait_for()
    assert find_violations(page) == []
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
    sizes = page.locator("svg text").evaluate_all(
        "(all) => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 12


def test_pictures_escape_names_and_have_no_styles() -> None:
    bars = [Bar(HOSTILE, 1, HOSTILE), Bar("none", 0, "0")]
    for drawn in (draw_bars("a", HOSTILE, bars), draw_columns("a", HOSTILE, bars)):
        assert "<script" not in drawn and "style=" not in drawn
        assert "\x1b" not in drawn and "\u202e" not in drawn and "&lt;U+202E&gt;" in drawn
    assert make_element("a", href='"x" y') == '<a href="&#34;x&#34; y"></a>'
    assert 'width="0.000%"' in draw_bars("a", "t", bars)
    assert draw_bars("a", "t", []).count("<rect") == 0
