"""Answers in progress, as every terminal in a room hears them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.common.limits import MAX_LIVE_CHARACTERS, MAX_LIVE_LINES
from sshwarma.ssh.door import live_answers as coming
from sshwarma.ssh.door.live_answers import (
    LIVE_CUT_STEP_CHARACTERS,
    LiveAnswerFeed,
    LiveAnswerView,
    cut_to_newest,
)
from sshwarma.terminal.highlight import highlight_code
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.events import ActiveTool, EventBus, StreamEnded, StreamUpdated


class Watcher:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: dict[str, LiveAnswerView] = {}
        self.times = 0
        self.received = asyncio.Event()

    def show_answer(self, turn_id: str, coming: LiveAnswerView | None) -> None:
        self.times += 1
        self.received.set()
        if coming is None:
            self.shown.pop(turn_id)
        else:
            self.shown[turn_id] = coming

    async def hears(self, times: int) -> None:
        """Wait until it was shown something `times` times."""
        while self.times < times:
            self.received.clear()
            await self.received.wait()

    def progress(self, turn_id: str = "t") -> str:
        return self.shown[turn_id].progress.plain()


class Room:
    """A world of one room, with everybody's answers."""

    def __init__(self) -> None:
        self.bus = EventBus()
        agents = AgentDirectory()
        agents.load([Agent("q", "qwen", kind="model")], ())
        self.tasks: list[asyncio.Task[Any]] = []
        world: Any = SimpleNamespace(bus=self.bus, agents=agents)
        self.answers = LiveAnswerFeed(world, self._in_background)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    def streams(self, text: str = "", turn: str = "t", ago: float = 0.0, **more: Any) -> None:
        since = vars(coming)["time"].monotonic() - ago
        self.bus.publish(StreamUpdated("r", turn, "q", text, since, **more))

    def ends(self, turn: str = "t") -> None:
        self.bus.publish(StreamEnded("r", turn))


@pytest.fixture
async def room() -> Room:
    return Room()


@pytest.mark.parametrize(
    ("ago", "more", "expected"),
    [
        (0.0, {}, "qwen 0.0s"),
        (3.21, {"tokens": 140}, "qwen 3.2s · 140 tokens"),
        (
            12.9,
            {"tokens": 1234, "active_tools": (ActiveTool("sshwarma__look"),)},
            "qwen 12s · 1.2k tokens · look",
        ),
        (
            125,
            {"active_tools": (ActiveTool("a__b__who"), ActiveTool("x__who"), ActiveTool("look"))},
            "qwen 2m05s · who ×2, look",
        ),
        (
            1.0,
            {"active_tools": (ActiveTool("a__b", "50 %: x__y"),)},
            "qwen 1.0s · b: 50 %: x__y",
        ),
    ],
)
async def test_progress_line_shows_state_and_seconds(
    room: Room, ago: float, more: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    watcher = Watcher()
    room.answers.watch("r", watcher)
    room.streams("text", ago=ago, **more)
    assert watcher.progress()[2:] == expected
    room.ends()


async def test_late_watcher_sees_current_answers_and_unwatch_clears_them(room: Room) -> None:
    room.streams("so far")
    first, later = Watcher(), Watcher()
    room.answers.watch("r", first)
    room.answers.watch("r", later)
    assert first.shown["t"].text is later.shown["t"].text  # drawn once
    room.answers.unwatch("r", first)
    assert first.shown == {}
    room.answers.unwatch("r", first)  # twice is as once
    room.streams("so far and on")
    assert later.shown["t"].text.plain() == "qwen: so far and on"
    assert first.times == 2
    room.ends()
    assert later.shown == {}


async def test_timer_runs_only_with_a_turn_and_a_watcher(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming, "ELAPSED_REDRAW_SECONDS", 0.01)
    watcher = Watcher()
    room.answers.watch("r", watcher)
    assert room.answers._timer is None
    room.streams("x")
    room.streams("y", turn="other")
    assert room.answers._timer is not None
    text = watcher.shown["t"].text
    await watcher.hears(10)
    assert watcher.shown["t"].text is text  # only the seconds are new
    room.answers.unwatch("r", watcher)
    assert room.answers._timer is None
    room.answers.watch("r", watcher)
    assert room.answers._timer is not None
    room.ends()
    assert room.answers._timer is not None
    room.ends("other")
    assert room.answers._timer is None
    assert watcher.shown == {}


async def test_silent_turn_is_dropped_after_a_timeout(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming, "ELAPSED_REDRAW_SECONDS", 0.01)
    monkeypatch.setattr(coming, "MAX_SILENT_TURN_SECONDS", 0.02)
    watcher = Watcher()
    room.answers.watch("r", watcher)
    room.streams("x")
    while watcher.shown:
        await watcher.hears(watcher.times + 1)
    assert room.answers._timer is None


async def test_complete_code_block_is_highlighted_once(room: Room) -> None:
    room.answers.watch("r", Watcher())
    highlight_code.cache_clear()
    text = "So:\n```python\nx = 1\n```\nand"
    for end in range(len(text) + 1):
        room.streams(text[:end])
    await asyncio.gather(*room.tasks)
    assert len(room.tasks) == 1
    assert highlight_code.cache_info().currsize == 1
    room.ends()


def test_cut_to_newest_keeps_the_end_of_a_long_text() -> None:
    assert cut_to_newest("short\ntext") == "short\ntext"
    words = "word " * 10_000
    starts = set()
    for size in range(20_000, 30_000, 50):
        shown = cut_to_newest(words[:size])
        assert len(shown) <= MAX_LIVE_CHARACTERS + 1
        assert shown.startswith("…word ")
        starts.add(size - len(shown))
    assert len(starts) <= 10_000 // LIVE_CUT_STEP_CHARACTERS + 1  # rows do not jump with every word
    lines = "\n".join(f"{number}" for number in range(1000))
    assert cut_to_newest(lines).split("\n") == ["…900", *(f"{n}" for n in range(901, 1000))]
    assert len(cut_to_newest(lines).split("\n")) == MAX_LIVE_LINES
    assert len(cut_to_newest("x" * 200_000)) <= MAX_LIVE_CHARACTERS + 1
