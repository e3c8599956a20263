"""Live answers on terminals: the newest text, and a progress line below it.

The progress line shows the author, elapsed time, token count, and running tools or wait reason.

Each answer is drawn once for all terminals in a room. One timer for the whole server redraws the
elapsed time; it runs only while a watched room has a running turn.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sshwarma.common.limits import MAX_LIVE_CHARACTERS, MAX_LIVE_LINES, MAX_SHOWN_ANSWER_CHARACTERS
from sshwarma.terminal.markdown import highlight_newest_code
from sshwarma.terminal.text import Block, Line, block, line, lines_with_head
from sshwarma.world.events import ActiveTool, StreamEnded, StreamUpdated
from sshwarma.world.world import World

ELAPSED_REDRAW_SECONDS: Final = 0.25
"""Interval at which the elapsed time is redrawn while no other event comes."""

MAX_SILENT_TURN_SECONDS: Final = 900.0
"""A turn without events for longer is hidden. Every turn publishes its end; this is the fallback
for an end that was lost."""

LIVE_CUT_STEP_CHARACTERS: Final = 2_000
"""Steps in which a long text loses its beginning, so that rows do not jump with every word."""

_SPACE: Final = re.compile(r"\s")
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(frozen=True, slots=True)
class LiveAnswerView:
    """A running answer as drawn: its text so far and its progress line.

    A tool that a person called shows its progress too; `is_answer` is then False.
    """

    author_name: str
    text: Block
    progress: Line
    is_answer: bool = True


class AnswerWatcher(Protocol):
    """A terminal that shows the live answers of a room."""

    def show_answer(self, turn_id: str, coming: LiveAnswerView | None) -> None:
        """Show the current state of an answer; None removes it."""


class _LiveTurn:
    """A running turn. Its text is drawn only when it is watched and has changed."""

    def __init__(self, who: str, answers: bool, event: StreamUpdated) -> None:
        self.who = who
        self.answers = answers
        self.event = event
        self.last_event_at = time.monotonic()
        self.fences = 0  # fences in the text at the last check for finished code
        self._drawn: tuple[str, Block] = ("", Block())

    def draw(self, now: float) -> LiveAnswerView:
        text = self.event.text.strip()
        if self._drawn[0] != text:
            lines = (
                lines_with_head(("model", self.who), ": ", text=cut_to_newest(text)) if text else ()
            )
            self._drawn = (text, block(*lines))
        progress = _draw_progress(self.who, self.event, now)
        return LiveAnswerView(self.who, self._drawn[1], progress, self.answers)


class LiveAnswerFeed:
    """The running answers and the watchers of every room."""

    def __init__(
        self, world: World, in_background: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]
    ) -> None:
        self._world = world
        self._in_background = in_background
        self._rooms: dict[str, dict[str, _LiveTurn]] = {}
        self._watchers: dict[str, dict[AnswerWatcher, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._preparing: asyncio.Task[Any] | None = None
        world.bus.on_event(StreamUpdated, self._on_streaming)
        world.bus.on_event(StreamEnded, self._on_stream_ended)

    def watch(self, room_id: str, watcher: AnswerWatcher) -> None:
        """Show the running answers of a room to a watcher, now and after each change."""
        self._watchers.setdefault(room_id, {})[watcher] = None
        now = time.monotonic()
        for turn_id, answer in self._rooms.get(room_id, {}).items():
            watcher.show_answer(turn_id, answer.draw(now))
        self._set_timer()

    def unwatch(self, room_id: str, watcher: AnswerWatcher) -> None:
        """Unsubscribe a watcher and remove the answers it shows."""
        watchers = self._watchers.get(room_id, {})
        if watcher not in watchers:
            return
        del watchers[watcher]
        if not watchers:
            del self._watchers[room_id]
        for turn_id in self._rooms.get(room_id, {}):
            watcher.show_answer(turn_id, None)
        self._set_timer()

    def _on_streaming(self, event: StreamUpdated) -> None:
        answers = self._rooms.setdefault(event.room_id, {})
        answer = answers.get(event.turn_id)
        if answer is None:
            author = self._world.agents.get(event.author_id)
            name = self._world.agents.name_of(event.author_id)
            is_model = author is not None and author.kind == "model"
            answer = answers[event.turn_id] = _LiveTurn(name, is_model, event)
        answer.event = event
        answer.last_event_at = time.monotonic()
        if event.room_id in self._watchers:
            self._highlight_finished_code(answer)
            self._show(event.room_id, event.turn_id, answer.draw(answer.last_event_at))
            self._set_timer()

    def _on_stream_ended(self, event: StreamEnded) -> None:
        answers = self._rooms.get(event.room_id, {})
        if answers.pop(event.turn_id, None) is not None:
            self._show(event.room_id, event.turn_id, None)
        if not answers:
            self._rooms.pop(event.room_id, None)
        self._set_timer()

    def _show(self, room_id: str, turn_id: str, coming: LiveAnswerView | None) -> None:
        for watcher in list(self._watchers.get(room_id, ())):
            watcher.show_answer(turn_id, coming)

    def _highlight_finished_code(self, answer: _LiveTurn) -> None:
        """Highlight a code block in a thread as soon as it is complete.

        Highlighting is the slowest part of drawing an answer; this way it is cached when the
        answer ends.
        """
        text = answer.event.text
        if len(text) > MAX_SHOWN_ANSWER_CHARACTERS:
            return
        fences = text.count("```")
        if fences == answer.fences or (self._preparing and not self._preparing.done()):
            return
        answer.fences = fences
        if fences and fences % 2 == 0:
            self._preparing = self._in_background(asyncio.to_thread(highlight_newest_code, text))

    # Elapsed time

    def _set_timer(self) -> None:
        """Start the timer if any running turn is watched; stop it otherwise."""
        if not any(room_id in self._watchers for room_id in self._rooms):
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ELAPSED_REDRAW_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = time.monotonic()
        for room_id, answers in list(self._rooms.items()):
            for turn_id, answer in list(answers.items()):
                if now - answer.last_event_at > MAX_SILENT_TURN_SECONDS:
                    self._on_stream_ended(StreamEnded(room_id, turn_id))
                elif room_id in self._watchers:
                    self._show(room_id, turn_id, answer.draw(now))
        self._set_timer()


def cut_to_newest(text: str) -> str:
    """Return the end of a growing text, the part that is drawn."""
    start = 0
    if len(text) > MAX_LIVE_CHARACTERS:
        start = (
            (len(text) - MAX_LIVE_CHARACTERS + LIVE_CUT_STEP_CHARACTERS - 1)
            // LIVE_CUT_STEP_CHARACTERS
            * LIVE_CUT_STEP_CHARACTERS
        )
        space = _SPACE.search(text, start, start + 200)
        start = space.end() if space else start
    lines = text[start:].split("\n")
    is_cut = start > 0 or len(lines) > MAX_LIVE_LINES
    return "…" * is_cut + "\n".join(lines[-MAX_LIVE_LINES:])


def _draw_progress(name: str, event: StreamUpdated, now: float) -> Line:
    elapsed = max(0.0, now - event.since)
    turn = _SPINNER[int(elapsed / ELAPSED_REDRAW_SECONDS) % len(_SPINNER)]
    details = [_format_elapsed(elapsed)]
    if event.tokens:
        details.append(f"{_format_token_count(event.tokens)} tokens")
    if event.active_tools:
        details.append(_format_tools(event.active_tools))
    if event.wait_reason:
        details.append(event.wait_reason)
    return line(("mark", f"{turn} "), ("model", name), ("dim", f" {' · '.join(details)}"))


def _format_elapsed(elapsed: float) -> str:
    if elapsed < 10:
        return f"{elapsed:.1f}s"
    minutes, seconds = divmod(int(elapsed), 60)
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def _format_token_count(count: int) -> str:
    return f"{count}" if count < 1000 else f"{count / 1000:.1f}k"


def _format_tools(tools: tuple[ActiveTool, ...]) -> str:
    """Format tools without namespaces, counting repeats: `look: 3 of 5, who ×2`."""
    counts = Counter(
        (tool.name.rpartition("__")[2] or tool.name) + (f": {tool.report}" if tool.report else "")
        for tool in tools
    )
    return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
